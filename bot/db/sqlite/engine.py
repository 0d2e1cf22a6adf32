"""Opens the database and gives transactions. Owns how SQLite is set up (WAL, 0600 files), and who may write.

A write transaction is `BEGIN IMMEDIATE`, and there is one at a time in this process: a deferred one that
reads before it writes fails when another commits in between.
"""

import asyncio
import contextlib
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import OperationalError

from bot.db.retry import OutageLog, report_failure, report_success
from bot.db.sqlite.connections import (
    Engines,
    LoopConnection,
    LoopTransaction,
    ThreadTransaction,
    create_engines,
)
from bot.db.sqlite.files import build_file_check, make_private
from bot.db.sqlite.lock import hold_lock
from bot.db.transaction import Transaction, tell_listener
from bot.domain import CommitListener
from bot.errors import ReadTooSlow, StoreBusy, StoreUnavailable
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

# Other commands may write beside the running gateway.
_HELD_SECONDS = 2.0  # a stop waits for this, within its ten seconds; the gateway retries anyway
_STOPPING_HELD_SECONDS = 0.25  # supervisors kill what does not end in time
_HELD_RETRY_SECONDS = 0.01
_CHECKPOINT_TIMEOUT_MS = 250  # short, because nobody can write meanwhile
_MAX_LOOP_BYTES = 1 << 18  # of files in a transaction that holds the event loop; they take 2 ms
_INSTRUCTIONS_PER_CHECK = 200_000  # of SQLite's machine, some 2 ms: each check waits for the interpreter
_PATIENCE = 2.5  # times as long by the clock as what a read may take of the processor
_ANALYSIS_LIMIT_ROWS = 400  # rows of each index that `PRAGMA optimize` samples

# Nearly all rows of a queue are done: by that count SQLite would read the whole table for every message
# instead of the index that finds the few others. So what it learned of the queues is deleted again.
_HAS_STATISTICS = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'"
_DELETE_QUEUE_STATISTICS = "DELETE FROM sqlite_stat1 WHERE tbl IN ('inbox', 'outbox', 'jobs')"

_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA secure_delete=ON",  # deleted text is overwritten in the file
)


