"""Opens the database and gives transactions. Owns how SQLite is set up (WAL, what is synced, 0600 files).

A write transaction is `BEGIN IMMEDIATE`, and there is one at a time in this process: a deferred one that
reads before it writes fails when another commits in between.
"""

import asyncio
import contextlib
import errno
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
from bot.db.retry import OutageLog
from bot.errors import SettingsRefused, StoreUnavailable

Transaction: TypeAlias = AsyncConnection
"""The transaction that functions of this package work inside; other packages only pass it on."""

_BUSY_TIMEOUT_MS = 2000  # a stop waits for this, within its ten seconds; the gateway retries anyway
_STOPPING_BUSY_TIMEOUT_MS = 250  # supervisors kill what does not end in time
_CHECKPOINT_TIMEOUT_MS = 250  # short, because nobody can write meanwhile
_ANALYSIS_LIMIT_ROWS = 400  # rows of each index that `PRAGMA optimize` samples

# Nearly all rows of a queue are done: by that count SQLite would read the whole table for every message
# instead of the index that finds the few others. So what it learned of the queues is deleted again.
_HAS_STATISTICS = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'"
_DELETE_QUEUE_STATISTICS = "DELETE FROM sqlite_stat1 WHERE tbl IN ('inbox', 'outbox', 'jobs')"

_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA foreign_keys=ON",
    f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}",  # other commands may write beside the running gateway
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA secure_delete=ON",  # deleted text is overwritten in the file
)

# A sync to the disk costs more than all statements of a transaction. What is acknowledged to Telegram must
# survive a power cut, and so must what is about to be sent; the steps in between may be repeated.
_SYNCHRONOUS_PRAGMA = {True: "PRAGMA synchronous=FULL", False: "PRAGMA synchronous=NORMAL"}


def parse_database_path(url: str) -> Path:
    """The file of a SQLite URL such as `sqlite+aiosqlite:///canvasgram.db`.

    Raises ValueError if the URL names none.
    """
    name = make_url(url).database
    if not name or name == ":memory:":
        raise ValueError(f"{url} names no file")
    return Path(name)


@dataclass(frozen=True, slots=True)
class _Writer:
    connection: AsyncConnection
    driver_connection: driver.SqliteConnection


