"""One Turn from message to reply: the only place where agent, database and channel meet.

Plays the loop's events. What an event brought is stored in one transaction before the next is acted on, so that a turn
goes on from there after a crash.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bot import logs, opening, window
from bot.agent import history, loop, sentences
from bot.agent.events import CallModel, Ended, Event, Finished, Given, Limits, RunTools, Why
from bot.agent.replaying import replay
from bot.asking import Asked, Attempt
from bot.db import calls, conversations, inbox, outbox
from bot.db import turns as stored
from bot.db.calls import Closing, NewCall
from bot.db.engine import Database, Transaction
from bot.db.patience import patiently
from bot.db.turns import Done
from bot.domain import Button, Channel, ChannelFor, Lane, Message, ModelRequest, Part, Reply, Which
from bot.errors import CallFailed, EndpointAway, PromptTooLong
from bot.hands import Hands, known
from bot.opening import Ask, Opened, Plan, Told, Wanting
from bot.running import Running
from bot.way import Places, Way
from tools.base import ToolContext

Write = Callable[[Transaction, float], Awaitable[None]]
Complete = Callable[[Running], Awaitable[Ask | None]]

CUT = (
    "Our conversation has become longer than what I read at once: I no longer see its beginning, but I can look it up. "
    "/context shows what I see, /new begins afresh."
)
MORE = "more:"
"""The callback data of a Continue button is this and the turn whose answer is to go on."""
NARROWER = 3  # times a prompt that the endpoint calls too long is made again with half the budget


@dataclass(frozen=True, slots=True)
class Means:
    """What turns work with. `seconds` bounds the work of one turn; `places` are the endpoints that answer.

    `inquire` asks the endpoint what a turn wants to know before it begins, about the texts to be answered.
    """

    database: Database
    places: Places
    channel_for: ChannelFor
    context_for: Callable[[Ask, str], ToolContext]
    plan: Plan
    inquire: Callable[[Wanting, Sequence[str]], Awaitable[Told]]
    seconds: float


class Turns:
    """Runs turns, at most one a lane, and stops them."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._running: dict[str, Running] = {}

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """End what runs in this lane, if it began before item `before`; False when nothing does."""
        running = self._running.get(lane.key)
        if running is None or (before is not None and running.newest_item >= before):
            return False
        running.stop()
        return True

    def go_on(self, lane: Lane) -> None:
        """What runs in this lane waits no longer before it tries again: what it may do has changed."""
        running = self._running.get(lane.key)
        if running is not None:
            running.go_on()

    async def run(self, ask: Ask, complete: Complete | None = None) -> None:
        """Answer `ask`, or go on answering it; its items are done when this returns.

        `complete` adds what has to be fetched first; it gives None if there is nothing to answer, and has said so.
        """
        channel = self._means.channel_for(ask.lane, ask.items[0].id, silent=ask.silent)
        running = self._running[ask.lane.key] = Running(ask.items[-1].id, self._means.seconds)
        try:
            channel.begin()
            whole = ask if complete is None else await complete(running)
            if whole is not None:
                await _Game(self._means, whole, running, channel).play()
        finally:
            if self._running.get(ask.lane.key) is running:
                del self._running[ask.lane.key]
            channel.end()


