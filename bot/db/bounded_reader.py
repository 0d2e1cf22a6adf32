"""Reads for the admin page, which must never be in a gateway's way.

They have connections of their own that cannot write, and threads of their own; one read runs at a time, and
SQLite ends it when it takes too long.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.engine import Database
from bot.db.migrate import find_newest_revision
from bot.db.readonly import open_readonly
from bot.db.transaction import Transaction
from bot.errors import ReadTooSlow, SchemaUnknown, StoreBusy, StoreUnavailable

READ_SECONDS = 2.0
TURN_SECONDS = 5.0  # that a read waits for the ones before it
_INSTRUCTIONS_PER_CHECK = 20_000  # of SQLite's machine, some 0.2 ms: often enough, and it costs nothing


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

        Raises ReadTooSlow, StoreUnavailable, and SchemaUnknown once another version has migrated the file.
        """
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._lock.acquire()
        except TimeoutError:
            raise StoreBusy("other pages are being read from the database") from None
        deadline = _Deadline(time.monotonic() + self._read_seconds)
        try:
            async with self._database.long_read_transaction() as tx:
                assert isinstance(tx, AsyncConnection)  # it has a thread, so it is one
                await _set_deadline(tx, deadline)
                await self._check_revision(tx)
                yield tx
        except StoreUnavailable as error:
            if deadline.has_passed:
                raise ReadTooSlow(self._read_seconds) from error
            raise
        finally:
            self._lock.release()

    async def _check_revision(self, tx: Transaction) -> None:
        rows = await tx.exec_driver_sql("SELECT version_num FROM alembic_version")
        current = str(rows.scalar_one())
        if current != self._revision:
            raise SchemaUnknown(
                f"The database has schema {current} now, this program reads {self._revision}. "
                "Start it again in the gateway's version."
            )


class _Deadline:
    """Tells SQLite to end a statement once `moment` (of the monotonic clock) has passed."""

    def __init__(self, moment: float) -> None:
        self._moment = moment
        self.has_passed = False

    def check(self) -> int:
        self.has_passed = time.monotonic() > self._moment
        return int(self.has_passed)


async def _set_deadline(tx: AsyncConnection, deadline: _Deadline) -> None:
    connection = (await tx.get_raw_connection()).driver_connection
    assert connection is not None
    await connection.set_progress_handler(deadline.check, _INSTRUCTIONS_PER_CHECK)


@contextlib.asynccontextmanager
async def open_bounded_reader(url: str) -> AsyncIterator[BoundedReader]:
    """Open the SQLite database at `url` for reads; raises what `open_readonly` does."""
    async with open_readonly(url) as database:
        yield BoundedReader(database)
