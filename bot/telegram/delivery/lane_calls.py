"""The calls of one lane: where they go, what is tried again, what is written down about them.

Shared by the courier, who delivers what is stored, and the presenter, who shows what a turn is at.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from bot.db.write_queue import WriteOperation, WriteQueue
from bot.domain import Lane, Part
from bot.telegram.client import TelegramClient
from bot.telegram.delivery.rate_queue import RateQueue
from bot.telegram.outcomes import DeliveryFailure, DeliveryOutcome, DeliveryRefusal, UnknownDelivery
from bot.usage.timers import TurnTimers

_log = logging.getLogger(__name__)
_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 10.0
_DEFAULT_FLOOD_SECONDS = 5.0

OnBlocked = Callable[[Lane], Awaitable[None]]
OnProblem = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """What all lanes share. `clock` gives the seconds that are stored."""

    client: TelegramClient
    write_queue: WriteQueue
    rate_queue: RateQueue
    clock: Callable[[], float]
    on_blocked: OnBlocked
    on_trouble: OnProblem
    turn_timers: TurnTimers


class LaneCalls:
    """`where` is the lane, without its topic once Telegram says that there is none; `track` measures what it
    is at.
    """

    def __init__(self, lane: Lane, context: DeliveryContext) -> None:
        self.target_lane = lane
        self.lane = lane
        self.context = context
        self.timeline = context.turn_timers.delivery_timeline(lane)
        self._failures = 0
        self._last_write: asyncio.Future[Any] | None = None

    def enqueue_write(self, entry: WriteOperation[Any]) -> None:
        """Have something written down, after all that was posted before."""
        self._last_write = self.context.write_queue.enqueue(entry)

    async def flush_writes(self) -> bool:
        """Wait for what was posted; False if there was nothing to wait for."""
        written = self._last_write
        self._last_write = None
        if written is None:
            return False
        await written
        return True

    async def attempt(self, part: Part, call: Callable[..., Awaitable[DeliveryOutcome]]) -> DeliveryOutcome:
        """Make the call; once more without the topic, or without the formatting, if Telegram will not have
        that.
        """
        with self.timeline.measure("Telegram"):
            outcome = await call(self.target_lane, part=part)
            if (
                isinstance(outcome, DeliveryRefusal)
                and outcome.kind == "thread"
                and self.target_lane.topic is not None
            ):
                self.target_lane = Lane(self.lane.chat)
                self.context.rate_queue.spend(self.lane.chat)
                outcome = await call(self.target_lane, part=part)
            if isinstance(outcome, DeliveryRefusal) and outcome.kind == "entities" and part.entities:
                self.context.rate_queue.spend(self.lane.chat)
                outcome = await call(self.target_lane, part=replace(part, entities=()))
            return outcome

    async def acquire_rate(self) -> None:
        """Wait until a call that must arrive may be made; what Telegram's limits take is Telegram's time."""
        with self.timeline.measure("Telegram"):
            await self.context.rate_queue.acquire(self.lane.chat)

    async def delete_message(self, message_id: int) -> DeliveryOutcome:
        """Take a message away."""
        with self.timeline.measure("Telegram"):
            return await self.context.client.delete_message(self.target_lane, message_id)

    def reset_failures(self) -> None:
        """Telegram answers: the next failure is a first one."""
        self._failures = 0

    async def back_off(self, outcome: DeliveryFailure | UnknownDelivery) -> None:
        """Wait until the same may be tried again."""
        if seconds := self.record_failure(outcome):
            with self.timeline.measure("back-off"):
                await self.context.rate_queue.sleep(seconds)

    def record_failure(self, outcome: DeliveryFailure | UnknownDelivery | DeliveryRefusal) -> float:
        """Seconds before the same may be tried again; a flood is left to the budget, for the whole chat."""
        if isinstance(outcome, DeliveryFailure) and outcome.reason == "flood":
            seconds = outcome.retry_after_seconds or _DEFAULT_FLOOD_SECONDS
            _log.warning(
                "Telegram wants a chat left alone", extra={"action": "sender.flood", "seconds": seconds}
            )
            self.context.rate_queue.back_off(self.lane.chat, seconds)
            return 0.0
        self._failures += 1
        return min(_MAX_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2.0 ** min(self._failures - 1, 10))
