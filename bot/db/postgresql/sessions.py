"""Sessions at a PostgreSQL server that are kept from transaction to transaction.

SQLAlchemy runs the statements; the driver begins and ends the transactions, each in one trip to the server.
"""

import asyncio
import contextlib
from typing import Any

import psycopg
from sqlalchemy import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.db.postgresql.connections import is_lost
from bot.db.transaction import Parameters
from bot.domain import Changes


class ServerTransaction:
    """Runs the statements of one transaction of a session."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.changes = Changes()
        self._connection = connection
        self._lock = asyncio.Lock()  # two tasks may share a transaction, but no connection of SQLAlchemy

    async def execute(self, statement: Any, parameters: Parameters = None) -> CursorResult[Any]:
        """Run a statement; the result holds all of its rows.

        For a list the driver enters pipeline mode, which takes a single row three times as long.
        """
        if isinstance(parameters, list) and len(parameters) == 1:
            parameters = parameters[0]
        async with self._lock:
            result: CursorResult[Any] = await self._connection.execute(statement, parameters)
            return result

    async def exec_driver_sql(self, statement: str) -> CursorResult[Any]:
        """Run SQL as it is written."""
        async with self._lock:
            return await self._connection.exec_driver_sql(statement)


class ServerSession:
    """One session; a SessionOpener builds it."""

    def __init__(self, connection: AsyncConnection, driver: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._driver = driver

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

    async def begin(self, *statements: str) -> list[Any]:
        """Run statements, of which the first begins a transaction.

        Returns the first value of each row that they return.
        """
        cursor = await self._driver.execute("; ".join(statements).encode())
        values: list[Any] = []
        async for result in cursor.results():
            if result.description is not None:
                values += [row[0] for row in await result.fetchall()]
        return values

    async def commit(self) -> None:
        """Commit what was begun."""
        await self._driver.commit()

    async def rollback(self) -> None:
        """Undo what was begun; nothing if nothing was."""
        await self._driver.rollback()

    async def aclose(self) -> None:
        """Close it, whatever the server reports; what was not committed is undone."""
        with contextlib.suppress(Exception):
            await self._connection.close()


class SessionOpener:
    """Opens sessions of one kind, which commit each statement by itself unless told to begin."""

    def __init__(self, engine: AsyncEngine) -> None:
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
        connection = await self._engine.connect()
        driver: Any = (await connection.get_raw_connection()).driver_connection
        return ServerSession(connection, driver)
