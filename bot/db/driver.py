"""aiosqlite with one trip to its thread a statement where it makes four, and none for BEGIN.

A trip costs more processor time than a small statement. Owns nothing but that; SQLAlchemy speaks through it.
"""

import sqlite3
from collections.abc import Iterable
from functools import partial
from typing import Any

import aiosqlite
import sqlalchemy


class SqliteConnection(aiosqlite.Connection):
    """A connection whose cursors hold all rows once `execute` has returned. BEGIN travels with the next
    statement.
    """

    _begin_statements: tuple[str, ...] = ()

    def cursor(self) -> "PrefetchedCursor":  # type: ignore[override]  # SQLAlchemy enters what it gets; theirs makes a trip for it
        return PrefetchedCursor(self)

    def begin_with_next(self, *statements: str) -> None:
        """Send these, of which the last is BEGIN, along with the next statement."""
        self._begin_statements = statements

    async def run_statement(self, sql: str, parameters: Any, *, many: bool = False) -> "StatementResult":
        """Run one statement in the thread and bring all of its rows back."""
        begin = self._begin_statements
        self._begin_statements = ()
        return await self._execute(_execute_statement, self._conn, begin, sql, parameters, many)  # type: ignore[no-any-return,no-untyped-call]

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
"""Rows, description, row count and last row id, as the standard cursor has them."""


def _execute_statement(
    connection: sqlite3.Connection, begin: tuple[str, ...], sql: str, parameters: Any, many: bool
) -> StatementResult:
    for one in begin:
        connection.execute(one)
    if many:
        cursor = connection.executemany(sql, parameters)
    else:
        cursor = connection.execute(sql, parameters)
    try:
        rows = cursor.fetchall() if cursor.description else []
        return rows, cursor.description, cursor.rowcount, cursor.lastrowid
    finally:
        cursor.close()


class PrefetchedCursor:
    """What SQLAlchemy needs of a cursor; everything it gives was fetched with the statement."""

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
        """Nothing is open any more."""

    def _store_result(self, result: StatementResult) -> None:
        self._rows, self.description, self.rowcount, self.lastrowid = result


def connect(file: str, **options: Any) -> SqliteConnection:
    """An unopened connection to `file`; await it to open it. Its thread ends with the process."""
    connection = SqliteConnection(partial(sqlite3.connect, file, **options), iter_chunk_size=64)
    connection._thread.daemon = True  # noqa: SLF001  # as SQLAlchemy does for the connections it opens itself
    return connection


def unwrap(connection: sqlalchemy.Connection) -> SqliteConnection:
    """The open file that SQLAlchemy's connection stands for."""
    file = connection.connection.driver_connection
    assert isinstance(file, SqliteConnection)
    return file
