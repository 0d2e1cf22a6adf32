"""What functions of this package work inside: a transaction that somebody else begins and ends."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVarTuple, overload

from sqlalchemy import CursorResult, Executable
from sqlalchemy.sql.selectable import TypedReturnsRows

from bot.domain import Changes, CommitListener

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


def tell_listener(listener: CommitListener | None, changes: Changes) -> None:
    """Tell the listener of what was committed; also where a commit raised, whose outcome is unknown."""
    if listener is not None and not changes.is_empty:
        listener.note_commit(changes)
