"""aiosqlite with one trip to its thread a statement where it makes four, and none for BEGIN.

A trip costs more processor time than a small statement. Owns nothing but that; SQLAlchemy speaks through it.
"""

import sqlite3
from collections.abc import Iterable
from functools import partial
from typing import Any

import aiosqlite
import sqlalchemy


class Connection(aiosqlite.Connection):
    """A connection whose cursors hold all rows once `execute` has returned. BEGIN travels with the next
    statement.
    """

    _begin: tuple[str, ...] = ()

    def cursor(self) -> "Cursor":  # type: ignore[override]  # SQLAlchemy enters what it gets; theirs makes a trip for it
        return Cursor(self)

    def begin_with_next(self, *statements: str) -> None:
        """Send these, of which the last is BEGIN, along with the next statement."""
        self._begin = statements

    async def trip(self, sql: str, parameters: Any, *, many: bool = False) -> "Outcome":
        """Run one statement in the thread and bring all of its rows back."""
        begin = self._begin
        self._begin = ()
        return await self._execute(_run, self._conn, begin, sql, parameters, many)  # type: ignore[no-any-return,no-untyped-call]

    async def commit(self) -> None:
        """Commit, unless nothing has been sent since BEGIN."""
        if not self._begin:
            await super().commit()
        self._begin = ()

    async def rollback(self) -> None:
        """Roll back, unless nothing has been sent since BEGIN."""
        if not self._begin:
            await super().rollback()
        self._begin = ()


Outcome = tuple[list[Any], Any, int, int | None]
"""Rows, description, row count and last row id, as the standard cursor has them."""


def _run(
    connection: sqlite3.Connection, begin: tuple[str, ...], sql: str, parameters: Any, many: bool
) -> Outcome:
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


class Cursor:
    """What SQLAlchemy needs of a cursor; everything it gives was fetched with the statement."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> "Cursor":
        return self

    async def execute(self, sql: str, parameters: Iterable[Any] = ()) -> "Cursor":
        self._keep(await self._connection.trip(sql, parameters))
        return self

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> "Cursor":
        self._keep(await self._connection.trip(sql, parameters, many=True))
        return self

    async def fetchall(self) -> list[Any]:
        return self._rows

    async def close(self) -> None:
        """Nothing is open any more."""

    def _keep(self, outcome: Outcome) -> None:
        self._rows, self.description, self.rowcount, self.lastrowid = outcome


def connect(file: str, **options: Any) -> Connection:
    """An unopened connection to `file`; await it to open it. Its thread ends with the process."""
    connection = Connection(partial(sqlite3.connect, file, **options), iter_chunk_size=64)
    connection._thread.daemon = True  # noqa: SLF001  # as SQLAlchemy does for the connections it opens itself
    return connection


def beneath(connection: sqlalchemy.Connection) -> Connection:
    """The open file that SQLAlchemy's connection stands for."""
    file = connection.connection.driver_connection
    assert isinstance(file, Connection)
    return file
