"""Sessions at a PostgreSQL server that are kept from transaction to transaction.

SQLAlchemy runs the statements; the driver begins and ends the transactions, each in one trip to the server.
"""

import contextlib
from typing import Any, cast

import psycopg
from sqlalchemy import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.db.postgresql.connections import is_lost
from bot.db.transaction import Parameters


class ServerTransaction:
    """Runs the statements of a session's transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def execute(self, statement: Any, parameters: Parameters = None) -> CursorResult[Any]:
        """Run a statement; the result holds all of its rows.

        For a list the driver enters pipeline mode, which takes a single row three times as long.
        """
        if isinstance(parameters, list) and len(parameters) == 1:
            parameters = parameters[0]
        result: CursorResult[Any] = await self._connection.execute(statement, parameters)
        return result

    async def exec_driver_sql(self, statement: str) -> CursorResult[Any]:
        """Run SQL as it is written."""
        return await self._connection.exec_driver_sql(statement)


class ServerSession:
    """One session; `open_session` builds it."""

    def __init__(self, connection: AsyncConnection, driver: psycopg.AsyncConnection[Any]) -> None:
        self.statements = ServerTransaction(connection)
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

    async def begin(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, of which the first begins a transaction; returns the rows of all of them."""
        cursor = await self._driver.execute("; ".join(statements).encode())
        rows: list[tuple[Any, ...]] = []
        while cursor.nextset():
            rows += await cursor.fetchall()
        return rows

    async def commit(self) -> None:
        """Commit what was begun."""
        await self._driver.commit()

    async def rollback(self) -> None:
        """Undo what was begun; nothing if nothing was."""
        await self._driver.rollback()

    async def close(self) -> None:
        """Close it, whatever the server reports; what was not committed is undone."""
        with contextlib.suppress(Exception):
            await self._connection.close()


async def open_session(engine: AsyncEngine) -> ServerSession:
    """Open a session of an engine whose connections commit each statement by itself, unless told to begin."""
    connection = await engine.connect()
    try:
        raw_connection = await connection.get_raw_connection()
    except BaseException:
        await connection.close()
        raise
    return ServerSession(connection, cast("psycopg.AsyncConnection[Any]", raw_connection.driver_connection))
