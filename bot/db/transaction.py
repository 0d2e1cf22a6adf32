"""What functions of this package work inside: a transaction that somebody else begins and ends."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVarTuple, overload

from sqlalchemy import CursorResult, Executable
from sqlalchemy.engine import Connection
from sqlalchemy.sql.selectable import TypedReturnsRows

from bot.domain import Changes, CommitListener

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

Columns = TypeVarTuple("Columns")
Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class Transaction(Protocol):
    """Runs statements, and keeps what they leave to be done; other packages only pass it on."""

    @property
    def changes(self) -> Changes:
        """What the commit listener hears once this is committed; nobody does if it is rolled back."""
        ...

    @overload
    async def execute(
        self, statement: TypedReturnsRows[*Columns], parameters: Parameters = None
    ) -> CursorResult[*Columns]: ...
    @overload
    async def execute(
        self, statement: Executable, parameters: Parameters = None
    ) -> CursorResult[*tuple[Any, ...]]: ...
    async def execute(
        self, statement: Executable, parameters: Parameters = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run a statement; the result holds all of its rows."""
        ...

    async def exec_driver_sql(self, statement: str) -> CursorResult[*tuple[Any, ...]]:
        """Run SQL as it is written."""
        ...


class LoopTransaction:
    """A transaction whose statements run in the event loop: that takes less time than a trip to a thread."""

    def __init__(self, connection: Connection) -> None:
        self.changes = Changes()
        self._connection = connection

    async def execute(self, statement: Any, parameters: Parameters = None) -> CursorResult[Any]:
        """Run a statement; the result holds all of its rows."""
        return self._connection.execute(statement, parameters)

    async def exec_driver_sql(self, statement: str) -> CursorResult[Any]:
        """Run SQL as it is written."""
        return self._connection.exec_driver_sql(statement)


class ThreadTransaction:
    """A transaction whose statements run in a thread, for those that may take long."""

    def __init__(self, connection: "AsyncConnection") -> None:
        self.changes = Changes()
        self._connection = connection

    async def execute(self, statement: Any, parameters: Parameters = None) -> CursorResult[Any]:
        """Run a statement; the result holds all of its rows."""
        result: CursorResult[Any] = await self._connection.execute(statement, parameters)
        return result

    async def exec_driver_sql(self, statement: str) -> CursorResult[Any]:
        """Run SQL as it is written."""
        return await self._connection.exec_driver_sql(statement)


@contextlib.contextmanager
def tell_listener(listener: CommitListener | None, changes: Changes) -> Iterator[None]:
    """Tell the listener of what the block commits, also where it raises: the outcome is unknown then."""
    try:
        yield
    finally:
        if listener is not None and not changes.is_empty:
            listener.note_commit(changes)
