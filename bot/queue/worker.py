"""The corridor: takes inbox items in order of their lanes and gives each group to the runner of its kind.

Owns which tasks run; lanes go side by side, a lane does one thing at a time, control items wait for nobody.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from bot import logs
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.retry import AGAIN_SECONDS, patiently
from bot.domain import InboxItem, ItemKind, Lane, Runner
from bot.errors import CanvasgramError, StoreUnavailable

MOST_ATTEMPTS = 10  # an item that was running at so many deaths of the process is taken for their cause
YIELD_SECONDS = 0.1  # until it is looked again whether a due task may give way
GRACE = 4.0  # seconds; delivering has as many again, and supervisors kill at ten

GiveUp = Callable[[tuple[InboxItem, ...], str], Awaitable[None]]
Cut = Callable[[Lane, int], object]

log = logging.getLogger(__name__)


class Worker:
    """Runs what the inbox holds until it is told to drain.

    `cut(lane, item)` ends what runs in a lane when a waiting item asks for it; `yields(lane)`: a due task
    that runs in it may give way at this moment; `give_up(items, why)` sets items aside.
    """

    def __init__(
        self,
        database: Database,
        runners: Mapping[ItemKind, Runner],
        *,
        cut: Cut,
        give_up: GiveUp,
        yields: Callable[[Lane], bool] = lambda _: True,
        grace: float = GRACE,
    ) -> None:
        self._database = database
        self._runners = runners
        self._cut = cut
        self._give_up = give_up
        self._yields = yields
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes: dict[str, int] = {}
        self._polite: dict[int, asyncio.Task[None]] = {}  # due tasks by their item
        self._giving_way: set[int] = set()
        self._awake = asyncio.Event()
        self._missed = False  # something may wait that the last look could not start
        self._recovered = False
        self._draining = False
        self._leaving = False

    def wake(self) -> None:
        """There may be something new in the inbox."""
        self._missed = True
        self._awake.set()

    def drain(self) -> None:
        """Take nothing more; what runs has `grace` seconds, then it is cancelled and goes on after the next
        start.
        """
        self._draining = True
        self._awake.set()

    def busy(self, lane: Lane) -> bool:
        """Whether something runs in this lane."""
        return lane.key in self._lanes

    async def run(self) -> None:
        """Work until `drain` is called and what ran has ended or used up its grace."""
        async with asyncio.TaskGroup() as tasks:
            try:
                await self._work(tasks)
            finally:
                self._leaving = True
            for task in self._tasks:
                task.cancel()

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        while not self._draining:
            self._awake.clear()
            look_at = await self._look(tasks)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, look_at - time.time()) if look_at else None):
                    await self._awake.wait()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace)

    async def _look(self, tasks: asyncio.TaskGroup) -> float | None:
        """Start what may start; returns when to look again even if nobody calls."""
        if not self._tasks:
            self._missed = False  # no lane is busy, so this look sees everything
        try:
            return await self._take(tasks)
        except StoreUnavailable as error:
            log.warning("%s", error, extra={"action": "worker.store"})
            return time.time() + AGAIN_SECONDS

    async def _take(self, tasks: asyncio.TaskGroup) -> float | None:
        async with self._database.transaction(durable=False) as tx:
            if not self._recovered:
                await inbox.recover(tx, now=time.time())
            claimed = await inbox.claim(tx, now=time.time())
        self._recovered = True
        self._missed |= claimed.left
        for lane, item in claimed.cutting:
            self._cut(lane, item)
        for group in claimed.groups:
            task = tasks.create_task(self._do(group), name=f"item {group[0].id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if group[0].kind == "task" and group[0].job is not None:
                self._polite[group[0].id] = task
        later = [item for lane, item in claimed.yielding if not self._give_way(lane, item)]
        soon = time.time() + YIELD_SECONDS
        if later:
            return min(soon, claimed.ripe_at or soon)
        return claimed.ripe_at

    def _give_way(self, lane: Lane, item: int) -> bool:
        """Have a due task give way; False if it does so a little later."""
        if item in self._polite and not self._yields(lane):
            return False
        if polite := self._polite.pop(item, None):
            self._giving_way.add(item)
            polite.cancel("it gave way to a message")
        return True

    async def _do(self, items: tuple[InboxItem, ...]) -> None:
        first = items[0]
        if first.lane:
            self._lanes[first.lane.key] = first.id
        try:
            with logs.bind(item=first.id, lane=first.lane.key if first.lane else None):
                await patiently(lambda: self._run(items))
        except asyncio.CancelledError:
            if first.id not in self._giving_way:
                raise
            await patiently(lambda: self._step_back(items))
            self._missed = True
        finally:
            self._polite.pop(first.id, None)
            self._giving_way.discard(first.id)
            if first.lane and self._lanes.get(first.lane.key) == first.id:  # else the next one has begun
                del self._lanes[first.lane.key]
            if self._missed:
                self._awake.set()

    async def _step_back(self, items: tuple[InboxItem, ...]) -> None:
        """A person has written where a due task runs: it goes on after them, from what is stored of it."""
        async with self._database.transaction() as tx:
            await inbox.step_back(tx, [item.id for item in items])

    async def _run(self, items: tuple[InboxItem, ...]) -> None:
        first = items[0]
        if first.attempt > MOST_ATTEMPTS:
            await self._set_aside(items, f"The process ended {MOST_ATTEMPTS} times while this was handled.")
            return
        try:
            await self._runners[first.kind](items)
        except StoreUnavailable:
            raise
        except Exception as error:  # the border: whatever a runner raises sets its items aside, not the house
            log.exception("an item could not be handled", extra={"action": "worker.failed"})
            if self._leaving:  # not its own fault: it is new again at the next start
                raise asyncio.CancelledError from error
            # The text of a foreign error may hold a token, or what a person wrote; the log hides the first.
            if isinstance(error, CanvasgramError):
                why = str(error)
            else:
                why = "The log says why."
            await self._set_aside(items, why)

    async def _set_aside(self, items: tuple[InboxItem, ...], why: str) -> None:
        try:
            await patiently(lambda: self._give_up(items, why))
        except Exception:  # whoever is told fails too; the lane must go on all the same
            log.exception("an item could not be set aside in words", extra={"action": "worker.speechless"})
            await patiently(lambda: self._bury(items, why))

    async def _bury(self, items: tuple[InboxItem, ...], why: str) -> None:
        async with self._database.transaction() as tx:
            await inbox.dead(tx, [item.id for item in items], error=why, now=time.time())
