"""Owns every message sent and edited: drains the outbox, a courier a lane, side by side; goes on after a
restart.

A lane that is slow or cools off delays no other, and is forgotten when it has nothing to do. Whoever stores
something in the outbox calls `wake` after the commit.
"""

import asyncio
import contextlib
import contextvars
import logging
import time

from telegram import Bot

from bot.db.engine import Database, Transaction
from bot.db.queues import outbox
from bot.db.write_queue import WriteQueue
from bot.domain import Lane
from bot.telegram.client import TelegramClient
from bot.telegram.delivery.lane_calls import DeliveryContext, OnBlocked, OnProblem
from bot.telegram.delivery.lane_worker import LaneSender
from bot.telegram.delivery.progress import TurnProgress
from bot.telegram.delivery.rate_budget import RateLimits
from bot.telegram.delivery.rate_queue import RateQueue, SenderStopped
from bot.usage.timers import TurnTimers

_log = logging.getLogger(__name__)
_CRASH_PAUSE_SECONDS = 5.0
_STOP_GRACE_SECONDS = 4.0  # a call without an answer by then is in doubt, and the next start says so


class Sender:
    """Build one, `run` it for as long as messages are to be delivered, `stop` it to let `run` return."""

    def __init__(
        self,
        database: Database,
        bot: Bot,
        *,
        on_blocked: OnBlocked,
        on_trouble: OnProblem,
        limits: RateLimits | None = None,
        turn_timers: TurnTimers | None = None,
    ) -> None:
        """`on_blocked` hears of lanes whose person cannot be reached, `on_trouble` (subject, text) what
        admins should know; both are awaited outside any transaction. `watches` hear how long delivering
        takes."""
        self._write_queue = WriteQueue(database)
        self._rate_queue = RateQueue(limits or RateLimits())
        self._turn_timers = turn_timers or TurnTimers()
        self._context = DeliveryContext(
            TelegramClient(bot),
            self._write_queue,
            self._rate_queue,
            time.time,
            on_blocked,
            on_trouble,
            self._turn_timers,
        )
        self._lane_senders: dict[Lane, LaneSender] = {}
        self._task_group: asyncio.TaskGroup | None = None
        self._idle = asyncio.Event()

    @property
    def limits(self) -> RateLimits:
        return self._rate_queue.limits

    @property
    def now(self) -> float:
        """The steady clock by which showing is timed."""
        return self._rate_queue.now

    async def run(self) -> None:
        """Deliver what was left, then what comes, until stopped; calls on their way may then still be
        answered.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_queue.run(), name="ledger")
            for lane in await self._write_queue.write(self._load_due_lanes):
                self.wake(lane)
            with contextlib.suppress(TimeoutError):
                await self._run_lanes()
            self._write_queue.close()

    async def _run_lanes(self) -> None:
        async with asyncio.timeout(None) as patience, asyncio.TaskGroup() as self._task_group:
            for courier in list(self._lane_senders.values()):
                self._start_lane(courier)
            self._update_idle()
            try:
                await self._rate_queue.wait_until_stopped()
            except asyncio.CancelledError:
                self._task_group = (
                    None  # a group that is torn down takes no task, and waking a lane must not fail for it
                )
                raise
            patience.reschedule(asyncio.get_running_loop().time() + _STOP_GRACE_SECONDS)

    def stop(self) -> None:
        """Begin nothing that must wait; everything else stays stored for the next start."""
        self._rate_queue.stop()
        for courier in self._lane_senders.values():
            courier.wake()

    async def wait_until_idle(self) -> None:
        """Until nothing is left to do in any lane, that is, all is delivered and no turn shows anything."""
        await self._idle.wait()

    def wake(self, lane: Lane) -> None:
        """Something is stored (committed) for this lane."""
        self._wake_lane(lane, is_due=True)
        self._turn_timers.hand_over(lane)

    def show(self, progress: TurnProgress) -> None:
        """What a running turn shows has changed."""
        self._wake_lane(progress.lane, progress)

    def _wake_lane(self, lane: Lane, progress: TurnProgress | None = None, *, is_due: bool = False) -> None:
        courier = self._lane_senders.get(lane)
        is_new = courier is None
        if courier is None:
            courier = self._lane_senders[lane] = LaneSender(lane, self._context)
            self._idle.clear()
        courier.is_due |= is_due
        courier.progress = progress or courier.progress
        courier.wake()
        if is_new and self._task_group is not None:
            self._start_lane(courier)

    def _start_lane(self, lane_sender: LaneSender) -> None:
        if self._task_group is not None and not self._rate_queue.is_stopped:
            # In a context of its own: a courier outlives whoever woke it, and logs for its lane alone.
            self._task_group.create_task(
                self._run_lane(lane_sender),
                name=f"courier {lane_sender.lane.key}",
                context=contextvars.Context(),
            )

    async def _run_lane(self, lane_sender: LaneSender) -> None:
        try:
            while True:
                try:
                    await lane_sender.run()
                except SenderStopped:
                    return  # what is left is measured to the last beat
                except Exception:  # noqa: BLE001 a bug in one lane must not stop the others
                    _log.exception(
                        "a lane stumbled", extra={"action": "sender.stumbled", "lane": lane_sender.lane.key}
                    )
                    lane_sender.progress = None
                    lane_sender.is_due = True
                else:
                    self._turn_timers.end_delivery(lane_sender.lane)
                    return
                with self._turn_timers.delivery_timeline(lane_sender.lane).measure("back-off"):
                    await self._rate_queue.sleep(_CRASH_PAUSE_SECONDS)
        except SenderStopped:
            return
        finally:
            del self._lane_senders[lane_sender.lane]
            self._update_idle()

    def _update_idle(self) -> None:
        if not self._lane_senders:
            self._idle.set()

    async def _load_due_lanes(self, tx: Transaction) -> list[Lane]:
        await outbox.recover(tx, now=self._context.clock())
        return await outbox.list_due_lanes(tx)