class SqliteDatabase:
    """The open SQLite file; `open_sqlite` builds it.

    `outage_log` hears of each failure, and of each write transaction after one; commands that retry nothing
    have none. `check_file` is called before each write, and raises StoreReplaced.

    The statements of a `transaction` and a `read_transaction` hold the event loop, and awaiting one does not
    yield to it; once `stop` is set, these wait only briefly for locks of other programs. `long_transaction`
    and `long_read_transaction` have a thread for statements that may take long.
    """

    def __init__(
        self,
        engines: Engines,
        outage_log: OutageLog | None = None,
        stop: asyncio.Event | None = None,
        check_file: Callable[[], None] = lambda: None,
    ) -> None:
        self._engines = engines
        self._check_file = check_file
        self._thread_engine: AsyncEngine | None = None
        self._connect_lock = asyncio.Lock()
        self._stop = stop
        self._outage_log = outage_log
        self._write_lock = asyncio.Lock()
        self._writer: LoopConnection | None = None
        self._free_readers: list[LoopConnection] = []
        self._commit_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
        self._listener: CommitListener | None = None

    def set_listener(self, listener: CommitListener) -> None:
        """Tell this listener from now on what each commit leaves to be done."""
        self._listener = listener

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Transaction]:
        """Run one write transaction: committed when the block ends, rolled back when it raises.

        A committed transaction survives the death of this process. If `durable`, it survives a power cut as
        well; if not, it is on the disk no later than the next durable one. Raises StoreUnavailable when the
        database cannot be written (disk full, locked by another program).
        """
        with translate_errors(self._outage_log):
            async with self._write_lock:
                try:
                    writer = await self._retry_while_held(partial(self._begin_writing, durable=durable))
                    tx = LoopTransaction(writer.statements)
                    yield tx
                    try:
                        await self._commit(writer, durable=durable)
                    finally:
                        tell_listener(self._listener, tx.changes)
                except BaseException as error:
                    self._undo(error)
                    raise
        report_success(self._outage_log)

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[Transaction]:
        """Read from one consistent snapshot, without waiting for writers. Raises StoreUnavailable."""
        with translate_errors(self._outage_log):
            reader = await self._retry_while_held(self._begin_reading)
            try:
                yield LoopTransaction(reader.statements)
                reader.rollback()
            except BaseException:
                reader.close()
                raise
            self._free_readers.append(reader)

    @contextlib.asynccontextmanager
    async def long_transaction(self) -> AsyncIterator[Transaction]:
        """A durable write transaction whose statements may take long; everybody else waits for its end."""
        with translate_errors(self._outage_log):
            async with self._write_lock, self._open_in_thread("BEGIN IMMEDIATE") as connection:
                self._check_file()
                tx = ThreadTransaction(connection)
                yield tx
                try:
                    await connection.commit()
                finally:
                    tell_listener(self._listener, tx.changes)
        report_success(self._outage_log)

    def file_transaction(
        self, byte_count: int, *, durable: bool = True
    ) -> AbstractAsyncContextManager[Transaction]:
        """A write transaction that stores files of so many bytes together; large ones in a thread."""
        if byte_count > _MAX_LOOP_BYTES:
            return self.long_transaction()
        return self.transaction(durable=durable)

    @contextlib.asynccontextmanager
    async def long_read_transaction(self, max_seconds: float | None = None) -> AsyncIterator[Transaction]:
        """A read transaction whose statements may take long, but not beyond `max_seconds`: ReadTooSlow."""
        deadline = _Deadline(max_seconds)
        try:
            with translate_errors(self._outage_log):
                async with self._open_in_thread("BEGIN") as connection:
                    await deadline.watch(connection)
                    yield ThreadTransaction(connection)
        except StoreUnavailable as error:
            if deadline.has_passed:
                raise ReadTooSlow(deadline.seconds) from error
            raise

    async def erase_deleted(self) -> None:
        """Empty the write-ahead log into the file, so that no deleted text is left in the log.

        Writers wait. Raises StoreUnavailable while a reader still uses an older state.
        """
        with translate_errors():
            async with self._write_lock, self._connect_in_thread() as connection:
                await connection.exec_driver_sql(f"PRAGMA busy_timeout={_CHECKPOINT_TIMEOUT_MS}")
                [(busy, *_)] = await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise StoreUnavailable(
                "what was deleted is still in the log of the database, which somebody reads"
            )

    async def optimize(self) -> None:
        """Merge the write-ahead log into the file, and let SQLite update its statistics.

        Writers wait only for the statistics, which sample a few rows of each index. Raises StoreUnavailable.
        """
        with translate_errors():
            async with self._connect_in_thread() as connection:
                await connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
        async with self.long_transaction() as tx:
            await tx.exec_driver_sql(f"PRAGMA analysis_limit={_ANALYSIS_LIMIT_ROWS}")
            await tx.exec_driver_sql("PRAGMA optimize")
            if (await tx.exec_driver_sql(_HAS_STATISTICS)).one_or_none() is not None:
                await tx.exec_driver_sql(_DELETE_QUEUE_STATISTICS)
        async with self._write_lock:
            self._close_writer()  # the next one loads the changed statistics

    async def close(self) -> None:
        """Close every connection to the file."""
        self._close_writer()
        while self._free_readers:
            self._free_readers.pop().close()
        if self._thread_engine is not None:
            await self._thread_engine.dispose()
        self._commit_thread.shutdown(wait=False)

    async def _retry_while_held(self, begin: Callable[[], LoopConnection]) -> LoopConnection:
        """Begin a transaction; while another process holds the lock, try again from a timer."""
        began_at = time.monotonic()
        while True:
            try:
                return begin()
            except (OperationalError, sqlite3.OperationalError) as error:
                if not _is_held(error) or time.monotonic() >= began_at + self._get_patience():
                    raise
            await asyncio.sleep(_HELD_RETRY_SECONDS)

    def _get_patience(self) -> float:
        """Seconds for which the lock of another process is waited for."""
        if self._stop is not None and self._stop.is_set():
            return _STOPPING_HELD_SECONDS
        return _HELD_SECONDS

    def _begin_writing(self, *, durable: bool) -> LoopConnection:
        self._check_file()
        if self._writer is None:
            self._writer = LoopConnection(self._engines.loop)
        self._writer.begin_writing(durable=durable)
        return self._writer

    def _begin_reading(self) -> LoopConnection:
        reader = self._free_readers.pop() if self._free_readers else LoopConnection(self._engines.loop)
        try:
            reader.begin_reading()
        except sqlite3.OperationalError:
            reader.close()
            raise
        return reader

    async def _commit(self, writer: LoopConnection, *, durable: bool) -> None:
        """Commit; what is synced to the disk, in a thread."""
        if durable:
            commit = asyncio.get_running_loop().run_in_executor(self._commit_thread, writer.commit)
            await _await_end(commit)
        else:
            writer.commit()

    def _undo(self, error: BaseException) -> None:
        """Roll back what was written; after an error of SQLite, the next transaction opens the file again.

        A connection that was opened while the folder was read-only stays so.
        """
        if isinstance(error, OperationalError | sqlite3.OperationalError):
            self._close_writer()
        elif self._writer is not None:
            self._roll_back(self._writer)

    def _roll_back(self, writer: LoopConnection) -> None:
        try:
            writer.rollback()
        except sqlite3.Error:
            self._close_writer()

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @contextlib.asynccontextmanager
    async def _open_in_thread(self, begin: str) -> "AsyncIterator[AsyncConnection]":
        async with self._connect_in_thread() as connection, connection.begin():
            await connection.exec_driver_sql(begin)
            yield connection

    @contextlib.asynccontextmanager
    async def _connect_in_thread(self) -> "AsyncIterator[AsyncConnection]":
        """A connection with a thread; the first one imports its libraries, in a thread as well.

        One is opened at a time: of two that turn a new file to a write-ahead log, SQLite refuses one.
        """
        async with contextlib.AsyncExitStack() as stack:
            async with self._connect_lock:
                if self._thread_engine is None:
                    self._thread_engine = await run_in_thread(self._engines.create_threads)
                connection = await stack.enter_async_context(self._thread_engine.connect())
            yield connection


