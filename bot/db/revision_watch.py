"""Keeps what a replica has in memory as other replicas change it in the database.

A replica that takes an item has read every change that was committed before that item came: who was blocked
is not answered, whichever replica blocked them. For everything else a notification says at once that
something has changed, and a look every few seconds finds what no notification told of.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from bot.db import revisions
from bot.db.engine import Database
from bot.db.transaction import Transaction
from bot.errors import StoreUnavailable

LOOK_SECONDS = 2.0


class RevisionWatch:
    """Calls each function of `reloads` when the revision of its name has changed.

    Such a function reads from the database what belongs to the name. What it raises is raised, and it is
    called again at the next look.
    """

    def __init__(self, database: Database, reloads: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
        self._database = database
        self._reloads = reloads
        self._known: dict[str, int] = {}
        self._known_sum: int | None = None  # of all revisions, as `refresh` was last told
        self._lock = asyncio.Lock()
        self._look_requested = asyncio.Event()

    def wake(self) -> None:
        """Look now: something has been changed."""
        self._look_requested.set()

    async def run(self) -> None:
        """Look whenever that is asked for, and every few seconds, until cancelled."""
        while True:
            with contextlib.suppress(StoreUnavailable):
                async with self._database.read_transaction() as tx:
                    numbers = await revisions.read(tx, self._reloads)
                await self._reload(numbers)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look_requested.wait()
            self._look_requested.clear()

    async def refresh(self, tx: Transaction, revision_sum: int | None) -> None:
        """Read what has changed before a statement of `tx` read this sum of all revisions.

        It is read in a transaction of its own, and holds also if `tx` is rolled back.
        """
        if revision_sum == self._known_sum:
            return
        await self._reload(await revisions.read(tx, self._reloads))
        self._known_sum = revision_sum

    async def _reload(self, numbers: Mapping[str, int]) -> None:
        async with self._lock:
            while stale_names := [name for name in numbers if numbers[name] > self._known.get(name, 0)]:
                for name in stale_names:
                    await self._reloads[name]()
                    self._known[name] = numbers[name]
                # Changed meanwhile by this replica, whose own note of it may have been overwritten.
                async with self._database.read_transaction() as tx:
                    numbers = await revisions.read(tx, self._reloads)
