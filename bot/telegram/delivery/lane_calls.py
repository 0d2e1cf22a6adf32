"""The calls of one lane: where they go, what is tried again, what is written down about them.

Shared by the courier, who delivers what is stored, and the presenter, who shows what a turn is at.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from bot.db.write_queue import Entry, Ledger
from bot.domain import Lane, Part
from bot.telegram.client import Wire
from bot.telegram.delivery.rate_queue import Pace
from bot.telegram.outcomes import NotDelivered, Outcome, Refused, Unknown
from bot.usage.timers import Watches

_log = logging.getLogger(__name__)
_FIRST_BACK_OFF = 0.5
_LONGEST_BACK_OFF = 10.0
_UNNAMED_FLOOD = 5.0

OnBlocked = Callable[[Lane], Awaitable[None]]
OnTrouble = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Office:
    """What all lanes share. `clock` gives the seconds that are stored."""

    wire: Wire
    ledger: Ledger
    pace: Pace
    clock: Callable[[], float]
    on_blocked: OnBlocked
    on_trouble: OnTrouble
    watches: Watches


class LaneCalls:
    """`where` is the lane, without its topic once Telegram says that there is none; `track` measures what it
    is at.
    """

    def __init__(self, lane: Lane, office: Office) -> None:
        self.where = lane
        self.lane = lane
        self.office = office
        self.track = office.watches.delivery(lane)
        self._failures = 0
        self._written: asyncio.Future[Any] | None = None

    def post(self, entry: Entry[Any]) -> None:
        """Have something written down, after all that was posted before."""
        self._written = self.office.ledger.post(entry)

    async def all_written(self) -> bool:
        """Wait for what was posted; False if there was nothing to wait for."""
        written = self._written
        self._written = None
        if written is None:
            return False
        await written
        return True

    async def attempt(self, part: Part, call: Callable[..., Awaitable[Outcome]]) -> Outcome:
        """Make the call; once more without the topic, or without the formatting, if Telegram will not have
        that.
        """
        with self.track.at("Telegram"):
            outcome = await call(self.where, part=part)
            if isinstance(outcome, Refused) and outcome.kind == "thread" and self.where.topic is not None:
                self.where = Lane(self.lane.chat)
                self.office.pace.again(self.lane.chat)
                outcome = await call(self.where, part=part)
            if isinstance(outcome, Refused) and outcome.kind == "entities" and part.entities:
                self.office.pace.again(self.lane.chat)
                outcome = await call(self.where, part=replace(part, entities=()))
            return outcome

    async def turn(self) -> None:
        """Wait until a call that must arrive may be made; what Telegram's limits take is Telegram's time."""
        with self.track.at("Telegram"):
            await self.office.pace.turn(self.lane.chat)

    async def delete(self, message_id: int) -> Outcome:
        """Take a message away."""
        with self.track.at("Telegram"):
            return await self.office.wire.delete(self.where, message_id)

    def succeeded(self) -> None:
        """Telegram answers: the next failure is a first one."""
        self._failures = 0

    async def back_off(self, outcome: NotDelivered | Unknown) -> None:
        """Wait until the same may be tried again."""
        if seconds := self.pause(outcome):
            with self.track.at("back-off"):
                await self.office.pace.sleep(seconds)

    def pause(self, outcome: NotDelivered | Unknown | Refused) -> float:
        """Seconds before the same may be tried again; a flood is left to the budget, for the whole chat."""
        if isinstance(outcome, NotDelivered) and outcome.reason == "flood":
            seconds = outcome.after or _UNNAMED_FLOOD
            _log.warning(
                "Telegram wants a chat left alone", extra={"action": "sender.flood", "seconds": seconds}
            )
            self.office.pace.cool(self.lane.chat, seconds)
            return 0.0
        self._failures += 1
        return min(_LONGEST_BACK_OFF, _FIRST_BACK_OFF * 2.0 ** min(self._failures - 1, 10))
