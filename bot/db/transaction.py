"""What functions of this package work inside: a transaction that somebody else begins and ends."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVarTuple, overload

from sqlalchemy import CursorResult, Executable
from sqlalchemy.engine import Connection
from sqlalchemy.sql.selectable import TypedReturnsRows

Columns = TypeVarTuple("Columns")
Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class Transaction(Protocol):
    """Runs statements; other packages only pass it on. SQLAlchemy's AsyncConnection is one."""

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
        self._connection = connection

    async def execute(self, statement: Any, parameters: Parameters = None) -> CursorResult[Any]:
        """Run a statement; the result holds all of its rows."""
        return self._connection.execute(statement, parameters)

    async def exec_driver_sql(self, statement: str) -> CursorResult[Any]:
        """Run SQL as it is written."""
        return self._connection.exec_driver_sql(statement)
