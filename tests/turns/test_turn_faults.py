"""Turns in random trouble: stops, deaths, a full disk, an endpoint that comes and goes. Nothing is left half
done.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import select

from bot.db import retry as patience
from bot.db.engine import Database
from bot.db.queues import stop_requests as stopping
from bot.db.tables import inbox as items
from bot.db.tables import messages, model_calls, outbox, tool_calls, turns
from bot.domain import Reply
from bot.errors import EndpointAway, PromptTooLong
from bot.turns import model_caller as asking
from bot.turns.runner import TurnRunner
from bot.turns.start import TurnRequest
from tests.queue.test_worker import FlakyDatabase
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, make_call, make_reply
from tools.base import Tool, tool

ROUNDS = 12


@dataclass
class Storm:
    """One turn, from its messages to its end, and what happens to it; `ran` counts runs of the tool that runs
    once.
    """

    dice: random.Random
    database: Database
    ran: int = 0
    said: int = 0
    model: ScriptedModel = field(default_factory=ScriptedModel)

    def desk(self) -> TurnHarness:
        flaky = FlakyDatabase(self.database)
        seconds, wait = self.dice.choice([60.0, 60.0, 0.08]), self.dice.choice([60.0, 0.05])
        return TurnHarness(
            flaky,
            self.model,
            self.tools(),
            turn_seconds=seconds,
            patience_seconds=wait,
            max_steps=6,
            thinking="auto",
        )

    def tools(self) -> list[Tool]:
        @tool
        async def once() -> str:
            """Do it once."""
            self.ran += 1
            await asyncio.sleep(self.dice.random() * 0.02)
            return "done"

        @tool(repeatable=True)
        async def again() -> str:
            """Do it as often as you like."""
            await asyncio.sleep(self.dice.random() * 0.02)
            return "seen"

        return [once, again]

    async def say(self) -> Reply:
        """What the model says next."""
        await asyncio.sleep(self.dice.random() * 0.02)
        self.said += 1
        lot = self.dice.random()
        if lot < 0.15:
            raise EndpointAway("away", make_reply())
        if lot < 0.2:
            raise PromptTooLong("too long", make_reply())
        if lot < 0.55:
            return make_reply(
                "", make_call("once", id=f"a{self.said}"), make_call("again", id=f"b{self.said}")
            )
        if lot < 0.7:
            self.model.calls_before = self.dice.choice([None, None, 1])
            return make_reply("An answer that", finish_reason="length")
        if lot < 0.75:
            return replace(make_reply(finish_reason="brake"), reasoning="hm")
        return make_reply("" if lot < 0.8 else "An answer.")

    async def rage(self) -> TurnRequest:
        """Answer the messages, through as many lives as it takes; returns what was asked."""
        desk = self.desk()
        ask = await desk.new_request(*["hello"] * self.dice.randint(1, 3))
        for life in range(100):
            turns_ = desk.build_runner()
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(turns_.run(ask))
                tasks.create_task(self.trouble(desk, turns_, task, last=life > 3))
            assert not turns_._handles
            if not task.cancelled() or await self.done():
                return ask
            ask = await desk.restart(*ask.texts)
        raise AssertionError("it never ends")

    async def trouble(
        self, desk: TurnHarness, turns_: TurnRunner, task: asyncio.Task[None], *, last: bool
    ) -> None:
        lot = self.dice.random()
        await asyncio.sleep(self.dice.random() * 0.12)
        if lot < 0.3:
            async with self.database.transaction() as tx:
                await stopping.stop(tx, LANE, before=10**9, now=0.0)
            turns_.stop(LANE, 10**9)
        elif lot < 0.6 and not last:
            task.cancel()
        elif lot < 0.75:
            assert isinstance(desk.database, FlakyDatabase)
            desk.database.full = True
            await asyncio.sleep(0.02)
            desk.database.full = False

    async def done(self) -> bool:
        async with self.database.read_transaction() as tx:
            return set((await tx.execute(select(items.c.state))).scalars()) == {"done"}


class Endless(list[Callable[[], Awaitable[Reply]]]):
    """A model never at a loss for words."""

    def __init__(self, say: Callable[[], Awaitable[Reply]]) -> None:
        super().__init__([say])

    def pop(self, index: object = 0) -> Callable[[], Awaitable[Reply]]:
        return self[0]


async def check(storm: Storm, ask: TurnRequest) -> None:
    """Hold the rows of the newest turn to what must be true of every turn that has ended."""
    async with storm.database.read_transaction() as tx:
        turn = (await tx.execute(select(turns).order_by(turns.c.id.desc()).limit(1))).one()
        part = (await tx.execute(select(outbox.c.final).where(outbox.c.item == ask.items[0].id))).all()
        calls = (
            (await tx.execute(select(model_calls.c.outcome).where(model_calls.c.turn == turn.id)))
            .scalars()
            .all()
        )
        ran = (await tx.execute(select(tool_calls).where(tool_calls.c.turn == turn.id))).all()
        query = select(messages).where(messages.c.turn == turn.id).order_by(messages.c.id)
        stored = (await tx.execute(query)).all()
    asked = [one["id"] for row in stored if row.calls for one in json.loads(row.calls)]
    assert await storm.done()
    assert (turn.state, [tuple(row) for row in part]) == ("ended", [(True,)])
    assert None not in calls
    assert all(row.outcome for row in ran)
    assert sorted(asked) == sorted(row.call_id for row in stored if row.role == "tool")
    assert len(set(asked)) == len(asked)
    assert [row.role for row in stored].count("user") == len(ask.items)
    assert stored[-1].role == "assistant"
    assert stored[-1].text
    assert storm.ran <= len([row for row in ran if row.name == "once" and row.outcome != "refused"])


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_to_a_turn_it_ends_once_and_whole(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(patience, "RETRY_SECONDS", 0.005)
    monkeypatch.setattr(asking, "BACKOFF_SECONDS", (0.005, 0.01))
    for number in range(ROUNDS):
        storm = Storm(random.Random(seed * 1000 + number), database)
        storm.model.script = Endless(storm.say)  # type: ignore[assignment]
        await check(storm, await storm.rage())
