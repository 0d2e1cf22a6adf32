"""Gives transactions on a PostgreSQL server.

There is one write transaction at a time in this process, on one connection, whose session holds the lock of
the gateway. A commit whose answer was lost is asked for by its number, so that nothing is written twice.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import psycopg
from sqlalchemy import Select

from bot.db import shares
from bot.db.postgresql.connections import ServerEngines, create_engines
from bot.db.postgresql.errors import translate_errors
from bot.db.postgresql.notifications import notify
from bot.db.postgresql.sessions import ServerSession, SessionOpener
from bot.db.retry import OutageLog, report_failures, report_success
from bot.db.shares import ShareHold
from bot.db.transaction import Transaction, tell_listener
from bot.domain import Changes, CommitListener
from bot.errors import ReadTooSlow, SettingsRefused, ShareLost, StoreBusy, StoreUnavailable

_BEGIN_WRITING: tuple[str, ...] = ("BEGIN", "SELECT pg_current_xact_id()::text")  # 0 to 2^64
# A replica that takes the share over waits for the transactions that share the lock of this row.
_LOCK_HOLD = "SELECT 1 FROM share_holds WHERE share = {0} AND epoch = {1} AND ended_at IS NULL FOR SHARE"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ"
# A server that another one has replaced may not have come to this number yet.
_SELECT_OUTCOME = """
SELECT CASE WHEN '{0}'::xid8 < pg_snapshot_xmax(pg_current_snapshot()) THEN pg_xact_status('{0}'::xid8) END
"""
_TAKE_OWN_LOCK = """
SELECT pid FROM (SELECT pg_backend_pid() AS pid) AS own WHERE pg_try_advisory_lock(1667329650, pid)
"""
_SELECT_SESSION = "SELECT pg_backend_pid()"
_TRY_LOCK = "SELECT pg_try_advisory_lock(1667329650, {0})"
_OUTCOME_RETRY_SECONDS = 0.2
_MAX_READERS = 10
_MAX_IDLE_READERS = 4  # several parts look for changes at one moment
_READER_TIMEOUT_SECONDS = 10.0  # that a read waits until another one has ended


class _CommitLost(Exception):
    """A commit has had no answer; what took place is found out."""

    def __init__(self, number: str, changes: Changes, error: psycopg.Error) -> None:
        super().__init__(number)
        self.number = number
        self.changes = changes
        self.error = error


class PostgresDatabase:
    """The open database; `open_server` builds it."""

    def __init__(
        self,
        engines: ServerEngines,
        outage_log: OutageLog | None = None,
        stop: asyncio.Event | None = None,
        lock: Select[Any] | None = None,
    ) -> None:
        self._writers = SessionOpener(engines.writer)
        self._readers = SessionOpener(engines.reader)
        self._begin_statements = _BEGIN_WRITING
        if lock is not None:
            self._begin_statements += (str(lock.compile(dialect=engines.writer.dialect)),)
        self._outage_log = outage_log
        self._stop = stop
        self._was_open = False
        self._has_lost_commit = False  # and its outcome is not known yet
        self._write_lock = asyncio.Lock()
        self._writer: ServerSession | None = None
        self._idle_readers: list[ServerSession] = []
        self._reader_limit = asyncio.Semaphore(_MAX_READERS)
        self._listener: CommitListener | None = None

    def set_listener(self, listener: CommitListener) -> None:
        """Tell this listener from now on what each commit leaves to be done."""
        self._listener = listener

    @contextlib.asynccontextmanager
    async def transaction(
        self,
        *,
        durable: bool = True,  # each one is: the server may die while this process goes on
    ) -> AsyncIterator[Transaction]:
        """Run one write transaction: committed when the block ends, rolled back when it raises.

        Raises ShareLost if another replica has the share under whose hold the caller works.
        """
        hold = shares.find_current_hold()
        with report_failures(self._outage_log), translate_errors(was_open=self._was_open):
            async with self._settle_lost_commit(), self._write_lock:
                self._refuse_beside_lost_commit()
                writer = await self._open_writer()
                try:
                    number = await self._begin_writing(writer, hold)
                    tx = writer.build_transaction()
                    yield tx
                    await self._notify_others(tx)
                    try:
                        await self._commit(writer, number, tx.changes)
                    finally:
                        tell_listener(self._listener, tx.changes)
                except BaseException:
                    await self._undo(writer)
                    raise
        report_success(self._outage_log)

    def long_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A durable write transaction; statements never hold the event loop here."""
        return self.transaction()

    def file_transaction(
        self,
        byte_count: int,  # SQLite's build has use for it
        *,
        durable: bool = True,
    ) -> AbstractAsyncContextManager[Transaction]:
        """A write transaction that stores files of so many bytes together."""
        return self.transaction(durable=durable)

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[Transaction]:
        """Read from one consistent snapshot, without waiting for writers. Raises StoreUnavailable."""
        with report_failures(self._outage_log), translate_errors(was_open=self._was_open):
            async with self._reserve_reader():
                reader = await self._open_reader()
                try:
                    await reader.begin(_BEGIN_READING)
                    yield reader.build_transaction()
                    await reader.commit()
                except BaseException:
                    await reader.aclose()
                    raise
                if len(self._idle_readers) < _MAX_IDLE_READERS:
                    self._idle_readers.append(reader)
                else:
                    await reader.aclose()

    @contextlib.asynccontextmanager
    async def long_read_transaction(self, max_seconds: float | None = None) -> AsyncIterator[Transaction]:
        """A read transaction that is ended after `max_seconds`: ReadTooSlow."""
        try:
            async with asyncio.timeout(max_seconds), self.read_transaction() as reader:
                if max_seconds is not None:  # the server's own limit, should this process die
                    milliseconds = round(1000 * max_seconds) + 1
                    await reader.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
                yield reader
        except TimeoutError as error:
            raise ReadTooSlow(max_seconds or 0.0) from error

    async def erase_deleted(self) -> None:
        """Do nothing: the server's log and its backups keep what was deleted as long as their owner set."""

    async def optimize(self) -> None:
        """Do nothing: the server vacuums and analyses by itself."""

    async def close(self) -> None:
        """Close every connection to the server."""
        await self._close_writer()
        while self._idle_readers:
            await self._idle_readers.pop().aclose()

    async def refuse_pooler(self) -> None:
        """Raise SettingsRefused if connections share sessions: then no lock of a session means anything."""
        with translate_errors():
            async with (
                aclosing(await self._writers.open()) as first,
                aclosing(await self._writers.open()) as other,
            ):
                statements = first.build_transaction()
                number = (await statements.exec_driver_sql(_TAKE_OWN_LOCK)).scalar_one()
                next_number = (await statements.exec_driver_sql(_SELECT_SESSION)).scalar_one()
                try_lock = _TRY_LOCK.format(number)
                is_shared = (await other.build_transaction().exec_driver_sql(try_lock)).scalar_one()
        if is_shared or next_number != number:
            raise SettingsRefused(
                "DATABASE_URL leads to a pooler that shares sessions, as PgBouncer does in transaction mode: "
                "no lock holds there. Connect to the server itself, or set pool_mode=session for this "
                "database."
            )

    async def _begin_writing(self, writer: ServerSession, hold: ShareHold | None) -> str:
        """Begin a transaction, in which the hold stands until its end; returns its number.

        Raises ShareLost.
        """
        statements = self._begin_statements
        if hold is not None:
            statements += (_LOCK_HOLD.format(hold.share, hold.epoch),)
        values = await writer.begin(*statements)
        if len(values) < len(statements) - 1:  # "BEGIN" has none
            raise ShareLost
        number: str = values[0]
        return number

    async def _notify_others(self, tx: Transaction) -> None:
        if self._listener is not None and not tx.changes.is_empty:
            for payload in self._listener.build_notifications(tx.changes):
                await notify(tx, payload)

    async def _open_writer(self) -> ServerSession:
        if self._writer is not None and self._writer.is_lost:
            await self._close_writer()
        if self._writer is None:
            self._writer = await self._writers.open()
            self._was_open = True
        return self._writer

    @contextlib.asynccontextmanager
    async def _reserve_reader(self) -> AsyncIterator[None]:
        """Wait until one more read may go on."""
        try:
            async with asyncio.timeout(_READER_TIMEOUT_SECONDS):
                await self._reader_limit.acquire()
        except TimeoutError:
            raise StoreBusy("the database cannot be used now: other reads take too long") from None
        try:
            yield
        finally:
            self._reader_limit.release()

    async def _open_reader(self) -> ServerSession:
        while self._idle_readers:
            reader = self._idle_readers.pop()
            if not reader.is_lost:
                return reader
            await reader.aclose()
        return await self._readers.open()

    async def _commit(self, writer: ServerSession, number: str, changes: Changes) -> None:
        """Commit; raises _CommitLost if the answer was lost, which is settled without the lock."""
        try:
            await writer.commit()
        except psycopg.Error as error:
            if not writer.is_closed:
                raise
            self._has_lost_commit = True
            raise _CommitLost(number, changes, error) from error

    @contextlib.asynccontextmanager
    async def _settle_lost_commit(self) -> AsyncIterator[None]:
        """Find out whether a commit whose answer was lost took place, and tell the listener again.

        Other writes are refused meanwhile: to wait for as long as the server is away would hide it.
        """
        try:
            yield
        except _CommitLost as lost:
            try:
                is_committed = await self._find_outcome(lost.number)
            finally:
                tell_listener(self._listener, lost.changes)
                self._has_lost_commit = False
            if not is_committed:
                raise lost.error from None

    def _refuse_beside_lost_commit(self) -> None:
        if self._has_lost_commit:
            raise StoreUnavailable("the database cannot be used now: its server did not answer a commit")

    async def _find_outcome(self, number: str) -> bool:
        """Whether the transaction of this number was committed; a gateway waits until the server says it."""
        while True:
            try:
                with report_failures(self._outage_log), translate_errors(was_open=self._was_open):
                    writer = await self._open_writer()
                    [status] = await writer.begin("BEGIN", _SELECT_OUTCOME.format(number))
                    await writer.commit()
            except StoreUnavailable:
                await self._close_writer()
                if self._stop is None or self._stop.is_set():
                    raise
                status = "in progress"
            if status != "in progress":
                return bool(status == "committed")
            await asyncio.sleep(_OUTCOME_RETRY_SECONDS)

    async def _undo(self, writer: ServerSession) -> None:
        """Roll back; a connection that was lost, or whose statement was cancelled, is not used again."""
        try:
            await writer.rollback()
        except Exception:  # noqa: BLE001  # the error that ended the transaction is raised
            await self._close_writer()
        if writer.is_closed:
            await self._close_writer()

    async def _close_writer(self) -> None:
        if self._writer is not None:
            writer = self._writer
            self._writer = None
            await writer.aclose()


@contextlib.asynccontextmanager
async def open_server(
    url: str,
    outage_log: OutageLog | None = None,
    stop: asyncio.Event | None = None,
    *,
    for_gateway: bool = False,
    lock: Select[Any] | None = None,
) -> AsyncIterator[PostgresDatabase]:
    """Open the database at `url`; `for_gateway`: refuse what its locks would not hold on.

    `lock`: takes a TransactionLock, which every write transaction has from its beginning.
    """
    database = PostgresDatabase(create_engines(url), outage_log, stop, lock)
    try:
        if for_gateway:
            await database.refuse_pooler()
        yield database
    finally:
        await database.close()
