"""The house's own jobs: gives each inbox item of kind `house` to the runner of its job, and writes down daily ones.

Owns when a day has passed; a job is an inbox item, so that it outlives the process.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from bot.db import inbox
from bot.db.engine import Database
from bot.db.patience import patiently
from bot.domain import InboxItem, Runner

DAY = 86_400.0


class Jobs:
    """The runner of the house's items: `runners` by the name in an item's body, such as `summary`."""

    def __init__(self, runners: Mapping[str, Runner]) -> None:
        self._runners = runners

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        await self._runners[item.body["job"]](items)


class Daily:
    """Writes `jobs` down at start and every day, unless the last one is still to be done; `wake` wakes the worker."""

    def __init__(self, database: Database, jobs: Sequence[str], wake: Callable[[], None]) -> None:
        self._database = database
        self._jobs = jobs
        self._wake = wake

    async def run(self) -> None:
        """Until cancelled; returns if there is nothing to do."""
        while self._jobs:
            await patiently(self._write)
            self._wake()
            await asyncio.sleep(DAY)

    async def _write(self) -> None:
        async with self._database.transaction() as tx:
            for job in self._jobs:
                body = {"job": job}
                if not await inbox.promised(tx, body):
                    await inbox.add(tx, kind="house", lane=None, sender=None, body=body, now=time.time())