class _Deadline:
    """Lets SQLite end what takes a connection's thread `seconds` of work; None: never.

    While others need the processor, it may take longer, but not beyond `_PATIENCE` times as long.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self.has_passed = False
        self._moment = time.monotonic() + _PATIENCE * self.seconds
        self._work_before: float | None = None

    async def watch(self, connection: "AsyncConnection") -> None:
        """Have SQLite look at the clock while this connection works."""
        if self.seconds == math.inf:
            return
        driver_connection = (await connection.get_raw_connection()).driver_connection
        assert driver_connection is not None
        await driver_connection.set_progress_handler(self._check, _INSTRUCTIONS_PER_CHECK)

    def _check(self) -> int:
        """Whether it is to end; SQLite asks in the connection's thread."""
        work = time.thread_time()
        if self._work_before is None:
            self._work_before = work
        self.has_passed = work - self._work_before > self.seconds or time.monotonic() > self._moment
        return int(self.has_passed)


async def _await_end(work: asyncio.Future[None]) -> None:
    """Wait for a thread, also when cancelled: it uses the connection until its end."""
    cancellation: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancellation = error
    failure = work.exception()
    if cancellation is not None:
        raise cancellation
    if failure is not None:
        raise failure


def _is_held(error: OperationalError | sqlite3.OperationalError) -> bool:
    """Whether another process holds the lock that was asked for."""
    return any(reason.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY for reason in _list_reasons(error))


@contextlib.contextmanager
def translate_errors(outage_log: OutageLog | None = None) -> Iterator[None]:
    """Raise StoreUnavailable for what SQLite reports and waiting may mend; `outage_log` hears of it."""
    try:
        yield
    except StoreUnavailable as error:
        report_failure(outage_log, error)
        raise
    except (OperationalError, sqlite3.OperationalError) as error:
        for reason in _list_reasons(error):
            if reason.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                kind = StoreBusy if _is_held(error) else StoreUnavailable
                failure = kind(f"the database cannot be used now: {reason}")
                report_failure(outage_log, failure)
                raise failure from error
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
async def open_sqlite(
    file: Path,
    outage_log: OutageLog | None = None,
    stop: asyncio.Event | None = None,
    *,
    for_gateway: bool = False,
) -> AsyncIterator[SqliteDatabase]:
    """Open the database in `file`, and make it private to its owner.

    `for_gateway`: raises GatewayRunning while another one works on it.
    """
    make_private(file)
    with hold_lock(file) if for_gateway else contextlib.nullcontext():
        engines = create_engines(str(file), _PRAGMAS)
        database = SqliteDatabase(engines, outage_log, stop, build_file_check(file))
        try:
            yield database
        finally:
            await database.close()