class _Game:
    """One turn being played."""

    def __init__(self, means: Means, ask: Ask, running: Running, channel: Channel) -> None:
        self._means = means
        self._ask = ask
        self._running = running
        self._channel = channel
        self._said: list[Message] = []
        self._call = 0
        self._counted: int | None = None
        self._shown: Reply | None = None
        self._way = Way(means.places, ask.lane)
        self._written_by: str | None = None

    async def play(self) -> None:
        """Play to the end; a prompt too long for the endpoint is made again with less history."""
        budget = self._means.plan.budget
        for narrower in range(NARROWER):
            asked = await self._play(budget >> narrower)
            if asked is None:
                return
            if not isinstance(asked.given, PromptTooLong) or narrower == NARROWER - 1:
                await self._fail(asked)
                return
            await self._write(asked.closing)

    async def _play(self, budget: int) -> Asked | None:
        """Play until the turn has ended; a failed call is handed back."""
        event = await self._begin(budget)
        while not isinstance(event, Finished | None):
            if isinstance(event, RunTools):
                event = await self._next(await self._hands.run(event, self._running))
                continue
            with logs.bind(turn=self._opened.id):
                asked = await self._ask_model(event)
            if event.step == 1 and self._way.which == "main":
                self._counted = _counted(asked) or self._counted
            if isinstance(asked.given, CallFailed):
                return asked
            if isinstance(asked.given, Reply):
                self._written_by = asked.given.model
            event = await self._next(asked.given, asked.closing)
        return None

    async def _begin(self, budget: int) -> Event | None:
        """Open the turn, or bring it back to where it stood; None if it had ended already."""
        told = Told()
        while True:
            now = time.time()
            async with self._means.database.transaction() as tx:
                opened = await opening.begin(tx, self._means.plan, self._ask, told, budget=budget, now=now)
                if isinstance(opened, Opened):
                    return await self._start(tx, opened, now)
            told = await self._means.inquire(opened, self._ask.texts)

    async def _start(self, tx: Transaction, opened: Opened, now: float) -> Event | None:
        self._opened = opened
        if opened.over:
            await inbox.done(tx, [item.id for item in self._ask.items], now=now)
            return None
        if opened.stopped:
            self._running.stop()
        if opened.is_found:
            await self._way.resume(tx, opened.id)
        else:
            await self._way.begin(tx, opened.id, deep=self._ask.deep, hard=opened.thinking)
        results = await known(tx, opened.id, opened.results, opened.toolbox, now=now)
        self._game = loop.play(opened.prompt, opened.toolbox.tools, self._limits(opened), opened.thinking)
        self._shown = opened.cut_short
        event, said = self._unless_over(*replay(self._game, opened.replies, results))
        self._said = [*said]
        await self._store(tx, event, await self._unsaid(tx, said), now)
        context = partial(self._means.context_for, self._ask)
        self._hands = Hands(self._means.database, opened.id, opened.toolbox, context, results)
        return event

    def _limits(self, opened: Opened) -> Limits:
        plan = self._means.plan
        return Limits(
            steps=plan.steps,
            max_tokens=plan.max_tokens,
            thinking=plan.canvases,
            may_think=opened.may_think,
            continues=self._way.place.asking.continues,
            room=opened.room,
        )

    async def _ask_model(self, event: CallModel) -> Asked:
        if event.so_far:
            self._channel.show(event.so_far)
        request = ModelRequest(
            messages=event.messages,
            tools=self._opened.toolbox.definitions,
            tool_choice=event.tool_choice,
            thinking=event.thinking,
            max_tokens=event.max_tokens,
            session=f"{self._ask.lane.key}/{self._opened.conversation}",
            lane=self._ask.lane.key,
            priority=self._ask.priority,
            brake=event.brake,
            continues=event.continues,
        )
        asked = await self._ask_here(request, event)
        while (to := self._way.leave()) is not None:
            await self._move(to, asked.closing, event)
            asked = await self._ask_here(request, event)
        if event.optional and isinstance(asked.given, CallFailed):
            return replace(asked, given=Ended("failed", asked.given.partial))
        return asked

    async def _ask_here(self, request: ModelRequest, event: CallModel) -> Asked:
        attempt = Attempt(self._way.fitted(request), self._call, self._new_call(event))
        seek = None if event.optional else self._way.seek
        return await self._way.place.asking.ask(attempt, self._running, self._channel, seek)

    async def _move(self, to: Which, failed: Closing, event: CallModel) -> None:
        """Ask the other endpoint for the same."""

        async def move(tx: Transaction, now: float) -> None:
            await self._way.go(tx, self._opened.id, to)
            new = replace(self._new_call(event), again=self._way.which)
            self._call = await calls.open_call(tx, new, now=now)

        await self._write(failed, move)

    async def _next(self, given: Given, closing: Closing | None = None) -> Event:
        """Hand what came to the loop, and store it with what follows from it."""
        if isinstance(given, Ended):
            given = self._ended(given.why, given.partial)
        self._shown = None
        event = self._game.send(given)
        event, said = self._unless_over(event, event.said)
        self._said.extend(said)
        await self._write(closing, lambda tx, now: self._store(tx, event, said, now))
        if isinstance(event, RunTools):
            self._channel.status(None)  # whatever the person waited for, it is over
        return event

    def _unless_over(self, event: Event, said: tuple[Message, ...]) -> tuple[Event, tuple[Message, ...]]:
        """The event and what was said up to it; a turn that is over asks the model nothing more, and ends instead.

        An answer that could go on is over when others need the seats.
        """
        if not isinstance(event, CallModel):
            return event, said
        asking = self._way.place.asking
        crowded = event.optional and not (asking.continues and asking.idle)
        why = self._running.over or ("crowded" if crowded else None)
        if why is None:
            return event, said
        event = self._game.send(self._ended(why))
        return event, (*said, *event.said)

    def _ended(self, why: Why, came: Reply | None = None) -> Ended:
        """The end of the turn; what was shown before a restart stays, unless something has come since."""
        return Ended(why, came if came is not None and came.text else self._shown)

    async def _unsaid(self, tx: Transaction, said: tuple[Message, ...]) -> tuple[Message, ...]:
        """What of this is not stored yet: all of it, if the tools or limits of this start lead the turn another way."""
        before = self._opened.said
        if said[: len(before)] == before:
            return said[len(before) :]
        await stored.unsay(tx, self._opened.id)
        return said

    async def _write(self, closing: Closing | None, then: Write | None = None) -> None:
        """Close the call, if there was one, together with what follows from it, once the database can be written."""

        async def write() -> None:
            now = time.time()
            async with self._means.database.transaction() as tx:
                if closing is not None:
                    await calls.close_call(tx, closing, now=now)
                if then is not None:
                    await then(tx, now)

        await patiently(write)

    async def _store(self, tx: Transaction, event: Event, said: tuple[Message, ...], now: float) -> None:
        await stored.say(tx, self._opened.id, said, now=now)
        match event:
            case CallModel():
                await self._way.settle(tx, self._opened.id)
                self._call = await calls.open_call(tx, self._new_call(event), now=now)
            case RunTools():
                wanted = [one.call for one in event.calls]
                await calls.want(tx, self._opened.id, event.step, wanted, event.refused, now=now)
            case Finished():
                await self._end(tx, self._signed(event), event.ending, now, more=event.more)

    def _signed(self, event: Finished) -> str:
        """The text of the turn; what the model wrote of it is signed where it is not the first endpoint's."""
        is_ours = event.note is not None and event.text.startswith(event.note)
        line = "" if is_ours else self._way.signature(self._written_by, deep=self._ask.deep)
        return f"{sentences.closed(event.text)}\n\n{line}" if line else event.text

    async def _fail(self, asked: Asked) -> None:
        text, ending = _failure(asked.given)
        said = Message("assistant", text)
        self._said.append(said)

        async def fail(tx: Transaction, now: float) -> None:
            await stored.say(tx, self._opened.id, (said,), now=now)
            await self._end(tx, text, ending, now)

        await self._write(asked.closing, fail)

    async def _end(self, tx: Transaction, text: str, ending: str, now: float, *, more: bool = False) -> None:
        ask = self._ask
        await stored.end(tx, self._opened.id, self._done(ending), now=now)
        buttons = ((Button("Continue", f"{MORE}{self._opened.id}"),),) if more else ()
        parts = self._channel.parts(ask.preface + text, silent=ask.silent, buttons=buttons)
        if self._opened.tell_cut:
            parts = (*parts, Part(CUT, silent=True))
            await conversations.tell_cut(tx, ask.lane)
        await outbox.add(tx, item=ask.items[0].id, lane=ask.lane, parts=parts, reply_to=ask.reply_to, now=now)
        await inbox.done(tx, [item.id for item in ask.items], now=now)

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

    def _new_call(self, event: CallModel) -> NewCall:
        endpoint, (system, *others) = self._way.place.endpoint, self._way.sent(event.messages)
        notes = self._opened.notes_size if self._way.allows("notes") else 0
        return NewCall(
            turn=self._opened.id,
            step=event.step,
            purpose="turn",
            again=event.again,
            endpoint=endpoint.url,
            model=endpoint.name(),
            thinking=event.thinking and endpoint.which == "main",
            tools_offered=len(self._opened.toolbox.tools),
            chars_system=len(system.text),
            chars_tools=window.tools_size(self._opened.toolbox),
            chars_notes=notes,
            chars_history=max(0, sum(len(message.text) for message in others) - notes),
            images=sum(len(message.images) for message in others),
        )


def _counted(asked: Asked) -> int | None:
    """The server's count of the prompt that was asked, if it gave one."""
    reply = asked.closing.reply
    return reply.usage.prompt_tokens if reply else None


def _failure(failed: object) -> tuple[str, str]:
    """What the person reads when no answer could be had, and the turn's ending."""
    if isinstance(failed, EndpointAway):
        return "The model did not answer, however often I tried. Send /retry when it is back.", "away"
    if isinstance(failed, PromptTooLong):
        return "This is longer than the model can read at once. Please send less of it, or begin with /new.", "too_long"
    return "The model endpoint refused my request. The admins have been told; /retry asks it again.", "refused"
