"""Plays one turn: hands the loop's events to the model and to the tools, and what came back to the loop.

Whatever an event brought is in the record before the next is acted on, so that a turn goes on from there
after a crash.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bot import logs
from bot.agent import loop
from bot.agent import prompt as prompting
from bot.agent import taint as caution
from bot.agent.events import CallModel, Ended, Event, Finished, Given, Limits, RunTools, Why
from bot.agent.replay import replay
from bot.db.conversations.calls import Closing
from bot.db.engine import Database, Transaction
from bot.db.queues import inbox
from bot.domain import Channel, ChannelFor, Message, ModelRequest, Reply
from bot.errors import CallFailed, PromptTooLong
from bot.turns import start as opening
from bot.turns.approvals import Asker
from bot.turns.endpoint_router import Places, Way
from bot.turns.handle import Running
from bot.turns.model_caller import Asked, Attempt
from bot.turns.recorder import Desk, Record
from bot.turns.start import Ask, Opened, Plan, Told, Wanting
from bot.turns.tool_executor import ByCall, Hands, Parked, known
from bot.turns.tool_policy import Gate, Guard
from bot.usage.timers import Watches
from tools.base import ToolContext

AROUND = 80  # tokens kept for what the house and the template put around the steps of a turn
SURE = 0.93  # of the room of a turn, for what its tools bring is estimated before a server counts it
NARROWER = 3  # times a prompt that the endpoint calls too long is made again with half the budget


@dataclass(frozen=True, slots=True)
class Means:
    """What turns work with. `seconds` bounds the work of one turn; `places` are the endpoints that answer.

    `inquire` asks the endpoint what a turn wants to know before it begins, about the texts to be answered.
    `watches` measure what turns are at. `context_for` is told the call's id, and its place among all calls;
    `guard` says which calls run.
    """

    database: Database
    places: Places
    channel_for: ChannelFor
    context_for: Callable[[Ask, str, str], ToolContext]
    plan: Plan
    inquire: Callable[[Wanting, Sequence[str]], Awaitable[Told]]
    guard: Guard
    seconds: float
    watches: Watches = field(default_factory=Watches)


class Playing:
    """One turn being played; `parked`: it waits for a person, and is played on once there is an answer."""

    def __init__(self, means: Means, ask: Ask, running: Running, channel: Channel) -> None:
        self.parked = False
        self._means = means
        self._ask = ask
        self._running = running
        self._channel = channel
        self._shown: Reply | None = None
        self._way = Way(means.places, ask.lane)
        desk = Desk(means.database, channel, running.watch)
        self._record = Record(desk, ask, self._way, sums=means.plan.sums)

    async def play(self) -> bool:
        """Play to the end; a prompt too long for the endpoint is made again with less history.

        True if the turn has left the house something to do.
        """
        budget = self._means.plan.budget
        for narrower in range(NARROWER):
            asked = await self._play(budget >> narrower)
            if asked is None:
                break
            if not isinstance(asked.given, PromptTooLong) or narrower == NARROWER - 1:
                await self._record.fail(asked)
                break
            await self._record.write(asked.closing)
        return self._record.summing

    async def _play(self, budget: int) -> Asked | None:
        """Play until the turn has ended or is parked; a failed call is handed back."""
        event = await self._begin(budget)
        while not isinstance(event, Finished | None):
            if isinstance(event, RunTools):
                came = await self._hands.run(event, self._running)
                if isinstance(came, Parked):
                    self.parked = await self._record.park(event.step, came.waiting)
                    if self.parked:
                        return None
                    self._running.stop()
                    continue
                event = await self._next(came)
                continue
            with logs.bind(turn=self._opened.id):
                asked = await self._ask_model(event)
            self._record.heard(event, asked)
            if isinstance(asked.given, CallFailed):
                return asked
            event = await self._next(asked.given, asked.closing)
        return None

    async def _begin(self, budget: int) -> Event | None:
        """Open the turn, or bring it back to where it stood; None if it had ended already."""
        told: Told | None = None
        goes_on = any(item.begun for item in self._ask.items)  # perhaps with a tool that may not run twice
        while True:
            now = time.time()
            async with self._means.database.transaction(durable=goes_on) as tx:
                opened = await opening.begin(tx, self._means.plan, self._ask, told, budget=budget, now=now)
                if isinstance(opened, Opened):
                    return await self._start(tx, opened, now)
            texts = [prompting.without_files(text) for text in self._ask.texts]
            with self._running.watch.at(
                "first canvas"
            ):  # of a reading; counting takes no canvas, and next to no time
                told = await self._means.inquire(opened, texts)

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
        self._hands = await self._with_hands(tx, opened, results)
        self._game = loop.play(opened.prompt, opened.toolbox.tools, self._limits(opened), opened.thinking)
        self._shown = opened.cut_short
        event, said = self._unless_over(*replay(self._game, opened.replies, results))
        await self._record.begin(tx, opened, self._hands, (event, said), now=now)
        return event

    async def _with_hands(self, tx: Transaction, opened: Opened, results: ByCall) -> Hands:
        means = self._means
        ask = self._ask
        if opened.is_found:
            asked = await means.guard.approvals.of_turn(tx, opened.id)
        else:
            asked = {}
        asker = Asker(opened.id, ask.person, ask.name, ask.lane)
        reading = caution.begin(opened.prompt, opened.user, goes_on=ask.goes_on)
        gate = Gate(means.guard, asker, opened.toolbox, reading, asked)
        context = partial(means.context_for, ask)
        return Hands(means.database, opened.id, opened.toolbox, gate, context, results)

    def _limits(self, opened: Opened) -> Limits:
        plan = self._means.plan
        return Limits(
            steps=plan.steps,
            max_tokens=plan.max_tokens,
            thinking=plan.canvases,
            may_think=opened.may_think,
            continues=self._way.place.continues,
            room=max(0, int(SURE * opened.room) - AROUND),
            played=len(opened.replies),
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
            await self._record.move(to, asked.closing, event)
            asked = await self._ask_here(request, event)
        if event.optional and isinstance(asked.given, CallFailed):
            return replace(asked, given=Ended("failed", asked.given.partial))
        return asked

    async def _ask_here(self, request: ModelRequest, event: CallModel) -> Asked:
        new = self._record.new_call(event, again=event.again)
        attempt = Attempt(self._way.fitted(request), self._record.call, new, optional=event.optional)
        seek = None if event.optional else self._way.seek
        return await self._way.place.asking.ask(attempt, self._running, self._channel, seek)

    async def _next(self, given: Given, closing: Closing | None = None) -> Event:
        """Hand what came to the loop, and store it with what follows from it."""
        if isinstance(given, Ended):
            given = self._ended(given.why, given.partial)
        self._shown = None
        event = self._game.send(given)
        event, said = self._unless_over(event, event.said)
        await self._record.keep(event, said, closing)
        if isinstance(event, RunTools):
            self._channel.status(None)  # whatever the person waited for, it is over
        return event

    def _unless_over(self, event: Event, said: tuple[Message, ...]) -> tuple[Event, tuple[Message, ...]]:
        """The event and what was said up to it; a turn that is over asks the model nothing more, and ends
        instead.

        An answer that could go on is over when others need the seats.
        """
        if not isinstance(event, CallModel):
            return event, said
        place = self._way.place
        crowded = event.optional and not (place.continues and place.asking.idle)
        why = self._running.over or ("crowded" if crowded else None)
        if why is None:
            return event, said
        event = self._game.send(self._ended(why))
        return event, (*said, *event.said)

    def _ended(self, why: Why, came: Reply | None = None) -> Ended:
        """The end of the turn; what was shown before a restart stays, unless something has come since."""
        return Ended(why, came if came is not None and came.text else self._shown)
