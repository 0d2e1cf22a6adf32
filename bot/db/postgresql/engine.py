"""Gives transactions on a PostgreSQL server.

There is one write transaction at a time in this process, on one connection.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager

from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.postgresql.connections import ServerEngines, create_engines
from bot.db.postgresql.errors import translate_errors
from bot.db.retry import OutageLog
from bot.db.transaction import Transaction
from bot.errors import StoreUnavailable

# Each begins its transaction, and tells its number: 0 to 2^64 as text.
_BEGIN = {
    True: "SELECT pg_current_xact_id()::text",
    False: "SELECT pg_current_xact_id()::text, set_config('synchronous_commit', 'off', true)",
}


class PostgresDatabase:
    """The open database; `open_server` builds it."""

    def __init__(
        self, engines: ServerEngines, outage_log: OutageLog | None = None, stop: asyncio.Event | None = None
    ) -> None:
        self._engines = engines
        self._outage_log = outage_log
        self._stop = stop
        self._write_lock = asyncio.Lock()
        self._writer: AsyncConnection | None = None

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Transaction]:
        """Run one write transaction: committed when the block ends, rolled back when it raises."""
        with self._report_errors():
            async with self._write_lock:
                writer = await self._open_writer()
                try:
                    await _begin(writer, durable=durable)
                    yield writer
                    await writer.commit()
                except BaseException:
                    await self._undo(writer)
                    raise
        self._report_success()

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
        with self._report_errors():
            async with self._engines.readers.connect() as reader, reader.begin():
                yield reader

    @contextlib.asynccontextmanager
    async def long_read_transaction(self, max_seconds: float | None = None) -> AsyncIterator[Transaction]:
        """A read transaction whose statements are ended after `max_seconds`: ReadTooSlow."""
        async with self.read_transaction() as reader:
            yield reader

    async def erase_deleted(self) -> None:
        """Do nothing: the server's log and its backups keep what was deleted as long as their owner set."""

    async def optimize(self) -> None:
        """Do nothing: the server vacuums and analyses by itself."""

    async def close(self) -> None:
        """Close every connection to the server."""
        await self._close_writer()
        await self._engines.readers.dispose()
        await self._engines.writer.dispose()

    @contextlib.contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            with translate_errors():
                yield
        except StoreUnavailable as error:
            if self._outage_log is not None:
                self._outage_log.record_failure(error)
            raise

    def _report_success(self) -> None:
        if self._outage_log is not None:
            self._outage_log.record_success()

    async def _open_writer(self) -> AsyncConnection:
        if self._writer is None:
            self._writer = await self._engines.writer.connect()
        return self._writer

    async def _undo(self, writer: AsyncConnection) -> None:
        """Roll back; a connection that was lost, or whose statement was cancelled, is not used again."""
        try:
            await writer.rollback()
        except Exception:  # noqa: BLE001  # the error that ended the transaction is raised
            await self._close_writer()
        if writer.invalidated or writer.closed:
            await self._close_writer()

    async def _close_writer(self) -> None:
        if self._writer is not None:
            writer = self._writer
            self._writer = None
            with contextlib.suppress(Exception):
                await writer.close()


async def _begin(writer: AsyncConnection, *, durable: bool) -> str:
    """Begin a transaction; returns its number."""
    rows = await writer.exec_driver_sql(_BEGIN[durable])
    return str(rows.one()[0])


@contextlib.asynccontextmanager
async def open_server(
    url: str, outage_log: OutageLog | None = None, stop: asyncio.Event | None = None
) -> AsyncIterator[PostgresDatabase]:
    """Open the database at `url`, which connects when it is used first."""
    database = PostgresDatabase(create_engines(url), outage_log, stop)
    try:
        yield database
    finally:
        await database.close()
