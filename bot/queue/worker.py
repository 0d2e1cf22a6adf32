"""Claims inbox items in the order of their lanes and gives each group to the runner of its kind.

Owns which tasks run: lanes run side by side, a lane runs one group at a time, control items wait for nothing.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from bot import logs
from bot.db import retry, shares
from bot.db.conversations import calls
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.queues.claim import MAX_GROUP_BYTES
from bot.db.retry import retry_until_available
from bot.db.revision_watch import RevisionWatch
from bot.db.shares import ShareHold
from bot.domain import GiveUp, InboxItem, ItemKind, Lane, Runner
from bot.errors import CanvasgramError, ShareLost, StoreUnavailable

MAX_ATTEMPTS = 10  # times the process may end while an item runs; then the item is taken for the cause
START_PAUSE_SECONDS = 0.001  # in which a turn sends its first call, before the next one is prepared
YIELD_RETRY_SECONDS = 0.1  # until the worker checks again whether a scheduled task may give way
GRACE_SECONDS = 4.0  # the sender has three more, the database may be held, and supervisors kill after ten

log = logging.getLogger(__name__)


class BusyLanes:
    """Lanes in which something runs, each with the first item of that."""

    def __init__(self) -> None:
        self._first_items: dict[Lane, int] = {}

    def has(self, lane: Lane) -> bool:
        """Whether something runs in this lane."""
        return lane in self._first_items

    def add(self, lane: Lane, item: int) -> None:
        """Note that what begins with this item runs in a lane."""
        self._first_items[lane] = item

    def remove(self, lane: Lane, item: int) -> None:
        """Note that it has ended; the next one may have begun already."""
        if self._first_items.get(lane) == item:
            del self._first_items[lane]


@dataclass(frozen=True, slots=True)
class WorkerCallbacks:
    """`stop_lane`: ends what runs in a lane, because a waiting item asks for it.
    `stop_edited`: the same, because the message that it answers was edited.

    `give_up`: sets items aside, with the reason.
    `can_yield`: whether a scheduled task that runs in a lane may give way now.
    `revision_watch`: brings up to date what runners know, in the transaction that claims their items (None:
    no other process changes it).
    `busy_lanes`: in which something runs, for others to see.
    """

    stop_lane: Callable[[Lane, int], object]
    give_up: GiveUp
    can_yield: Callable[[Lane], bool] = lambda _: True
    stop_edited: Callable[[Lane, int], object] = lambda lane, item: None
    revision_watch: RevisionWatch | None = None
    busy_lanes: BusyLanes = field(default_factory=BusyLanes)


class Worker:
    """Runs the items of the inbox until `drain` is called.

    `max_group_bytes`: bounds the texts of the messages that are answered together. `holds`: the shares whose
    items it may run, by their numbers; None: all, for there is no other replica.
    """

    def __init__(
        self,
        database: Database,
        runners: Mapping[ItemKind, Runner],
        callbacks: WorkerCallbacks,
        *,
        grace_seconds: float = GRACE_SECONDS,
        max_group_bytes: int = MAX_GROUP_BYTES,
        holds: Mapping[int, ShareHold] | None = None,
    ) -> None:
        self._database = database
        self._runners = runners
        self._callbacks = callbacks
        self._grace_seconds = grace_seconds
        self._max_group_bytes = max_group_bytes
        self._holds = holds
        self._tasks: dict[asyncio.Task[None], int] = {}  # and the share of what each runs
        self._busy_lanes = callbacks.busy_lanes
        self._scheduled_tasks: dict[int, asyncio.Task[None]] = {}  # those that run, by their item
        self._yielded_items: set[int] = set()
        self._wake_event = asyncio.Event()
        self._needs_recheck = False  # the last claim could not start all that waits
        self._has_recovered = holds is not None  # the items of a share are put back when it is taken over
        self._is_claiming = False
        self._is_draining = False
        self._grace_ends_at = 0.0  # monotonic
        self._is_shutting_down = False

    def wake(self) -> None:
        """Check the inbox: there may be something new."""
        self._needs_recheck = True
        self._wake_event.set()

    def drain(self) -> None:
        """Take nothing more; what runs after `grace_seconds` is cancelled, and resumed at the next start."""
        if not self._is_draining:
            self._is_draining = True
            self._grace_ends_at = time.monotonic() + self._grace_seconds
        self._wake_event.set()

    def list_busy_shares(self) -> Collection[int]:
        """The shares of which something runs, or may be about to."""
        if self._is_claiming and self._holds is not None:
            return self._holds.keys()
        return set(self._tasks.values())

    @property
    def is_draining(self) -> bool:
        """Whether nothing more is taken."""
        return self._is_draining

    async def abandon(self, numbers: Collection[int]) -> None:
        """End at once what runs for these shares, which another replica has."""
        lost_tasks = [task for task, share in self._tasks.items() if share in numbers]
        for task in lost_tasks:
            task.cancel()
        if lost_tasks:
            await asyncio.wait(lost_tasks)

    async def run(self) -> None:
        """Work until `drain` is called and what ran has ended or used up its grace period."""
        async with asyncio.TaskGroup() as tasks:
            try:
                await self._run_until_drained(tasks)
            finally:
                self._is_shutting_down = True
            for task in self._tasks:
                task.cancel()

    async def _run_until_drained(self, tasks: asyncio.TaskGroup) -> None:
        while not self._is_draining:
            self._wake_event.clear()
            wake_at = await self._start_ready(tasks)
            timeout: float | None = None
            if wake_at:
                timeout = max(0.0, wake_at - time.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake_event.wait()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(0.0, self._grace_ends_at - time.monotonic()))

    async def _start_ready(self, tasks: asyncio.TaskGroup) -> float | None:
        """Start what may start; returns when to check again if nothing wakes the worker (epoch seconds)."""
        if not self._tasks:
            self._needs_recheck = False  # no lane is busy, so this claim sees everything
        try:
            return await self._claim_and_start(tasks)
        except (StoreUnavailable, ShareLost):
            return time.time() + retry.RETRY_SECONDS

    async def _claim_and_start(self, tasks: asyncio.TaskGroup) -> float | None:
        self._is_claiming = True
        try:
            claimed = await self._claim()
            await self._start_claimed(tasks, claimed)
        finally:
            self._is_claiming = False
        refused_to_yield = [item for lane, item in claimed.yielding_items if not self._try_yield(lane, item)]
        if not refused_to_yield:
            return claimed.held_until
        retry_at = time.time() + YIELD_RETRY_SECONDS
        return min(retry_at, claimed.held_until or retry_at)

    async def _start_claimed(self, tasks: asyncio.TaskGroup, claimed: inbox.ClaimResult) -> None:
        self._needs_recheck |= claimed.has_waiting
        for lane, item in claimed.cutting_items:
            self._callbacks.stop_lane(lane, item)
        for lane, item in claimed.cutting_edits:
            self._callbacks.stop_edited(lane, item)
        for group in claimed.groups:
            self._start_group(tasks, group)
            await asyncio.sleep(START_PAUSE_SECONDS)

    async def _claim(self) -> inbox.ClaimResult:
        async with self._database.transaction(durable=False) as tx:
            if not self._has_recovered:
                await inbox.recover(tx, now=time.time())
            claimed = await inbox.claim(
                tx,
                now=time.time(),
                max_group_bytes=self._max_group_bytes,
                holds=None if self._holds is None else tuple(self._holds.values()),
            )
            if claimed.groups and self._callbacks.revision_watch is not None:
                await self._callbacks.revision_watch.refresh(tx, claimed.revision)
        self._has_recovered = True
        return claimed

    def _start_group(self, tasks: asyncio.TaskGroup, items: tuple[InboxItem, ...]) -> None:
        first = items[0]
        hold = None if self._holds is None else self._holds.get(first.share)
        if hold is None and self._holds is not None:
            return  # lost since the claim: the replica that has it now puts the items back
        task = tasks.create_task(self._run_under_hold(items, hold), name=f"item {first.id}")
        self._tasks[task] = first.share
        task.add_done_callback(self._tasks.pop)
        if first.kind == "hook" or (first.kind == "task" and first.job is not None):
            self._scheduled_tasks[first.id] = task

    def _try_yield(self, lane: Lane, item: int) -> bool:
        """Have the scheduled task of this item give way; False if that has to be tried again later."""
        if item in self._scheduled_tasks and not self._callbacks.can_yield(lane):
            return False
        task = self._scheduled_tasks.pop(item, None)
        if task is not None:
            self._yielded_items.add(item)
            task.cancel(calls.GAVE_WAY)
        return True

    async def _run_under_hold(self, items: tuple[InboxItem, ...], hold: ShareHold | None) -> None:
        try:
            with shares.work_under(hold):
                await self._run_group(items)
        except ShareLost:
            log.info("another replica goes on with an item", extra={"action": "worker.share_lost"})

    async def _run_group(self, items: tuple[InboxItem, ...]) -> None:
        """Run the items of one group; a scheduled task that gave way is released, to run again later."""
        first = items[0]
        if first.lane:
            self._busy_lanes.add(first.lane, first.id)
        try:
            with logs.bind(item=first.id, lane=first.lane.key if first.lane else None):
                await retry_until_available(lambda: self._dispatch(items))
        except asyncio.CancelledError:
            if first.id not in self._yielded_items:
                raise
            await retry_until_available(lambda: self._release(items))
            self._needs_recheck = True
        finally:
            self._scheduled_tasks.pop(first.id, None)
            self._yielded_items.discard(first.id)
            if first.lane:
                self._busy_lanes.remove(first.lane, first.id)
            if self._needs_recheck:
                self._wake_event.set()

    async def _dispatch(self, items: tuple[InboxItem, ...]) -> None:
        """Hand a group to the runner of its kind; set aside one that fails or keeps ending the process."""
        first = items[0]
        if first.attempt > MAX_ATTEMPTS:
            await self._dead_letter(items, f"The process ended {MAX_ATTEMPTS} times while this was handled.")
            return
        try:
            await self._runners[first.kind](items)
        except (StoreUnavailable, ShareLost):
            raise
        except Exception as error:
            if isinstance(error, ExceptionGroup) and error.subgroup(ShareLost):
                raise ShareLost from error
            # The border: an error of a runner sets its items aside, and ends nothing else.
            log.exception("an item could not be handled", extra={"action": "worker.failed"})
            if self._is_shutting_down:  # not its own fault: it is new again at the next start
                raise asyncio.CancelledError from error
            # The text of a foreign error may hold a token or what a user wrote; the log hides only tokens.
            reason = str(error) if isinstance(error, CanvasgramError) else "The log says why."
            await self._dead_letter(items, reason)

    async def _dead_letter(self, items: tuple[InboxItem, ...], reason: str) -> None:
        try:
            await retry_until_available(lambda: self._callbacks.give_up(items, reason))
        except ShareLost:
            raise
        except Exception:  # notifying may fail as well; the lane must continue all the same
            log.exception("an item could not be set aside in words", extra={"action": "worker.notify_failed"})
            await retry_until_available(lambda: self._mark_dead(items, reason))

    async def _mark_dead(self, items: tuple[InboxItem, ...], reason: str) -> None:
        async with self._database.transaction() as tx:
            await inbox.mark_dead(tx, [item.id for item in items], error=reason, now=time.time())

    async def _release(self, items: tuple[InboxItem, ...]) -> None:
        """Put a scheduled task behind the message it gave way to; it resumes from what is stored of it."""
        async with self._database.transaction() as tx:
            await inbox.release(tx, [item.id for item in items])
