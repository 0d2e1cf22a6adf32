"""The corridor: takes inbox items in order of their lanes and gives each group to the runner of its kind.

Owns which tasks run; lanes go side by side, a lane does one thing at a time, control items wait for nobody.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from bot import logs
from bot.db import inbox
from bot.db.engine import Database
from bot.domain import InboxItem, ItemKind, Lane, Runner
from bot.errors import StoreUnavailable

MOST_ATTEMPTS = 10  # an item that was running at so many deaths of the process is taken for their cause
RETRY_SECONDS = 1.0

GiveUp = Callable[[tuple[InboxItem, ...], str], Awaitable[None]]
Cut = Callable[[Lane, int], object]

T = TypeVar("T")

log = logging.getLogger(__name__)


class Worker:
    """Runs what the inbox holds until it is told to drain.

    `cut(lane, item)` ends what runs in a lane when a waiting item asks for it; `give_up(items, why)` sets items aside.
    """

    def __init__(
        self, database: Database, runners: Mapping[ItemKind, Runner], *, cut: Cut, give_up: GiveUp, grace: float = 7.0
    ) -> None:
        self._database = database
        self._runners = runners
        self._cut = cut
        self._give_up = give_up
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes: dict[str, int] = {}
        self._awake = asyncio.Event()
        self._draining = False

    def wake(self) -> None:
        """There may be something new in the inbox."""
        self._awake.set()

    def drain(self) -> None:
        """Take nothing more; what runs has `grace` seconds, then it is cancelled and goes on after the next start."""
        self._draining = True
        self._awake.set()

    def busy(self, lane: Lane) -> bool:
        """Whether something runs in this lane."""
        return lane.key in self._lanes

    async def run(self) -> None:
        """Work until `drain` is called and what ran has ended or used up its grace."""
        await self._patiently(self._recover)
        async with asyncio.TaskGroup() as tasks:
            while not self._draining:
                self._awake.clear()
                ripe_at = await self._patiently(lambda: self._take(tasks))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, ripe_at - time.time()) if ripe_at else None):
                        await self._awake.wait()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._grace)
            for task in self._tasks:
                task.cancel()

    async def _recover(self) -> None:
        async with self._database.transaction() as tx:
            await inbox.recover(tx)

    async def _take(self, tasks: asyncio.TaskGroup) -> float | None:
        async with self._database.transaction() as tx:
            claimed = await inbox.claim(tx, now=time.time())
        for lane, item in claimed.cutting:
            self._cut(lane, item)
        for group in claimed.groups:
            task = tasks.create_task(self._do(group), name=f"item {group[0].id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return claimed.ripe_at

    async def _do(self, items: tuple[InboxItem, ...]) -> None:
        first = items[0]
        if first.lane:
            self._lanes[first.lane.key] = first.id
        try:
            with logs.bind(item=first.id, lane=first.lane.key if first.lane else None):
                await self._patiently(lambda: self._run(items))
        finally:
            if first.lane:
                self._lanes.pop(first.lane.key, None)
            self.wake()

    async def _run(self, items: tuple[InboxItem, ...]) -> None:
        first = items[0]
        if first.attempt > MOST_ATTEMPTS:
            await self._give_up(items, f"the process ended {MOST_ATTEMPTS} times while this was handled")
            return
        try:
            await self._runners[first.kind](items)
        except StoreUnavailable:
            raise
        except Exception as error:  # the border: whatever a runner raises sets its items aside, not the house
            log.exception("an item could not be handled", extra={"action": "worker.dead"})
            await self._give_up(items, f"{type(error).__name__}: {error}")

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await work()
            except StoreUnavailable as error:
                log.warning("%s", error, extra={"action": "worker.store"})
                await asyncio.sleep(RETRY_SECONDS)
