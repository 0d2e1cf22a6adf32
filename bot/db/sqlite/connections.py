"""Opens connections to the SQLite file, of two kinds, and runs their transactions.

Those of the standard library run their statements in the event loop, and wait for no lock there. Those of
aiosqlite have a thread each, for what may take long.
"""

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.engine import Connection, CursorResult, Engine
from sqlalchemy.exc import DBAPIError

from bot.db.transaction import Parameters
from bot.domain import Changes

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

# A sync to the disk costs more than all statements of a transaction. What is acknowledged to Telegram must
# survive a power cut, and so must what is about to be sent; the steps in between may be repeated. Only a
# commit that is synced, in a thread, may also merge the write-ahead log into the file.
_COMMIT_PRAGMAS = {
    True: ("PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=1000"),
    False: ("PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=0"),
}
# The system holds the file's pages anyway: the 2 MiB that SQLite takes unless told otherwise save no time.
_LOOP_CACHE_PRAGMA = "PRAGMA cache_size=-512"  # KiB
_THREAD_TIMEOUT_SECONDS = 2.0  # that a thread waits for the lock of another process
_ENGINE_OPTIONS: dict[str, Any] = {
    "poolclass": NullPool,
    "pool_reset_on_return": None,  # every transaction ends in a commit or a rollback
    "hide_parameters": True,
}
_TAKE_SNAPSHOT = "SELECT 1 FROM sqlite_schema LIMIT 1"


@dataclass(frozen=True, slots=True)
class Engines:
    """What opens connections: `loop` those for LoopConnection, `create_threads()` those with a thread."""

    loop: Engine
    create_threads: Callable[[], "AsyncEngine"]


def create_engines(address: str, pragmas: Sequence[str]) -> Engines:
    """Engines for a file, or a URI of SQLite that begins with `file:`; `pragmas` set each connection up."""

    def open_in_loop() -> sqlite3.Connection:
        connection = sqlite3.connect(
            address,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=_PrefetchingConnection,
            uri=address.startswith("file:"),
        )
        try:
            _run_pragmas(connection, [*pragmas, _LOOP_CACHE_PRAGMA])
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    loop = create_engine("sqlite://", creator=open_in_loop, **_ENGINE_OPTIONS)
    return Engines(loop, partial(_create_thread_engine, address, pragmas))


def _create_thread_engine(address: str, pragmas: Sequence[str]) -> "AsyncEngine":
    # SQLAlchemy's asyncio layer brings its ORM along: memory and time that no start needs.
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(
        f"sqlite+aiosqlite:///{address}{'&uri=true' if address.startswith('file:') else ''}",
        connect_args={"timeout": _THREAD_TIMEOUT_SECONDS, "isolation_level": None},
        **_ENGINE_OPTIONS,
    )
    event.listen(engine.sync_engine, "connect", lambda connection, _: _run_pragmas(connection, pragmas))
    return engine


def _run_pragmas(connection: Any, pragmas: Sequence[str]) -> None:
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(pragma)
    cursor.close()


class _PrefetchingCursor(sqlite3.Cursor):
    """A cursor that holds all rows once `execute` has returned: none is left for after its transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._rows = deque[Any]()

    def execute(self, sql: str, parameters: Any = (), /) -> "_PrefetchingCursor":
        super().execute(sql, parameters)
        if self.description:
            self._rows = deque(super().fetchall())
        return self

    def fetchone(self) -> Any:
        return self._rows.popleft() if self._rows else None

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        return [self._rows.popleft() for _ in range(min(size or 1, len(self._rows)))]

    def fetchall(self) -> list[Any]:
        rows = list(self._rows)
        self._rows.clear()
        return rows


class _PrefetchingConnection(sqlite3.Connection):
    def cursor(self, factory: Any = _PrefetchingCursor) -> Any:
        return super().cursor(factory)


class LoopConnection:
    """A connection of the event loop, kept from transaction to transaction.

    To open one, or to take it from a pool, costs as much as a small transaction itself.
    """

    def __init__(self, engine: Engine) -> None:
        self.statements = engine.connect()
        driver_connection: Any = self.statements.connection.driver_connection
        self._sqlite: sqlite3.Connection = driver_connection
        self._is_durable: bool | None = None

    def begin_writing(self, *, durable: bool) -> None:
        """Take the write lock; raises sqlite3.OperationalError at once if another process holds it."""
        if durable is not self._is_durable:
            _run_pragmas(self._sqlite, _COMMIT_PRAGMAS[durable])
            self._is_durable = durable
        self._sqlite.execute("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        """Take a snapshot; raises sqlite3.OperationalError at once if another process locks the file."""
        self._sqlite.execute("BEGIN")
        self._sqlite.execute(_TAKE_SNAPSHOT).fetchall()

    def commit(self) -> None:
        """Commit, in whichever thread."""
        self._sqlite.commit()

    def rollback(self) -> None:
        """Undo what was not committed; nothing if nothing has begun."""
        self._sqlite.rollback()

    def close(self) -> None:
        """Close it, whatever SQLite reports; what was not committed is undone."""
        with contextlib.suppress(sqlite3.Error, DBAPIError):
            self.statements.close()
        with contextlib.suppress(sqlite3.Error):
            self._sqlite.close()


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
