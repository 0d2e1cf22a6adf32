"""Sessions at a PostgreSQL server that are kept from transaction to transaction.

SQLAlchemy runs the statements; the driver begins and ends the transactions, each in one trip to the server.
Both run in greenlets, which let the event loop go on while the server works.
"""

import asyncio
import contextlib
from typing import Any

from sqlalchemy import CursorResult
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.util import greenlet_spawn

from bot.db.postgresql.connections import is_lost
from bot.db.postgresql.server_connection import ServerConnection
from bot.db.transaction import Parameters
from bot.domain import Changes

_STATEMENTS_AT_ONCE = 20  # of a server on the same machine, whose answers do not wait in the event loop


class ServerTransaction:
    """Runs the statements of one transaction of a session."""

    def __init__(self, connection: Connection) -> None:
        self.changes = Changes()
        self._connection = connection
        self._lock = asyncio.Lock()  # where two tasks share a transaction, the driver's own would block
        self._statement_count = 0

    async def execute(self, statement: Any, parameters: Parameters = None) -> CursorResult[Any]:
        """Run a statement; the result holds all of its rows.

        For a list the driver enters pipeline mode, which takes a single row three times as long.
        """
        if isinstance(parameters, list) and len(parameters) == 1:
            parameters = parameters[0]
        async with self._lock:
            await self._let_others_run()
            result: CursorResult[Any] = await greenlet_spawn(self._connection.execute, statement, parameters)
            return result

    async def exec_driver_sql(self, statement: str) -> CursorResult[Any]:
        """Run SQL as it is written."""
        async with self._lock:
            await self._let_others_run()
            return await greenlet_spawn(self._connection.exec_driver_sql, statement)

    async def _let_others_run(self) -> None:
        self._statement_count += 1
        if self._statement_count % _STATEMENTS_AT_ONCE == 0:
            await asyncio.sleep(0)


class ServerSession:
    """One session; a SessionOpener builds it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        driver_connection: Any = connection.connection.driver_connection
        self._driver: ServerConnection = driver_connection

    @property
    def is_lost(self) -> bool:
        """Whether the server has ended it while nothing was under way."""
        return is_lost(self._driver)

    @property
    def is_closed(self) -> bool:
        """Whether it was lost, or a statement was cancelled: it is not used again."""
        return self._driver.closed or self._connection.closed or self._connection.invalidated

    def build_transaction(self) -> ServerTransaction:
        """Build what runs the statements of the transaction that was begun."""
        return ServerTransaction(self._connection)

    async def begin(self, *statements: str) -> list[str]:
        """Run statements, of which the first begins a transaction.

        Returns the first value of each row that they return.
        """
        return await greenlet_spawn(self._driver.run_statements, "; ".join(statements).encode())

    async def commit(self) -> None:
        """Commit what was begun."""
        await greenlet_spawn(self._driver.commit)

    async def rollback(self) -> None:
        """Undo what was begun; nothing if nothing was."""
        await greenlet_spawn(self._driver.rollback)

    async def aclose(self) -> None:
        """Close it, whatever the server reports; what was not committed is undone."""
        with contextlib.suppress(Exception):
            await greenlet_spawn(self._connection.close)


class SessionOpener:
    """Opens sessions of one kind, which commit each statement by itself unless told to begin."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = asyncio.Lock()
        self._has_opened = False

    async def open(self) -> ServerSession:
        """Open one more."""
        if self._has_opened:
            return await self._open()
        # SQLAlchemy sets up the first one under a lock of threads, for which another greenlet would block.
        async with self._lock:
            session = await self._open()
            self._has_opened = True
            return session

    async def _open(self) -> ServerSession:
        return ServerSession(await greenlet_spawn(self._engine.connect))
