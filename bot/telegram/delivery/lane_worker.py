"""Brings the messages of one lane to Telegram, one call at a time: what is stored first, then what a turn
shows.

Lives while its lane has something to do. Judges what each outcome means for a stored message.
"""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial

from bot.db.queues import outbox
from bot.db.queues.outbox_rows import Outgoing
from bot.domain import Lane
from bot.telegram.delivery.lane_calls import LaneCalls, Office
from bot.telegram.delivery.progress import Showing, Wait
from bot.telegram.delivery.progress_calls import Presenter
from bot.telegram.outcomes import Delivered, NotDelivered, Outcome, Refused, Unknown

_log = logging.getLogger(__name__)


class Courier:
    """The one owner of a lane's calls; `due`: something is stored for it, `showing`: what its running turn
    shows.
    """

    def __init__(self, lane: Lane, office: Office) -> None:
        self.lane = lane
        self.due = False
        self.showing: Showing | None = None
        self._office = office
        self._calls = LaneCalls(lane, office)
        self._presenter = Presenter(self._calls)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look again at what there is to do."""
        self._woken.set()

    async def run(self) -> None:
        """Work until there is nothing left; raises Stopping where it would have to wait while the sender
        stops.
        """
        while True:
            self._calls.track.rest("own" if self.due else None)
            self._woken.clear()
            if self.due:
                await self._deliver_next()
            elif self.showing is not None and not self.showing.is_over and not self._office.pace.is_stopped:
                await self._show(self.showing)
            elif self.showing is not None and (left := self.showing.left):
                await self._presenter.clear(self.showing, left)
            elif not await self._calls.all_written():
                return

    async def _show(self, showing: Showing) -> None:
        match step := showing.next(self._office.pace.now):
            case None:
                await self._woken.wait()
            case Wait(until):
                await self._until(until)
            case _:
                await self._presenter.present(showing, step)

    async def _until(self, moment: float) -> None:
        try:
            async with asyncio.timeout(moment - self._office.pace.now):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _deliver_next(self) -> None:
        """Bring the oldest stored message one call further."""
        await self._calls.turn()
        self.due = False
        row = await self._office.ledger.write(partial(outbox.take, lane=self.lane))
        if row is None:
            self._office.pace.give_back(self.lane.chat)
            return
        self.due |= row.more
        if self.showing is not None:
            self.showing.settled(row.id)
        await self._settle(row, await self._delivered(row))

    def _delivered(self, row: Outgoing) -> Awaitable[Outcome]:
        """The call that makes Telegram show what this row wants."""
        wire = self._office.wire
        if row.message_id is None:
            assert row.body is not None
            return self._calls.attempt(row.body, partial(wire.send, reply_to=row.reply_to))
        if row.body is None:
            return self._calls.delete(row.message_id)
        if self.showing and self.showing.stands(row.id) == row.body:
            self._office.pace.give_back(self.lane.chat)
            return _shown_already()
        return self._calls.attempt(row.body, partial(wire.edit, message_id=row.message_id))

    async def _settle(self, row: Outgoing, outcome: Outcome) -> None:
        """Write down what came of the call, and say whether the row is due again."""
        post = self._calls.post
        now = self._office.clock()
        is_first = row.state == "sending"
        match outcome:
            case Delivered(message_id):
                self._calls.succeeded()
                if is_first and self.showing is not None:
                    self.showing.interrupted()
                stands = message_id or row.message_id
                post(partial(outbox.stands, row=row.id, message_id=stands, body=row.body, now=now))
            case Unknown(why) if is_first and not row.may_repeat:
                self.due = True  # the person will be asked
                post(partial(outbox.unknown, row=row.id, why=why, now=now))
            case NotDelivered() | Unknown():
                self.due = True
                if is_first:
                    post(partial(outbox.released, row=row.id, why=outcome.why))
                _log.info("a call failed; trying again", extra={"action": "sender.again", "why": outcome.why})
                await self._calls.back_off(outcome)
            case Refused("gone") if not is_first:
                self.due = True
                post(partial(outbox.gone, row=row.id))
            case Refused():
                post(partial(outbox.failed, row=row.id, why=outcome.why, body=row.body, now=now))
                await self._tell(row, outcome)

    async def _tell(self, row: Outgoing, refused: Refused) -> None:
        if refused.kind == "blocked":
            await self._office.on_blocked(self.lane)
        elif not row.is_notice:  # a notice about a notice would never end
            await self._office.on_trouble(
                "telegram.refused", f"Telegram refused a message of ours: {refused.why}"
            )


async def _shown_already() -> Outcome:
    return Delivered()
