"""The database itself: opens it, and gives transactions. Owns how SQLite is set up (WAL, what is synced, 0600
files).

A write transaction is `BEGIN IMMEDIATE` and one at a time in this process: a deferred one that reads before
it writes fails when another commits in between.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import event
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from bot.db import driver
from bot.errors import StoreUnavailable

Transaction: TypeAlias = AsyncConnection
"""What functions of this room work inside; rooms above hand it on and know no more of it."""

_BUSY_TIMEOUT_MS = 5000
_CHECKPOINT_TIMEOUT_MS = 250  # nobody writes meanwhile
_ANALYSIS_LIMIT_ROWS = 400  # rows of an index that are looked at to learn how it has grown

# Nearly all rows of a queue are done, and by their count the index that finds the few others looks useless.
_HAS_STATISTICS = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'"
_DELETE_QUEUE_STATISTICS = "DELETE FROM sqlite_stat1 WHERE tbl IN ('inbox', 'outbox', 'jobs')"

_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA foreign_keys=ON",
    f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}",  # other commands may write beside the running gateway
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA secure_delete=ON",  # what is deleted is overwritten, too
)


# A sync to the disk costs more than all statements of a transaction. What is acknowledged to Telegram must
# survive a power cut, and so must what is about to be sent; what leads from one to the other may be done
# again.
_SYNCHRONOUS_PRAGMA = {True: "PRAGMA synchronous=FULL", False: "PRAGMA synchronous=NORMAL"}


def parse_database_path(url: str) -> Path:
    """The file of a SQLite URL such as `sqlite+aiosqlite:///canvasgram.db`."""
    name = make_url(url).database
    if not name or name == ":memory:":
        raise ValueError(f"{url} names no file")
    return Path(name)


@dataclass(frozen=True, slots=True)
class _Writer:
    connection: AsyncConnection
    driver_connection: driver.SqliteConnection


class Database:
    """The open database; build it with `connected`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._write_lock = asyncio.Lock()
        self._writer: _Writer | None = None

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        """One write transaction: committed when the block ends, rolled back when it raises.

        It survives the death of this process, and that of the machine if it is `durable`: else it is on the
        disk no later than the next one that is. Raises StoreUnavailable when the database cannot be written
        (disk full, locked by another program).
        """
        with _translate_errors():
            async with self._write_lock, self._reuse_writer() as writer, writer.connection.begin():
                writer.driver_connection.begin_with_next(_SYNCHRONOUS_PRAGMA[durable], "BEGIN IMMEDIATE")
                yield writer.connection

    @contextlib.asynccontextmanager
    async def _reuse_writer(self) -> AsyncIterator["_Writer"]:
        """What writes, kept from one transaction to the next; after an error it is another one.

        To take a connection from the pool and give it back costs as much as what is written meanwhile.
        """
        writer = self._writer
        self._writer = None
        async with contextlib.AsyncExitStack() as closing:
            if writer is None:
                connection = await closing.enter_async_context(self._engine.connect())
                writer = _Writer(connection, await connection.run_sync(driver.unwrap))
            else:
                closing.push_async_exit(writer.connection)
            yield writer
            closing.pop_all()
            self._writer = writer

    async def close(self) -> None:
        """Let go of the file."""
        if self._writer is not None:
            await self._writer.connection.close()
        await self._engine.dispose()

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[AsyncConnection]:
        """One consistent view to read from; it never waits for writers. Raises StoreUnavailable as above."""
        with _translate_errors():
            async with self._engine.connect() as connection, connection.begin():
                yield connection

    async def truncate_wal(self) -> None:
        """Empty the write-ahead log into the file, so that no page of what was deleted is left in it.

        Raises StoreUnavailable while somebody still reads an older state.
        """
        with _translate_errors():
            async with self._write_lock, self._engine.connect() as connection:
                file = await connection.run_sync(driver.unwrap)
                await file.run_statement(f"PRAGMA busy_timeout={_CHECKPOINT_TIMEOUT_MS}", ())
                try:
                    [(busy, *_)] = (await file.run_statement("PRAGMA wal_checkpoint(TRUNCATE)", ()))[0]
                finally:
                    await file.run_statement(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}", ())
        if busy:
            raise StoreUnavailable(
                "what was deleted is still in the log of the database, which somebody reads"
            )

    async def optimize(self) -> None:
        """Merge the write-ahead log into the file, and let SQLite learn how its tables have grown.

        Writers wait for the second alone, which looks at a few rows of each index. Raises StoreUnavailable as
        above.
        """
        with _translate_errors():
            async with self._engine.connect() as connection:
                file = await connection.run_sync(driver.unwrap)
                await file.run_statement("PRAGMA wal_checkpoint(PASSIVE)", ())
        async with self.transaction() as tx:
            await tx.exec_driver_sql(f"PRAGMA analysis_limit={_ANALYSIS_LIMIT_ROWS}")
            await tx.exec_driver_sql("PRAGMA optimize")
            if (await tx.exec_driver_sql(_HAS_STATISTICS)).one_or_none() is not None:
                await tx.exec_driver_sql(_DELETE_QUEUE_STATISTICS)
                await tx.exec_driver_sql("ANALYZE sqlite_schema")  # read by this connection at once


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
            raise  # the statement is wrong, and will be tomorrow
        raise StoreUnavailable(f"the database cannot be used now: {error.orig}") from error


@contextlib.asynccontextmanager
async def open_database(url: str) -> AsyncIterator[Database]:
    """Open the SQLite database at `url`; it must have been migrated. The file is readable by its owner only."""
    make_private(parse_database_path(url))
    engine = create_async_engine(
        url,
        pool_size=4,
        max_overflow=4,
        pool_reset_on_return=None,  # every block here ends in a commit or a rollback
        hide_parameters=True,
        connect_args={"async_creator_fn": driver.connect},
    )
    event.listen(engine.sync_engine, "connect", _configure_connection)
    event.listen(engine.sync_engine, "begin", _begin)
    database = Database(engine)
    try:
        yield database
    finally:
        await database.close()


def make_private(file: Path) -> None:
    """Make sure `file` exists and only its owner may read it; SQLite gives its side files the same mode."""
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    file.chmod(0o600)


def _configure_connection(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves, see _begin
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin(connection: Connection) -> None:
    driver.unwrap(connection).begin_with_next("BEGIN")
