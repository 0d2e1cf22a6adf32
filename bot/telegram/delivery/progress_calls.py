"""Shows what a running turn is at: makes the one call that a Showing asks for next and notes what came of it.

Nothing here is tried again for its own sake: the latest snapshot is, when its time comes.
"""

from functools import partial

from bot.db.queues import outbox
from bot.db.queues.outbox_rows import Outgoing
from bot.telegram.delivery.lane_calls import LaneCalls
from bot.telegram.delivery.progress import Change, Open, Showing, Sign, Standing, TakeBack
from bot.telegram.outcomes import Delivered, NotDelivered, Outcome, Refused, Unknown

Call = Sign | Open | Change | TakeBack


class Presenter:
    """Of one lane, for whatever turn runs there."""

    def __init__(self, calls: LaneCalls) -> None:
        self._calls = calls
        self._office = calls.office

    async def present(self, showing: Showing, step: Call) -> None:
        """Make this call, if there is room for it."""
        pace = self._office.pace
        if wait := pace.show(self._calls.lane.chat):
            showing.hold(pace.now + wait)
            return
        match outcome := await self._made(showing, step):
            case Delivered():
                self._calls.succeeded()
            case Refused("blocked"):
                showing.is_over = True
            case _:
                showing.hold(pace.now + self._calls.pause(outcome))

    async def clear(self, showing: Showing, left: Standing) -> None:
        """Take back, in one attempt, the line of a turn that ended without a text."""
        await self._calls.turn()
        await self._take_back(showing, left)
        left.is_line = False

    async def _made(self, showing: Showing, step: Call) -> Outcome:
        match step:
            case Open():
                return await self._open(showing, step)
            case Change():
                return await self._change(step)
            case TakeBack(standing):
                return await self._take_back(showing, standing)
            case Sign(line):
                with self._calls.track.at("Telegram"):
                    outcome, is_draft = await self._office.wire.sign(self._calls.where, showing.item, line)
                if isinstance(outcome, Delivered):
                    says = line if is_draft else ""
                else:
                    says = None
                showing.signed(self._office.pace.now, draft=is_draft, says=says)
                return outcome

    async def _open(self, showing: Showing, step: Open) -> Outcome:
        """Send a part for the first time; after a restart it may have been sent already."""
        row = await self._office.ledger.write(
            partial(
                outbox.open_part,
                item=showing.item,
                part=step.number,
                lane=self._calls.lane,
                body=None if step.is_line else step.part,
                now=self._office.clock(),
            )
        )
        if row.final or row.state != "sending":
            self._office.pace.give_back(self._calls.lane.chat)
            showing.is_over |= row.final
            showing.standing.append(Standing(row.id, row.message_id))
            return Delivered()
        outcome = await self._calls.attempt(step.part, self._office.wire.send)
        self._opened(row, step, outcome)
        if isinstance(outcome, Delivered):
            now = self._office.pace.now
            showing.standing.append(Standing(row.id, outcome.message_id, step.part, now, step.is_line))
            showing.interrupted()
        elif isinstance(outcome, Refused) or (isinstance(outcome, Unknown) and not step.is_line):
            showing.standing.append(Standing(row.id, None))
        return outcome

    def _opened(self, row: Outgoing, step: Open, outcome: Outcome) -> None:
        """Write down what came of a first send."""
        post = self._calls.post
        now = self._office.clock()
        match outcome:
            case Delivered(message_id):
                post(partial(outbox.stands, row=row.id, message_id=message_id, body=step.part, now=now))
            case NotDelivered(why):
                post(partial(outbox.released, row=row.id, why=why))
            case Unknown() if step.is_line:
                post(partial(outbox.gone, row=row.id))
            case Unknown(why):
                post(partial(outbox.unknown, row=row.id, why=why, now=now))
            case Refused(_, why):
                post(partial(outbox.failed, row=row.id, why=why, body=row.body, now=now))

    async def _change(self, step: Change) -> Outcome:
        standing = step.standing
        assert standing.message_id is not None
        standing.at = self._office.pace.now
        edit = partial(self._office.wire.edit, message_id=standing.message_id)
        outcome = await self._calls.attempt(step.part, edit)
        if isinstance(outcome, Delivered):
            standing.part = step.part
            standing.is_line = step.is_line
        return outcome

    async def _take_back(self, showing: Showing, standing: Standing) -> Outcome:
        assert standing.message_id is not None
        outcome = await self._calls.delete(standing.message_id)
        standing.at = self._office.pace.now
        if isinstance(outcome, Delivered):
            self._calls.post(partial(outbox.gone, row=standing.row))
            showing.standing.remove(standing)
        return outcome
