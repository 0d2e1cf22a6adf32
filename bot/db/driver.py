"""The driver under SQLAlchemy: aiosqlite with one trip to its thread for each statement, none for BEGIN.

aiosqlite makes four trips for a statement (cursor, execute, fetch, close), and a trip costs more processor
time than a small statement. This uses private attributes of aiosqlite, whose version is therefore pinned.
"""

import sqlite3
from collections.abc import Iterable
from functools import partial
from typing import Any

import aiosqlite
import sqlalchemy


class SqliteConnection(aiosqlite.Connection):
    """A connection whose cursors hold all rows once `execute` has returned.

    BEGIN is sent along with the next statement; a transaction without statements never begins.
    """

    _begin_statements: tuple[str, ...] = ()

    # SQLAlchemy enters the cursor it gets; to enter aiosqlite's own would be another trip to the thread.
    def cursor(self) -> "PrefetchedCursor":  # type: ignore[override]
        return PrefetchedCursor(self)

    def begin_with_next(self, *statements: str) -> None:
        """Send these statements, the last of which is BEGIN, along with the next one."""
        self._begin_statements = statements

    async def run_statement(self, sql: str, parameters: Any, *, many: bool = False) -> "StatementResult":
        """Run one statement in the thread and return all of its rows."""
        begin = self._begin_statements
        self._begin_statements = ()
        execute: Any = self._execute  # untyped in aiosqlite
        result: StatementResult = await execute(_execute_statement, self._conn, begin, sql, parameters, many)
        return result

    async def commit(self) -> None:
        """Commit, unless nothing has been sent since BEGIN."""
        if not self._begin_statements:
            await super().commit()
        self._begin_statements = ()

    async def rollback(self) -> None:
        """Roll back, unless nothing has been sent since BEGIN."""
        if not self._begin_statements:
            await super().rollback()
        self._begin_statements = ()


StatementResult = tuple[list[Any], Any, int, int | None]
"""Rows, description, row count and last row id, as the cursor of the standard library has them."""


def _execute_statement(
    connection: sqlite3.Connection, begin: tuple[str, ...], sql: str, parameters: Any, many: bool
) -> StatementResult:
    for statement in begin:
        connection.execute(statement)
    if many:
        cursor = connection.executemany(sql, parameters)
    else:
        cursor = connection.execute(sql, parameters)
    try:
        rows = cursor.fetchall() if cursor.description else []  # no description: the statement gives no rows
        return rows, cursor.description, cursor.rowcount, cursor.lastrowid
    finally:
        cursor.close()


class PrefetchedCursor:
    """The part of a cursor that SQLAlchemy uses; all rows were fetched with the statement."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> "PrefetchedCursor":
        return self

    async def execute(self, sql: str, parameters: Iterable[Any] = ()) -> "PrefetchedCursor":
        self._store_result(await self._connection.run_statement(sql, parameters))
        return self

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> "PrefetchedCursor":
        self._store_result(await self._connection.run_statement(sql, parameters, many=True))
        return self

    async def fetchall(self) -> list[Any]:
        return self._rows

    async def close(self) -> None:
        """Do nothing: the real cursor was closed with the statement."""

    def _store_result(self, result: StatementResult) -> None:
        self._rows, self.description, self.rowcount, self.lastrowid = result


def connect(file: str, **options: Any) -> SqliteConnection:
    """Create an unopened connection to `file`; await it to open it. Its thread ends with the process."""
    connection = SqliteConnection(partial(sqlite3.connect, file, **options), iter_chunk_size=64)
    connection._thread.daemon = True  # noqa: SLF001  # as SQLAlchemy does for the connections it opens itself
    return connection


def unwrap(connection: sqlalchemy.Connection) -> SqliteConnection:
    """The driver's connection under one of SQLAlchemy's."""
    driver_connection = connection.connection.driver_connection
    assert isinstance(driver_connection, SqliteConnection)
    return driver_connection
