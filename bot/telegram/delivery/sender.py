"""Sends and edits all messages: drains the outbox with one LaneSender per lane, in parallel.

Continues after a restart. A lane that is slow or backs off delays no other, and is forgotten when it has
nothing to do. The commit listener calls `wake` for what was stored in the outbox.
"""

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from telegram import Bot

from bot.db import shares
from bot.db.commit_watch import CommitWatch, compute_seconds_to_look
from bot.db.engine import Database
from bot.db.queues import outbox
from bot.db.queues.outbox_rows import OutboxRow
from bot.db.shares import ShareHold
from bot.db.transaction import Transaction
from bot.db.write_queue import WriteQueue
from bot.domain import Lane, NotifyAdmins
from bot.errors import ShareLost, StoreUnavailable
from bot.telegram.client import TelegramClient
from bot.telegram.delivery.lane_calls import DeliveryContext, RefusalListener
from bot.telegram.delivery.lane_worker import LaneSender
from bot.telegram.delivery.progress import TurnProgress
from bot.telegram.delivery.rate_budget import RateLimits
from bot.telegram.delivery.rate_queue import RateQueue, SenderStopped
from bot.telegram.delivery.renderer import MarkdownRenderer
from bot.telegram.file_client import FileClient
from bot.usage.timers import TurnTimers

_log = logging.getLogger(__name__)
_CRASH_PAUSE_SECONDS = 5.0
_LOOK_SECONDS = 2.0  # between looks for what other commands have stored
_STOP_GRACE_SECONDS = 3.0  # a call without an answer by then is unknown, and the next start says so


@dataclass(frozen=True, slots=True)
class SenderCallbacks:
    """`refusal_listener`: hears of chats that take no message. `on_trouble`: called with a subject and a text
    for admins, outside any transaction.
    """

    refusal_listener: RefusalListener
    on_trouble: NotifyAdmins


@dataclass(frozen=True, slots=True)
class OwnLanes:
    """Which lanes are delivered here, where other replicas deliver the rest.

    `holds`: the shares of these lanes, by their numbers. `is_confirmed`: whether they are certainly still
    held.
    """

    holds: Mapping[int, ShareHold]
    is_confirmed: Callable[[], bool]