class Database:
    """The open database; `open_database` builds it.

    `outage_log` hears of each failure, and of each write transaction after one; commands that retry nothing
    have none. Once `stop` is set, locks of other programs are waited for only briefly.
    """

    def __init__(
        self, engine: AsyncEngine, outage_log: OutageLog | None = None, stop: asyncio.Event | None = None
    ) -> None:
        self._engine = engine
        self._stop = stop
        self._outage_log = outage_log
        self._write_lock = asyncio.Lock()
        self._writer: _Writer | None = None

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        """Run one write transaction: committed when the block ends, rolled back when it raises.

        A committed transaction survives the death of this process. If `durable`, it survives a power cut as
        well; if not, it is on the disk no later than the next durable one. Raises StoreUnavailable when the
        database cannot be written (disk full, locked by another program).
        """
        with self._translate_errors():
            async with self._write_lock, self._reuse_writer() as writer, writer.connection.begin():
                pragmas = [_SYNCHRONOUS_PRAGMA[durable]]
                if self._stop is not None and self._stop.is_set():
                    pragmas.append(f"PRAGMA busy_timeout={_STOPPING_BUSY_TIMEOUT_MS}")
                writer.driver_connection.begin_with_next(*pragmas, "BEGIN IMMEDIATE")
                yield writer.connection
        if self._outage_log is not None:
            self._outage_log.record_success()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with translate_errors():
                yield
        except StoreUnavailable as error:
            if self._outage_log is not None:
                self._outage_log.record_failure(error)
            raise

    @contextlib.asynccontextmanager
    async def _reuse_writer(self) -> AsyncIterator["_Writer"]:
        """Keep one writing connection from transaction to transaction; after an error, open another one.

        To take a connection from the pool and to return it costs as much as a small transaction itself.
        """
        writer = self._writer
        self._writer = None
        async with contextlib.AsyncExitStack() as closing:
            if writer is None:
                connection = await closing.enter_async_context(self._engine.connect())
                writer = _Writer(connection, await connection.run_sync(driver.unwrap))
            else:
                closing.push_async_exit(writer.connection)
            try:
                yield writer
            except OperationalError:
                # One that was opened while the folder was read-only stays so.
                await writer.connection.invalidate()
                raise
            closing.pop_all()
            self._writer = writer

    async def close(self) -> None:
        """Close every connection to the file."""
        if self._writer is not None:
            await self._writer.connection.close()
        await self._engine.dispose()

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[AsyncConnection]:
        """Read from one consistent snapshot, without waiting for writers. Raises StoreUnavailable."""
        with self._translate_errors():
            async with self._engine.connect() as connection, connection.begin():
                yield connection

    async def truncate_wal(self) -> None:
        """Empty the write-ahead log into the file, so that no deleted text is left in the log.

        Writers wait. Raises StoreUnavailable while a reader still uses an older state.
        """
        with translate_errors():
            async with self._write_lock, self._engine.connect() as connection:
                sqlite = await connection.run_sync(driver.unwrap)
                await sqlite.run_statement(f"PRAGMA busy_timeout={_CHECKPOINT_TIMEOUT_MS}", ())
                try:
                    [(busy, *_)] = (await sqlite.run_statement("PRAGMA wal_checkpoint(TRUNCATE)", ()))[0]
                finally:
                    await sqlite.run_statement(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}", ())
        if busy:
            raise StoreUnavailable(
                "what was deleted is still in the log of the database, which somebody reads"
            )

    async def optimize(self) -> None:
        """Merge the write-ahead log into the file, and let SQLite update its statistics.

        Writers wait only for the statistics, which sample a few rows of each index. Raises StoreUnavailable.
        """
        with translate_errors():
            async with self._engine.connect() as connection:
                sqlite = await connection.run_sync(driver.unwrap)
                await sqlite.run_statement("PRAGMA wal_checkpoint(PASSIVE)", ())
        async with self.transaction() as tx:
            await tx.exec_driver_sql(f"PRAGMA analysis_limit={_ANALYSIS_LIMIT_ROWS}")
            await tx.exec_driver_sql("PRAGMA optimize")
            if (await tx.exec_driver_sql(_HAS_STATISTICS)).one_or_none() is not None:
                await tx.exec_driver_sql(_DELETE_QUEUE_STATISTICS)
                # Makes this connection load the changed statistics at once.
                await tx.exec_driver_sql("ANALYZE sqlite_schema")


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Raise StoreUnavailable for what SQLite reports and waiting may mend."""
    try:
        yield
    except (OperationalError, sqlite3.OperationalError) as error:
        for reason in _list_reasons(error):
            if reason.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise StoreUnavailable(f"the database cannot be used now: {reason}") from error
        raise  # the statement itself is wrong: waiting does not help


def _list_reasons(error: BaseException | None) -> Iterator[sqlite3.OperationalError]:
    """What SQLite reported, the latest first.

    Full or held in the middle of a migration, it rolls back, and what tidies up then finds no table.
    """
    while error is not None:
        if isinstance(error, sqlite3.OperationalError):
            yield error
        error = error.__cause__ or error.__context__


@contextlib.asynccontextmanager
async def open_database(
    url: str, outage_log: OutageLog | None = None, stop: asyncio.Event | None = None
) -> AsyncIterator[Database]:
    """Open the SQLite database at `url`, which must have been migrated, and make it private to its owner."""
    make_private(parse_database_path(url))
    engine = create_async_engine(
        url,
        pool_size=4,
        max_overflow=4,
        pool_reset_on_return=None,  # every transaction ends in a commit or a rollback
        hide_parameters=True,
        connect_args={"async_creator_fn": driver.connect},
    )
    event.listen(engine.sync_engine, "connect", _configure_connection)
    event.listen(engine.sync_engine, "begin", _begin)
    database = Database(engine, outage_log, stop)
    try:
        yield database
    finally:
        await database.close()


def make_private(file: Path) -> None:
    """Create `file` if needed, and let only its owner read it; SQLite gives its side files the same mode.

    Raises SettingsRefused if this user can never write there, StoreUnavailable if the disk is full.
    """
    with translate_file_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        file.chmod(0o600)
    if not os.access(file.parent, os.W_OK | os.X_OK):  # for the files that SQLite puts beside it
        raise SettingsRefused(_explain_unwritable(file, "its folder is read-only"))


@contextlib.contextmanager
def translate_file_errors(file: Path) -> Iterator[None]:
    """Say what to do where the system refuses to create or open this file of the database.

    Raises SettingsRefused if this user can never write there, StoreUnavailable if the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreUnavailable(
                f"{file} cannot be written: its disk is full ({error.strerror}). "
                "Free some space there, or set DATABASE_URL to a file elsewhere"
            ) from error
        raise SettingsRefused(_explain_unwritable(file, error.strerror)) from None


def _explain_unwritable(file: Path, reason: str | None) -> str:
    return (
        f"DATABASE_URL: {file} cannot be written ({reason}). Let this user write to the file and its folder, "
        "or choose another file. Example: DATABASE_URL=sqlite+aiosqlite:////var/lib/canvasgram/canvasgram.db"
    )


def _configure_connection(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # BEGIN is sent by _begin, not by the driver
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin(connection: Connection) -> None:
    driver.unwrap(connection).begin_with_next("BEGIN")
