"""Gives transactions on a PostgreSQL server.

There is one write transaction at a time in this process, on one connection, whose session holds the lock of
the gateway. A commit whose answer was lost is asked for by its number, so that nothing is written twice.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db import share_holds, shares
from bot.db.postgresql.connections import ServerEngines, create_engines, is_lost
from bot.db.postgresql.errors import translate_errors
from bot.db.retry import OutageLog, report_failures, report_success
from bot.db.transaction import Transaction
from bot.errors import ReadTooSlow, SettingsRefused, StoreUnavailable

_BEGIN = "SELECT pg_current_xact_id()::text"  # of the transaction that it begins: 0 to 2^64
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


class PostgresDatabase:
    """The open database; `open_server` builds it."""

    def __init__(
        self,
        engines: ServerEngines,
        outage_log: OutageLog | None = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        self._engines = engines
        self._outage_log = outage_log
        self._stop = stop
        self._was_open = False
        self._write_lock = asyncio.Lock()
        self._writer: AsyncConnection | None = None
        self._session: psycopg.AsyncConnection[Any] | None = None  # the writer's

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
            async with self._write_lock:
                writer = await self._open_writer()
                try:
                    number = str((await writer.exec_driver_sql(_BEGIN)).scalar_one())
                    if hold is not None:
                        await share_holds.require(writer, [hold])
                    yield writer
                    await self._commit(writer, number)
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
            async with self._engines.readers.connect() as reader, reader.begin():
                yield reader

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
        await self._engines.readers.dispose()
        await self._engines.writer.dispose()

    async def refuse_pooler(self) -> None:
        """Raise SettingsRefused if connections share sessions: then no lock of a session means anything."""
        with translate_errors():
            async with self._engines.writer.connect() as first, self._engines.writer.connect() as other:
                number = (await first.exec_driver_sql(_TAKE_OWN_LOCK)).scalar_one()
                await first.commit()
                next_number = (await first.exec_driver_sql(_SELECT_SESSION)).scalar_one()
                await first.commit()
                is_shared = (await other.exec_driver_sql(_TRY_LOCK.format(number))).scalar_one()
        if is_shared or next_number != number:
            raise SettingsRefused(
                "DATABASE_URL leads to a pooler that shares sessions, as PgBouncer does in transaction mode: "
                "no lock holds there. Connect to the server itself, or set pool_mode=session for this "
                "database."
            )

    async def _open_writer(self) -> AsyncConnection:
        if self._session is not None and is_lost(self._session):
            await self._close_writer()
        if self._writer is None:
            writer = await self._engines.writer.connect()
            try:
                raw_connection = await writer.get_raw_connection()
            except BaseException:
                await writer.close()
                raise
            self._writer = writer
            self._was_open = True
            self._session = cast("psycopg.AsyncConnection[Any]", raw_connection.driver_connection)
        return self._writer

    async def _commit(self, writer: AsyncConnection, number: str) -> None:
        session = self._session
        assert session is not None
        try:
            await writer.commit()
        except DBAPIError:
            if not session.closed:
                raise
            await self._close_writer()
            if not await self._find_outcome(number):
                raise

    async def _find_outcome(self, number: str) -> bool:
        """Whether the transaction of this number was committed; a gateway waits until the server says it."""
        while True:
            try:
                with report_failures(self._outage_log), translate_errors(was_open=self._was_open):
                    writer = await self._open_writer()
                    status = (await writer.exec_driver_sql(_SELECT_OUTCOME.format(number))).scalar_one()
                    await writer.commit()
            except StoreUnavailable:
                await self._close_writer()
                if self._stop is None or self._stop.is_set():
                    raise
                status = "in progress"
            if status != "in progress":
                return bool(status == "committed")
            await asyncio.sleep(_OUTCOME_RETRY_SECONDS)

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
            self._session = None
            with contextlib.suppress(Exception):
                await writer.close()


@contextlib.asynccontextmanager
async def open_server(
    url: str,
    outage_log: OutageLog | None = None,
    stop: asyncio.Event | None = None,
    *,
    for_gateway: bool = False,
) -> AsyncIterator[PostgresDatabase]:
    """Open the database at `url`; `for_gateway`: refuse what its locks would not hold on."""
    database = PostgresDatabase(create_engines(url), outage_log, stop)
    try:
        if for_gateway:
            await database.refuse_pooler()
        yield database
    finally:
        await database.close()
