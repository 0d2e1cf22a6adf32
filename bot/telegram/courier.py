"""Brings the messages of one lane to Telegram, one call at a time: what is stored first, then what a turn shows.

Lives while its lane has something to do. Calls the wire and the outbox; judges what each outcome means for a row.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from bot.db import outbox
from bot.db.ledger import Ledger
from bot.db.outbox import Outgoing
from bot.domain import Lane, Part
from bot.telegram.pace import Pace
from bot.telegram.showing import Change, Open, Showing, Sign, Standing, Step, TakeBack, Wait
from bot.telegram.wire import Delivered, NotDelivered, Outcome, Refused, Unknown, Wire

_log = logging.getLogger(__name__)
_LONGEST_BACK_OFF = 10.0
_UNNAMED_FLOOD = 5.0

OnBlocked = Callable[[Lane], Awaitable[None]]
OnTrouble = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Office:
    """What all couriers share. `clock` gives the seconds that are stored."""

    wire: Wire
    ledger: Ledger
    pace: Pace
    clock: Callable[[], float]
    on_blocked: OnBlocked
    on_trouble: OnTrouble


class Courier:
    """The one owner of a lane's calls; `due`: something is stored for it, `showing`: what its running turn shows."""

    def __init__(self, lane: Lane, office: Office) -> None:
        self.lane = lane
        self.due = False
        self.showing: Showing | None = None
        self._office = office
        self._where = lane  # without the topic once Telegram says that there is none
        self._woken = asyncio.Event()
        self._failures = 0

    def wake(self) -> None:
        """Look again at what there is to do."""
        self._woken.set()

    async def run(self) -> None:
        """Work until there is nothing left; raises Stopping where it would have to wait while the sender stops."""
        while True:
            self._woken.clear()
            if self.due:
                await self._deliver_next()
                continue
            showing = self.showing
            if showing is None or showing.is_over or self._office.pace.is_stopped:
                return
            match step := showing.next(self._office.pace.now):
                case None:
                    await self._woken.wait()
                case Wait(until):
                    await self._wait(until)
                case _:
                    await self._show(showing, step)

    async def _wait(self, until: float) -> None:
        try:
            async with asyncio.timeout(until - self._office.pace.now):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _deliver_next(self) -> None:
        """Bring the oldest stored message one call further."""
        office = self._office
        await office.pace.turn(self.lane.chat)
        self.due = False
        row = await office.ledger.write(partial(outbox.take, lane=self.lane))
        if row is None:
            office.pace.give_back(self.lane.chat)
            return
        await self._settle(row, await self._deliver(row))
        self.due |= await office.ledger.write(partial(outbox.is_due, lane=self.lane))

    async def _deliver(self, row: Outgoing) -> Outcome:
        wire = self._office.wire
        if row.message_id is None:
            if row.body is None:
                return Delivered()
            return await self._attempt(row.body, partial(wire.send, reply_to=row.reply_to))
        if row.body is None:
            outcome = await wire.delete(self._where, row.message_id)
            return Delivered() if isinstance(outcome, Refused) and outcome.kind == "gone" else outcome
        if self.showing and self.showing.stands(row.id) == row.body:
            self._office.pace.give_back(self.lane.chat)
            return Delivered()
        return await self._attempt(row.body, partial(wire.edit, message_id=row.message_id))

    async def _attempt(self, part: Part, call: Callable[..., Awaitable[Outcome]]) -> Outcome:
        """Make the call; once more without the topic, or without the formatting, if Telegram will not have that."""
        outcome = await call(self._where, part=part)
        if isinstance(outcome, Refused) and outcome.kind == "thread" and self._where.topic is not None:
            self._where = Lane(self.lane.chat)
            self._office.pace.again(self.lane.chat)
            outcome = await call(self._where, part=part)
        if isinstance(outcome, Refused) and outcome.kind == "entities" and part.entities:
            self._office.pace.again(self.lane.chat)
            outcome = await call(self._where, part=replace(part, entities=()))
        return outcome

    async def _settle(self, row: Outgoing, outcome: Outcome) -> None:
        """Write down what came of a stored message's call."""
        post, now = self._office.ledger.post, self._office.clock()
        is_first = row.state == "sending"
        match outcome:
            case Delivered(message_id):
                self._failures = 0
                stands = message_id or row.message_id
                post(partial(outbox.stands, row=row.id, message_id=stands, body=row.body, now=now))
            case Unknown(why) if is_first:
                post(partial(outbox.unknown, row=row.id, why=why, now=now))
            case NotDelivered() | Unknown():
                if is_first:
                    post(partial(outbox.released, row=row.id, why=outcome.why))
                await self._back_off(outcome)
            case Refused("gone") if not is_first:
                post(partial(outbox.gone, row=row.id))
            case Refused():
                post(partial(outbox.failed, row=row.id, why=outcome.why, body=row.body))
                await self._tell(row, outcome)

    async def _tell(self, row: Outgoing, refused: Refused) -> None:
        if refused.kind == "blocked":
            await self._office.on_blocked(self.lane)
        elif not row.is_notice:  # a notice about a notice would never end
            await self._office.on_trouble("telegram.refused", f"Telegram refused a message of ours: {refused.why}")

    async def _back_off(self, outcome: NotDelivered | Unknown) -> None:
        if isinstance(outcome, NotDelivered) and outcome.reason == "flood":
            self._office.pace.cool(self.lane.chat, outcome.after or _UNNAMED_FLOOD)
            return
        self._failures += 1
        _log.info("a call failed; trying again", extra={"action": "sender.again", "why": outcome.why})
        await self._office.pace.sleep(self._pause())

    def _pause(self) -> float:
        return min(_LONGEST_BACK_OFF, 0.25 * 2.0 ** min(self._failures, 10))

    async def _show(self, showing: Showing, step: Step) -> None:
        pace = self._office.pace
        if wait := pace.show(self.lane.chat):
            showing.hold(pace.now + wait)
            return
        outcome = await self._call_for(showing, step)
        match outcome:
            case Delivered():
                self._failures = 0
            case NotDelivered(reason="flood"):
                pace.cool(self.lane.chat, outcome.after or _UNNAMED_FLOOD)
            case Refused("blocked"):
                showing.is_over = True
            case _:
                self._failures += 1
                showing.hold(pace.now + self._pause())

    async def _call_for(self, showing: Showing, step: Step) -> Outcome:
        match step:
            case Open():
                return await self._open(showing, step)
            case Change():
                return await self._change(step)
            case TakeBack(standing):
                return await self._take_back(showing, standing)
            case Sign() | Wait():
                outcome, is_draft = await self._office.wire.sign(self._where, showing.item)
                showing.signed(self._office.pace.now, draft=is_draft)
                return outcome

    async def _open(self, showing: Showing, step: Open) -> Outcome:
        """Send a part for the first time; after a restart it may have been sent already."""
        office = self._office
        stored = None if step.is_line else step.part
        row = await office.ledger.write(
            partial(
                outbox.open_part,
                item=showing.item,
                part=step.number,
                lane=self.lane,
                body=stored,
                now=office.clock(),
            )
        )
        if row.final or row.state != "sending":
            office.pace.give_back(self.lane.chat)
            showing.is_over |= row.final
            showing.standing.append(Standing(row.id, row.message_id))
            return Delivered()
        outcome = await self._attempt(step.part, office.wire.send)
        now = office.clock()
        match outcome:
            case Delivered(message_id):
                office.ledger.post(partial(outbox.stands, row=row.id, message_id=message_id, body=step.part, now=now))
                showing.standing.append(Standing(row.id, message_id, step.part, office.pace.now, step.is_line))
            case NotDelivered():
                office.ledger.post(partial(outbox.released, row=row.id, why=outcome.why))
            case Unknown(why) if not step.is_line:
                office.ledger.post(partial(outbox.unknown, row=row.id, why=why, now=now))
                showing.standing.append(Standing(row.id, None))
            case Unknown():
                office.ledger.post(partial(outbox.gone, row=row.id))
            case Refused():
                office.ledger.post(partial(outbox.failed, row=row.id, why=outcome.why, body=stored))
                showing.standing.append(Standing(row.id, None))
        return outcome

    async def _change(self, step: Change) -> Outcome:
        standing = step.standing
        assert standing.message_id is not None
        standing.at = self._office.pace.now
        outcome = await self._attempt(step.part, partial(self._office.wire.edit, message_id=standing.message_id))
        if isinstance(outcome, Delivered):
            standing.part, standing.is_line = step.part, step.is_line
        return outcome

    async def _take_back(self, showing: Showing, standing: Standing) -> Outcome:
        standing.at = self._office.pace.now
        assert standing.message_id is not None
        outcome = await self._office.wire.delete(self._where, standing.message_id)
        if isinstance(outcome, Delivered) or (isinstance(outcome, Refused) and outcome.kind == "gone"):
            self._office.ledger.post(partial(outbox.gone, row=standing.row))
            showing.standing.remove(standing)
            return Delivered()
        return outcome
