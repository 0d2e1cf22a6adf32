"""What is written down of one turn while it is played: messages, model calls, tools wanted, and how it ended.

What an event brought is one transaction, closed call included, repeated until the database can be written.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from bot.agent import history
from bot.agent import notices as sentences
from bot.agent.events import CallModel, Event, Finished, RunTools
from bot.db.conversations import calls, conversations
from bot.db.conversations import turns as stored
from bot.db.conversations.calls import Closing, NewCall
from bot.db.conversations.turns import Done
from bot.db.engine import Database, Transaction
from bot.db.queues import inbox, outbox
from bot.db.queues import parked_items as parking
from bot.db.queues.parked_items import Waited
from bot.db.retry import patiently
from bot.domain import Button, Channel, Message, Part, Which
from bot.errors import EndpointAway, PromptTooLong
from bot.turns import summaries
from bot.turns.approvals import Waiting
from bot.turns.endpoint_router import Way
from bot.turns.model_caller import Asked
from bot.turns.start import Ask, Opened
from bot.turns.tool_executor import Hands
from bot.usage.intervals import Span, divided, written
from bot.usage.timers import Watch

CUT = (
    "Our conversation has become longer than what I read at once: I no longer see its beginning, but I can look it up. "
    "/context shows what I see, /new begins afresh."
)
MORE = "more:"
"""The callback data of a Continue button is this and the turn whose answer is to go on."""

Write = Callable[[Transaction, float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a turn is written down: the database, how its answer is cut into parts, and what its seconds went
    into.
    """

    database: Database
    channel: Channel
    watch: Watch

    def measured(self, besides: Iterable[Span] = ()) -> str:
        """What was measured of the turn up to this moment, to be stored in the transaction that runs;
        `besides` is known from elsewhere.
        """
        now = time.time()  # a heartbeat that was stored while the transaction waited is older
        return written(divided(0.0, now, [*self.watch.spans(now), *besides]))


