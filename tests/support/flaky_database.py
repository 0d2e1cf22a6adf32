"""A database that can be made to refuse writes, as with a full disk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from bot.db.engine import Database
from bot.db.sqlite.engine import SqliteDatabase
from bot.db.transaction import Transaction
from bot.errors import StoreUnavailable


class FlakyDatabase(SqliteDatabase):
    """A database that cannot be written while `full` is set, nor for the next `refusals_left` transactions.

    `refused_count`: the transactions it refused; `refused` is set by the first. `durable`: what was asked of
    its last transaction.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.full = False
        self.refusals_left = 0
        self.refused_count = 0
        self.refused = asyncio.Event()
        self.durable = False

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Transaction]:
        if self.full or self.refusals_left:
            self.refusals_left = max(0, self.refusals_left - 1)
            self.refused_count += 1
            self.refused.set()
            raise StoreUnavailable("the disk is full")
        self.durable = durable
        async with self.database.transaction(durable=durable) as tx:
            yield tx

    @contextlib.asynccontextmanager
    async def long_transaction(self) -> AsyncIterator[Transaction]:
        async with self.database.long_transaction() as tx:
            yield tx

    @contextlib.asynccontextmanager
    async def long_read_transaction(self, max_seconds: float | None = None) -> AsyncIterator[Transaction]:
        async with self.database.long_read_transaction(max_seconds) as tx:
            yield tx

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[Transaction]:
        async with self.database.read_transaction() as tx:
            yield tx