class Sender:
    """Delivers messages, and shows the progress of turns, while `run` runs; `stop` lets it return.

    `renderer`: renders what turns show.
    """

    def __init__(  # noqa: PLR0913  # each is of another part of the gateway
        self,
        database: Database,
        bot: Bot,
        callbacks: SenderCallbacks,
        *,
        limits: RateLimits | None = None,
        turn_timers: TurnTimers | None = None,
        own_lanes: OwnLanes | None = None,
        database_file: Path | None = None,
    ) -> None:
        """`turn_timers` measure how long delivery takes. `own_lanes` None: it delivers in all lanes.

        `database_file` is watched for what other commands store (None: nobody else does, or they notify).
        """
        self.renderer = MarkdownRenderer()
        self._database = database
        self._database_file = database_file
        self._write_queue = WriteQueue(database)
        self._own_lanes = own_lanes
        is_confirmed = own_lanes.is_confirmed if own_lanes is not None else lambda: True
        self._rate_queue = RateQueue(limits or RateLimits(), is_confirmed)
        self._turn_timers = turn_timers or TurnTimers()
        self._context = DeliveryContext(
            TelegramClient(bot),
            FileClient(bot),
            self.renderer,
            database,
            self._write_queue,
            self._rate_queue,
            time.time,
            callbacks.refusal_listener,
            callbacks.on_trouble,
            self._turn_timers,
        )
        self._lane_senders: dict[Lane, LaneSender] = {}
        self._tasks: dict[Lane, asyncio.Task[None]] = {}
        self._task_group: asyncio.TaskGroup | None = None
        self._idle_event = asyncio.Event()  # no lane has anything to do

    @property
    def limits(self) -> RateLimits:
        return self._rate_queue.limits

    def divide_rate(self, replicas: int) -> None:
        """Use an equal part of what Telegram allows one bot, for which so many replicas send."""
        self._rate_queue.divide_overall(replicas)

    @property
    def now(self) -> float:
        """Seconds of the monotonic clock by which progress is timed."""
        return self._rate_queue.now

    async def run(self) -> None:
        """Deliver what was left, then what comes, until stopped; calls under way may then still finish."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_queue.run(), name="outbox writes")
            if self._own_lanes is None:
                await self._wake_leftover(tasks)
            watching = tasks.create_task(self._watch_commits(), name="outbox of other commands")
            with contextlib.suppress(TimeoutError):
                await self._run_lanes()
            watching.cancel()
            self._write_queue.close()

    async def _watch_commits(self) -> None:
        """Deliver what other commands store; while nothing is written to the database, it is not queried."""
        if self._database_file is None:
            return
        commits = CommitWatch(self._database_file)
        while True:
            await asyncio.sleep(compute_seconds_to_look(_LOOK_SECONDS))
            with contextlib.suppress(StoreUnavailable), commits.look() as is_written:
                if is_written:
                    await self._wake_due_lanes()

    async def _wake_due_lanes(self) -> None:
        async with self._database.read_transaction() as tx:
            due_lanes = await outbox.list_due_lanes(tx)
        for lane in due_lanes:
            self._wake_lane(lane, is_due=True)

    async def _wake_leftover(self, tasks: asyncio.TaskGroup) -> None:
        """Deliver what an earlier process has left."""
        loading = self._write_queue.enqueue(self._load_due_lanes)
        stopping = tasks.create_task(self._rate_queue.wait_until_stopped(), name="sender's stop")
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if loading.done():  # else the database cannot be used until the end
            for lane in loading.result():
                self.wake(lane)

    def list_busy_shares(self) -> Collection[int]:
        """The shares of lanes in which something is delivered or shown."""
        return {lane.share for lane in self._lane_senders}

    async def abandon(self, numbers: Collection[int]) -> None:
        """End at once what is delivered in lanes of these shares, which another replica has."""
        tasks = {lane: task for lane, task in self._tasks.items() if lane.share in numbers}
        for task in tasks.values():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks.values())
        for lane in tasks:  # of a task that had not begun yet
            self._forget_lane(lane)

    def stop(self) -> None:
        """Begin nothing that must wait; everything else stays stored for the next start."""
        self._rate_queue.stop()
        for lane_sender in self._lane_senders.values():
            lane_sender.wake()

    async def wait_until_idle(self) -> None:
        """Wait until all is delivered in every lane and no turn shows progress."""
        await self._idle_event.wait()

    def wake(self, lane: Lane) -> None:
        """Deliver what has been committed to the outbox for this lane, if it is delivered here."""
        self._wake_lane(lane, is_due=True)
        if self._is_own(lane):
            self._turn_timers.hand_over(lane)

    def reserve(self, lane: Lane) -> LaneSender | None:
        """Have the lane's sender make no call but the first send of what its turn stores now.

        None: another call comes first, or has to wait.
        """
        lane_sender = self._lane_senders.get(lane)
        return lane_sender if lane_sender is not None and lane_sender.reserve() else None

    def send_taken(self, lane_sender: LaneSender, row: OutboxRow) -> None:
        """Make the reserved call: the first send of this row, which was committed as being sent."""
        lane_sender.send_taken(row)
        self._turn_timers.hand_over(row.lane)

    def show(self, progress: TurnProgress) -> None:
        """Show the progress of a running turn, which has changed."""
        self._wake_lane(progress.lane, progress)

    def end_turn(self, progress: TurnProgress) -> None:
        """Show nothing more of a turn that is over, whose answer is delivered from now on."""
        self._wake_lane(progress.lane, progress)
        if self._is_own(progress.lane):
            self._turn_timers.hand_over(progress.lane)

    async def _load_due_lanes(self, tx: Transaction) -> list[Lane]:
        await outbox.recover(tx, now=self._context.clock())
        return await outbox.list_due_lanes(tx)

    async def _run_lanes(self) -> None:
        async with asyncio.timeout(None) as timeout, asyncio.TaskGroup() as self._task_group:
            for lane_sender in list(self._lane_senders.values()):
                self._start_lane(lane_sender)
            self._update_idle()
            try:
                await self._rate_queue.wait_until_stopped()
            except asyncio.CancelledError:
                # A group that is torn down takes no task, and waking a lane must not fail for it.
                self._task_group = None
                raise
            timeout.reschedule(asyncio.get_running_loop().time() + _STOP_GRACE_SECONDS)

    def _wake_lane(self, lane: Lane, progress: TurnProgress | None = None, *, is_due: bool = False) -> None:
        """Have the lane's sender look at its outbox (`is_due`) or at new progress; start it if need be."""
        if not self._is_own(lane):
            return
        lane_sender = self._lane_senders.get(lane)
        is_new = lane_sender is None
        if lane_sender is None:
            lane_sender = LaneSender(lane, self._context)
            self._lane_senders[lane] = lane_sender
            self._idle_event.clear()
        lane_sender.is_due |= is_due
        lane_sender.progress = progress or lane_sender.progress
        lane_sender.wake()
        if is_new and self._task_group is not None:
            self._start_lane(lane_sender)

    def _is_own(self, lane: Lane) -> bool:
        return self._own_lanes is None or lane.share in self._own_lanes.holds

    def _start_lane(self, lane_sender: LaneSender) -> None:
        if self._task_group is not None and not self._rate_queue.is_stopped:
            # In a context of its own: it outlives the caller that woke it, and logs for its lane alone.
            self._tasks[lane_sender.lane] = self._task_group.create_task(
                self._run_lane(lane_sender),
                name=f"lane sender {lane_sender.lane.key}",
                context=contextvars.Context(),
            )

    async def _run_lane(self, lane_sender: LaneSender) -> None:
        try:
            with shares.work_under(self._find_hold(lane_sender.lane)):
                await self._run_until_idle(lane_sender)
        except SenderStopped:
            return  # what is left is measured up to the process's last heartbeat
        except ShareLost:
            _log.info("another replica delivers in a lane", extra={"action": "sender.share_lost"})
        finally:
            self._forget_lane(lane_sender.lane)

    def _find_hold(self, lane: Lane) -> ShareHold | None:
        if self._own_lanes is None:
            return None
        hold = self._own_lanes.holds.get(lane.share)
        if hold is None:
            raise ShareLost
        return hold

    async def _run_until_idle(self, lane_sender: LaneSender) -> None:
        while True:
            try:
                await lane_sender.run()
            except (SenderStopped, ShareLost):
                raise
            except Exception:  # noqa: BLE001 a bug in one lane must not stop the others
                _log.exception(
                    "a lane stumbled", extra={"action": "sender.crashed", "lane": lane_sender.lane.key}
                )
                lane_sender.progress = None
                lane_sender.is_due = True
            else:
                self._turn_timers.end_delivery(lane_sender.lane)
                return
            with self._turn_timers.delivery_timeline(lane_sender.lane).measure("back-off"):
                await self._rate_queue.sleep(_CRASH_PAUSE_SECONDS)

    def _forget_lane(self, lane: Lane) -> None:
        self._lane_senders.pop(lane, None)
        self._tasks.pop(lane, None)
        self._update_idle()

    def _update_idle(self) -> None:
        if not self._lane_senders:
            self._idle_event.set()