class Record:
    """Of one turn. `call` is the row of the model call under way; `sums`: a summary is wanted when a cut is
    near.
    """

    def __init__(self, desk: Desk, ask: Ask, way: Way, *, sums: bool) -> None:
        self.call = 0
        self.summing = False
        self._desk = desk
        self._ask = ask
        self._way = way
        self._sums = sums
        self._said: list[Message] = []
        self._counted: int | None = None
        self._written_by: str | None = None

    async def begin(
        self,
        tx: Transaction,
        opened: Opened,
        hands: Hands,
        stands: tuple[Event, tuple[Message, ...]],
        *,
        now: float,
    ) -> None:
        """Store how the turn begins or goes on, and where it `stands`: what comes next and all that was said
        in it, of which a part may be stored already.
        """
        event, said = stands
        self._opened = opened
        self._hands = hands
        self._said = [*said]
        await self._store(tx, event, await self._unsaid(tx, said), now)

    async def keep(self, event: Event, said: tuple[Message, ...], closing: Closing | None = None) -> None:
        """Close the call, if there was one, and store what was said and what follows from it.

        Tools may not run twice, so that what they are to do is on the disk before they do it.
        """
        self._said.extend(said)
        durable = isinstance(event, RunTools)
        await self.write(closing, lambda tx, now: self._store(tx, event, said, now), durable=durable)
        self._hands.gate.tell()

    async def park(self, step: int, waiting: Sequence[Waiting]) -> bool:
        """The turn waits for a person: the lane is free, and what it has shown is taken back until it goes
        on.

        False: it was stopped meanwhile, and asks nobody.
        """
        items = [item.id for item in self._ask.items]
        parked = False

        async def park(tx: Transaction, now: float) -> None:
            nonlocal parked
            if await parking.stopped(tx, items):
                return
            parked = True
            await self._hands.gate.ask(tx, step, waiting, now=now)
            await outbox.add(tx, item=items[0], lane=self._ask.lane, parts=(), now=now)
            spans = self._desk.measured(_waits(await parking.waited(tx, items[0])))
            await parking.park(tx, self._opened.id, items, spans=spans, now=now)

        await self.write(None, park)
        self._hands.gate.tell()
        return parked

    async def move(self, to: Which, failed: Closing, event: CallModel) -> None:
        """The same is asked at the other endpoint."""

        async def move(tx: Transaction, now: float) -> None:
            await self._way.go(tx, self._opened.id, to)
            self.call = await calls.open_call(tx, self.new_call(event, again=self._way.which), now=now)

        await self.write(failed, move)

    async def fail(self, asked: Asked) -> None:
        """The turn ends without an answer; the person reads why."""
        text, ending = _failure(asked.given)
        said = Message("assistant", text)
        self._said.append(said)

        async def fail(tx: Transaction, now: float) -> None:
            await stored.say(tx, self._opened.id, (said,), now=now)
            await self._end(tx, text, ending, now)

        await self.write(asked.closing, fail)

    async def write(
        self, closing: Closing | None, then: Write | None = None, *, durable: bool = True
    ) -> None:
        """Close a call together with what follows from it, once the database can be written."""

        async def write() -> None:
            now = time.time()
            async with self._desk.database.transaction(durable=durable) as tx:
                if closing is not None:
                    await calls.close_call(tx, closing, now=now)
                if then is not None:
                    await then(tx, now)

        await patiently(write)

    def heard(self, event: CallModel, asked: Asked) -> None:
        """Note what an answer tells of the turn: who wrote it, and what the server counted for its first
        prompt.
        """
        reply = asked.closing.reply
        if reply is None:
            return
        self._written_by = reply.model or self._written_by
        if event.step == 1 and self._way.which == "main":
            self._counted = reply.usage.prompt_tokens or self._counted

    def new_call(self, event: CallModel, *, again: str | None) -> NewCall:
        """The ledger's row of a call about to be made."""
        endpoint = self._way.place.endpoint
        (system, *others) = self._way.sent(event.messages)
        notes = self._opened.notes_size if self._way.allows("notes") else 0
        return NewCall(
            turn=self._opened.id,
            step=event.step,
            purpose="turn",
            again=again,
            endpoint=endpoint.url,
            model=endpoint.name(),
            thinking=event.thinking and endpoint.which == "main",
            tools_offered=len(self._opened.toolbox.offered),
            chars_system=len(system.text),
            chars_tools=self._opened.toolbox.size,
            chars_notes=notes,
            chars_history=max(0, sum(len(message.text) for message in others) - notes),
            images=sum(len(message.images) for message in others),
        )

    async def _unsaid(self, tx: Transaction, said: tuple[Message, ...]) -> tuple[Message, ...]:
        """What of this is not stored yet: all of it, if the tools or limits of this start lead the turn
        another way.
        """
        before = self._opened.said
        if said[: len(before)] == before:
            return said[len(before) :]
        await stored.unsay(tx, self._opened.id)
        return said

    async def _store(self, tx: Transaction, event: Event, said: tuple[Message, ...], now: float) -> None:
        await stored.say(tx, self._opened.id, said, now=now)
        match event:
            case CallModel():
                await self._way.settle(tx, self._opened.id)
                self.call = await calls.open_call(tx, self.new_call(event, again=event.again), now=now)
            case RunTools():
                await self._hands.want(tx, event, now=now)
            case Finished():
                await self._end(tx, self._signed(event), event.ending, now, more=event.more)

    def _signed(self, event: Finished) -> str:
        """The text of the turn; what the model wrote of it is signed where it is not the first endpoint's."""
        is_ours = event.note is not None and event.text.startswith(event.note)
        if is_ours:
            line = ""
        else:
            line = self._way.signature(self._written_by, deep=self._ask.deep)
        if line:
            return f"{sentences.closed(event.text)}\n\n{line}"
        return event.text

    async def _end(self, tx: Transaction, text: str, ending: str, now: float, *, more: bool = False) -> None:
        ask = self._ask
        done = self._done(ending)
        await stored.end(tx, self._opened.id, done, now=now)
        buttons: tuple[tuple[Button, ...], ...] = ()
        if more:
            buttons = ((Button("Continue", f"{MORE}{self._opened.id}"),),)
        parts = self._desk.channel.parts(ask.preface + text, silent=ask.silent, buttons=buttons)
        if self._opened.tell_cut:
            parts = (*parts, Part(CUT, silent=True))
            await conversations.tell_cut(tx, ask.lane)
        await outbox.add(tx, item=ask.items[0].id, lane=ask.lane, parts=parts, reply_to=ask.reply_to, now=now)
        await inbox.done(tx, [item.id for item in ask.items], spans=self._desk.measured(), now=now)
        self.summing = (
            self._sums
            and not self._opened.aside
            and self._nearly_full()
            and await summaries.due(tx, ask.lane, now=now)
        )

    def _nearly_full(self) -> bool:
        taken = self._opened.size
        room = self._opened.size + self._opened.room
        return taken + history.estimate(self._said) >= summaries.FILLED * room

    def _done(self, ending: str) -> Done:
        whole = [*self._opened.user, *self._said]
        return Done(
            ending=ending,
            prompt=self._opened.size,
            size=history.estimate(whole),
            short=history.estimate(history.shortened(whole)),
            counted=self._counted,
            used=tuple(sorted({call.name for message in self._said for call in message.calls})),
        )


def _waits(waited: Waited | None) -> tuple[Span, ...]:
    """An earlier wait for a person as it is measured: the person, then the lane."""
    if waited is None:
        return ()
    asked = Span("approval wait", waited.asked_at, waited.agreed_at)
    return asked, Span("lane wait", waited.agreed_at, waited.retaken_at)


def _failure(failed: object) -> tuple[str, str]:
    """What the person reads when no answer could be had, and the turn's ending."""
    if isinstance(failed, EndpointAway):
        return "The model did not answer, however often I tried. Send /retry when it is back.", "away"
    if isinstance(failed, PromptTooLong):
        return (
            "This is longer than the model can read at once. Please send less of it, or begin with /new.",
            "too_long",
        )
    return (
        "The model endpoint refused my request. The admins have been told; /retry asks it again.",
        "refused",
    )
