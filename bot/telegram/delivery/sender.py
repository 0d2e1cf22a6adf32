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
from bot.db.write_queue import Ledger
from bot.domain import Lane
from bot.telegram.client import Wire
from bot.telegram.delivery.lane_calls import Office, OnBlocked, OnTrouble
from bot.telegram.delivery.lane_worker import Courier
from bot.telegram.delivery.progress import Showing
from bot.telegram.delivery.rate_budget import Limits
from bot.telegram.delivery.rate_queue import Pace, Stopping
from bot.usage.timers import Watches

_log = logging.getLogger(__name__)
_AFTER_A_BUG = 5.0
_GRACE = 4.0  # a call without an answer by then is in doubt, and the next start says so


class Sender:
    """Build one, `run` it for as long as messages are to be delivered, `stop` it to let `run` return."""

    def __init__(
        self,
        database: Database,
        bot: Bot,
        *,
        on_blocked: OnBlocked,
        on_trouble: OnTrouble,
        limits: Limits | None = None,
        watches: Watches | None = None,
    ) -> None:
        """`on_blocked` hears of lanes whose person cannot be reached, `on_trouble` (subject, text) what
        admins should know; both are awaited outside any transaction. `watches` hear how long delivering
        takes."""
        self._ledger = Ledger(database)
        self._pace = Pace(limits or Limits())
        self._watches = watches or Watches()
        self._office = Office(
            Wire(bot), self._ledger, self._pace, time.time, on_blocked, on_trouble, self._watches
        )
        self._couriers: dict[Lane, Courier] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._rested = asyncio.Event()

    @property
    def limits(self) -> Limits:
        return self._pace.limits

    @property
    def now(self) -> float:
        """The steady clock by which showing is timed."""
        return self._pace.now

    async def run(self) -> None:
        """Deliver what was left, then what comes, until stopped; calls on their way may then still be
        answered.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ledger.run(), name="ledger")
            for lane in await self._ledger.write(self._found):
                self.wake(lane)
            with contextlib.suppress(TimeoutError):
                await self._deliver()
            self._ledger.close()

    async def _deliver(self) -> None:
        async with asyncio.timeout(None) as patience, asyncio.TaskGroup() as self._tasks:
            for courier in list(self._couriers.values()):
                self._start(courier)
            self._rest()
            try:
                await self._pace.stopped()
            except asyncio.CancelledError:
                self._tasks = (
                    None  # a group that is torn down takes no task, and waking a lane must not fail for it
                )
                raise
            patience.reschedule(asyncio.get_running_loop().time() + _GRACE)

    def stop(self) -> None:
        """Begin nothing that must wait; everything else stays stored for the next start."""
        self._pace.stop()
        for courier in self._couriers.values():
            courier.wake()

    async def rested(self) -> None:
        """Until nothing is left to do in any lane, that is, all is delivered and no turn shows anything."""
        await self._rested.wait()

    def wake(self, lane: Lane) -> None:
        """Something is stored (committed) for this lane."""
        self._courier(lane, due=True)
        self._watches.hand_on(lane)

    def show(self, showing: Showing) -> None:
        """What a running turn shows has changed."""
        self._courier(showing.lane, showing)

    def _courier(self, lane: Lane, showing: Showing | None = None, *, due: bool = False) -> None:
        courier = self._couriers.get(lane)
        is_new = courier is None
        if courier is None:
            courier = self._couriers[lane] = Courier(lane, self._office)
            self._rested.clear()
        courier.due |= due
        courier.showing = showing or courier.showing
        courier.wake()
        if is_new and self._tasks is not None:
            self._start(courier)

    def _start(self, courier: Courier) -> None:
        if self._tasks is not None and not self._pace.is_stopped:
            # In a context of its own: a courier outlives whoever woke it, and logs for its lane alone.
            self._tasks.create_task(
                self._run(courier), name=f"courier {courier.lane.key}", context=contextvars.Context()
            )

    async def _run(self, courier: Courier) -> None:
        try:
            while True:
                try:
                    await courier.run()
                except Stopping:
                    return  # what is left is measured to the last beat
                except Exception:  # noqa: BLE001 a bug in one lane must not stop the others
                    _log.exception(
                        "a lane stumbled", extra={"action": "sender.stumbled", "lane": courier.lane.key}
                    )
                    courier.showing = None
                    courier.due = True
                else:
                    self._watches.leave(courier.lane)
                    return
                with self._watches.delivery(courier.lane).at("back-off"):
                    await self._pace.sleep(_AFTER_A_BUG)
        except Stopping:
            return
        finally:
            del self._couriers[courier.lane]
            self._rest()

    def _rest(self) -> None:
        if not self._couriers:
            self._rested.set()

    async def _found(self, tx: Transaction) -> list[Lane]:
        await outbox.found_sending(tx, now=self._office.clock())
        return await outbox.due(tx)
