"""Opens the database. Its two builds, one for each kind of server, give transactions in the same way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from bot.db.database_url import is_postgresql, parse_database_path
from bot.db.retry import OutageLog
from bot.db.sqlite.engine import open_sqlite
from bot.db.transaction import Transaction
from bot.domain import CommitListener


class Database(Protocol):
    """The open database; `open_database` builds it.

    Every transaction is committed when its block ends, and rolled back when that raises. All raise
    StoreUnavailable while the database cannot be used: the same work may be tried again.
    """

    def set_listener(self, listener: CommitListener) -> None:
        """Tell this listener from now on what each commit of this process leaves to be done."""
        ...

    def transaction(self, *, durable: bool = True) -> AbstractAsyncContextManager[Transaction]:
        """Write; this process has one write transaction at a time.

        What is committed survives the death of this process. If `durable`, it survives a power cut as well;
        if not, that is left to the build: it is on the disk no later than the next durable transaction.
        """
        ...

    def read_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Read from one consistent snapshot, without waiting for writers."""
        ...

    def long_transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Write durably, with statements that may take long; other writers wait."""
        ...

    def file_transaction(
        self, byte_count: int, *, durable: bool = True
    ) -> AbstractAsyncContextManager[Transaction]:
        """Write files of so many bytes together."""
        ...

    def long_read_transaction(
        self, max_seconds: float | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Read from one consistent snapshot with statements that may take long.

        After `max_seconds` they are ended, and ReadTooSlow is raised.
        """
        ...

    async def erase_deleted(self) -> None:
        """Leave no deleted text in the files that this process writes."""
        ...

    async def optimize(self) -> None:
        """Do at night what keeps queries fast."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


@asynccontextmanager
async def open_database(
    url: str,
    outage_log: OutageLog | None = None,
    stop: asyncio.Event | None = None,
    *,
    for_gateway: bool = False,
) -> AsyncIterator[Database]:
    """Open the database at `url`, which must have been migrated before anything is read.

    `for_gateway`: raises GatewayRunning while another one works on the same file, and SettingsRefused where a
    server's locks would not hold.

    `outage_log` hears of each failure, and of each write transaction after one; commands that retry nothing
    have none. Once `stop` is set, transactions wait only briefly for what others hold.
    """
    if is_postgresql(url):
        from bot.db.postgresql.engine import open_server

        async with open_server(url, outage_log, stop, for_gateway=for_gateway) as server:
            yield server
        return
    async with open_sqlite(parse_database_path(url), outage_log, stop, for_gateway=for_gateway) as database:
        yield database
