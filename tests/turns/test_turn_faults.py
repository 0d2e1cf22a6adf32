"""Turns under random faults: stops, kills, a full disk, an endpoint that fails. Nothing is left half done."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import select

from bot.db import retry
from bot.db.engine import Database
from bot.db.queues import stop_requests
from bot.db.tables import inbox, messages, model_calls, outbox, tool_calls, turns
from bot.domain import Reply
from bot.errors import EndpointAway, PromptTooLong, StoreUnavailable
from bot.turns import model_caller
from bot.turns.execution import TurnRunner
from bot.turns.turn_request import TurnRequest
from tests.support.flaky_database import FlakyDatabase
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, make_call, make_reply
from tools.base import Tool, tool

ROUNDS = 8


@dataclass
class FaultyTurn:
    """One turn, from its messages to its end, and the faults it meets.

    `once_runs`: how often the tool ran that must run once; `replies`: how many calls the model answered.
    """

    dice: random.Random
    database: Database
    once_runs: int = 0
    replies: int = 0
    model: ScriptedModel = field(default_factory=ScriptedModel)

    def build_harness(self) -> TurnHarness:
        flaky = FlakyDatabase(self.database)
        turn_seconds = self.dice.choice([60.0, 60.0, 0.08])
        patience_seconds = self.dice.choice([60.0, 0.05])
        return TurnHarness(
            flaky,
            self.model,
            self.tools(),
            turn_seconds=turn_seconds,
            patience_seconds=patience_seconds,
            max_steps=6,
            thinking="auto",
        )

    def tools(self) -> list[Tool]:
        @tool
        async def once() -> str:
            """Do it once."""
            self.once_runs += 1
            await asyncio.sleep(self.dice.random() * 0.02)
            return "done"

        @tool(repeatable=True)
        async def again() -> str:
            """Do it as often as you like."""
            await asyncio.sleep(self.dice.random() * 0.02)
            return "seen"

        return [once, again]

    async def reply(self) -> Reply:
        """The model's next reply."""
        await asyncio.sleep(self.dice.random() * 0.02)
        self.replies += 1
        roll = self.dice.random()
        if roll < 0.15:
            raise EndpointAway("away", make_reply())
        if roll < 0.2:
            raise PromptTooLong("too long", make_reply())
        if roll < 0.55:
            return make_reply(
                "", make_call("once", id=f"a{self.replies}"), make_call("again", id=f"b{self.replies}")
            )
        if roll < 0.7:
            self.model.calls_before = self.dice.choice([None, None, 1])
            return make_reply("An answer that", finish_reason="length")
        if roll < 0.75:
            return replace(make_reply(finish_reason="brake"), reasoning="hm")
        return make_reply("" if roll < 0.8 else "An answer.")

    async def run(self) -> TurnRequest:
        """Answer the messages, through as many restarts as it takes; returns the request."""
        harness = self.build_harness()
        request = await harness.new_request(*["hello"] * self.dice.randint(1, 3))
        for attempt in range(100):
            runner = harness.build_runner()
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(self.run_as_worker_does(runner, request))
                tasks.create_task(self.cause_fault(harness, runner, task, last=attempt > 3))
            assert not harness.running_turns._handles
            if not task.cancelled() or await self.is_done():
                return request
            request = await harness.restart(*request.texts)
        raise AssertionError("it never ends")

    async def run_as_worker_does(self, runner: TurnRunner, request: TurnRequest) -> None:
        """Run the turn; where it could not be opened for a full disk, do so once there is space."""
        while True:
            try:
                await runner.run(request)
            except StoreUnavailable:
                await asyncio.sleep(0.005)
            else:
                return

    async def cause_fault(
        self, harness: TurnHarness, runner: TurnRunner, task: asyncio.Task[None], *, last: bool
    ) -> None:
        roll = self.dice.random()
        await asyncio.sleep(self.dice.random() * 0.12)
        if roll < 0.3:
            async with self.database.transaction() as tx:
                await stop_requests.stop(tx, LANE, before=10**9, now=0.0)
            harness.running_turns.stop(LANE, 10**9)
        elif roll < 0.6 and not last:
            task.cancel()
        elif roll < 0.75:
            assert isinstance(harness.database, FlakyDatabase)
            harness.database.full = True
            await asyncio.sleep(0.02)
            harness.database.full = False

    async def is_done(self) -> bool:
        async with self.database.read_transaction() as tx:
            return set((await tx.execute(select(inbox.c.state))).scalars()) == {"done"}


class EndlessScript(list[Callable[[], Awaitable[Reply]]]):
    """A script that never ends."""

    def __init__(self, reply: Callable[[], Awaitable[Reply]]) -> None:
        super().__init__([reply])

    def pop(self, index: object = 0) -> Callable[[], Awaitable[Reply]]:
        return self[0]


async def check_rows(faulty_turn: FaultyTurn, request: TurnRequest) -> None:
    """Assert of the newest turn's rows what must be true of every turn that has ended."""
    async with faulty_turn.database.read_transaction() as tx:
        turn = (await tx.execute(select(turns).order_by(turns.c.id.desc()).limit(1))).one()
        final_parts = (
            await tx.execute(select(outbox.c.final).where(outbox.c.item == request.items[0].id))
        ).all()
        call_query = select(model_calls.c.outcome).where(model_calls.c.turn == turn.id)
        outcomes = (await tx.execute(call_query)).scalars().all()
        tool_rows = (await tx.execute(select(tool_calls).where(tool_calls.c.turn == turn.id))).all()
        query = select(messages).where(messages.c.turn == turn.id).order_by(messages.c.id)
        stored_messages = (await tx.execute(query)).all()
    called_ids = [call["id"] for row in stored_messages if row.calls for call in json.loads(row.calls)]
    assert await faulty_turn.is_done()
    assert turn.state == "ended"
    assert [tuple(row) for row in final_parts] == [(True,)]
    assert None not in outcomes
    assert all(row.outcome for row in tool_rows)
    assert sorted(called_ids) == sorted(row.call_id for row in stored_messages if row.role == "tool")
    assert len(set(called_ids)) == len(called_ids)
    assert [row.role for row in stored_messages].count("user") == len(request.items)
    assert stored_messages[-1].role == "assistant"
    assert stored_messages[-1].text
    started = [row for row in tool_rows if row.name == "once" and row.outcome != "refused"]
    assert faulty_turn.once_runs <= len(started)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_to_a_turn_it_ends_once_and_completely(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.005)
    monkeypatch.setattr(model_caller, "BACKOFF_SECONDS", (0.005, 0.01))
    for number in range(ROUNDS):
        faulty_turn = FaultyTurn(random.Random(seed * 1000 + number), database)
        faulty_turn.model.script = EndlessScript(faulty_turn.reply)  # type: ignore[assignment]
        await check_rows(faulty_turn, await faulty_turn.run())
