"""Reads for the admin page, which must never be in a gateway's way.

They have connections of their own that cannot write; one read runs at a time, and is ended when it takes too
long.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from bot.db.engine import Database
from bot.db.readonly import open_readonly
from bot.db.schema import find_newest_revision
from bot.db.transaction import Transaction
from bot.errors import SchemaUnknown, StoreBusy

READ_SECONDS = 4.0  # of work; a table of a million calls of 90 days takes up to 1.8
TURN_SECONDS = 10.0  # that a read waits for the ones before it


class BoundedReader:
    """Reads one after the other, each for at most `read_seconds`; `open_bounded_reader` builds it."""

    def __init__(self, database: Database, *, read_seconds: float = READ_SECONDS) -> None:
        self._database = database
        self._read_seconds = read_seconds
        self._revision = find_newest_revision()
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        """Read from one consistent snapshot.

        Raises ReadTooSlow, StoreUnavailable, and SchemaUnknown once another version has migrated it.
        """
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._lock.acquire()
        except TimeoutError:
            raise StoreBusy("other pages are being read from the database") from None
        try:
            async with self._database.long_read_transaction(self._read_seconds) as tx:
                await self._check_revision(tx)
                yield tx
        finally:
            self._lock.release()

    @contextlib.asynccontextmanager
    async def read_briefly(self) -> AsyncIterator[Transaction]:
        """Read a few rows by an index, in less time than a thread takes to begin; waits for no other read.

        Raises StoreUnavailable, and SchemaUnknown once another version has migrated it.
        """
        async with self._database.read_transaction() as tx:
            await self._check_revision(tx)
            yield tx

    async def _check_revision(self, tx: Transaction) -> None:
        rows = await tx.exec_driver_sql("SELECT version_num FROM alembic_version")
        current = str(rows.scalar_one())
        if current != self._revision:
            raise SchemaUnknown(
                f"The database has schema {current} now, this program reads {self._revision}. "
                "Start it again in the gateway's version."
            )


@contextlib.asynccontextmanager
async def open_bounded_reader(url: str) -> AsyncIterator[BoundedReader]:
    """Open the database at `url` for reads; raises what `open_readonly` does."""
    async with open_readonly(url) as database:
        yield BoundedReader(database)
