"""What of its prompts the endpoint computes: whole conversations at the simulator, held to the design's
figures.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from bot.agent.thinking_policy import Setting
from bot.agent.toolbox import Toolbox
from bot.bench.harness import workload as talk
from bot.bench.harness.workload import question
from bot.db.engine import Database
from bot.http_server import serve
from bot.llm.client import Llm
from bot.llm.seats import Seats
from bot.sim.vllm.server import ChatRequest, Endpoint, Request, call_text, thought
from bot.turns import cache_warmup as warming
from bot.turns.cache_warmup import Wanted, Warming
from tests.support.gateway import World, open_house
from tests.support.turn_harness import Desk, Model
from tools.base import tool
from tools.registry import discover

BLOCK = 32  # tokens the endpoint's cache keeps together
BUDGET = 8000
WARM_UPS = 4
STEPS = 6


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "SETTLE", 0.0)


def computed(requests: Sequence[Request]) -> int:
    """Prompt tokens that were not found in the cache."""
    return sum(one.prompt_tokens - one.cached_tokens for one in requests)


def share(requests: Sequence[Request]) -> float:
    """The part of all prompt tokens that was found in the cache."""
    return sum(one.cached_tokens for one in requests) / sum(one.prompt_tokens for one in requests)


def only_what_is_new(requests: Sequence[Request]) -> bool:
    """Whether each prompt was computed from where the one before ended, to a block.

    A prompt ends in the opening of its answer, which the next one has not. Where that begins within the last
    block, nothing is kept of this end, and the next prompt is computed from the end before it.
    """
    late = [
        after
        for before, after in pairwise(requests)
        if computed([after]) > after.prompt_tokens - before.prompt_tokens + BLOCK
    ]
    from_before = zip(requests, requests[2:], strict=False)
    return len(late) <= len(requests) // 3 and all(
        computed([after]) <= after.prompt_tokens - before.prompt_tokens + 2 * BLOCK
        for before, after in from_before
    )


def warmed_up(endpoint: Endpoint) -> bool:
    return sum(one.finished is not None for one in endpoint.requests) >= WARM_UPS


@contextlib.asynccontextmanager
async def warm(database: Database, endpoint: Endpoint) -> AsyncIterator[Desk]:
    """Turns with the shipped tools at an endpoint that is warmed up, and no Telegram to pace them."""

    async def complain(subject: str, text: str) -> None:
        raise AssertionError(subject, text)

    tools = tuple(discover())
    async with serve(endpoint.app) as url, contextlib.AsyncExitStack() as closing:
        model = Llm(f"{url}/v1", None, Seats(4))
        closing.push_async_callback(model.close)
        wanted = Wanted(f"{url}/v1", None, None, "Be brief.", lambda: Toolbox(tools), BUDGET, (False, True))
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(
                Warming(database, model, wanted, name=lambda: "model", tell=complain).run()
            )
            await endpoint.until(lambda: warmed_up(endpoint))
            running.cancel()
        yield Desk(database, cast(Model, model), tools, budget=BUDGET, thinking="auto")


async def test_sixty_turns_compute_little_of_their_prompts_again(database: Database):
    endpoint = Endpoint(brain=talk.Model(answer=150))
    async with warm(database, endpoint) as desk:
        turns = desk.turns()
        for number in range(60):
            await turns.run(await desk.ask(question(number, 50)))
    requests = endpoint.requests[WARM_UPS:]
    assert len(requests) == 60
    assert any(
        after.prompt_tokens < before.prompt_tokens for before, after in pairwise(requests)
    )  # it was cut
    assert max(one.prompt_tokens for one in requests) <= BUDGET
    assert computed(endpoint.requests) <= 18_000  # with the warm-up
    assert share(requests) >= 0.94


@pytest.mark.parametrize("thinking", ["off", "on"])
async def test_a_loop_of_tools_computes_only_what_each_step_brought(database: Database, thinking: Setting):
    def brain(asked: ChatRequest) -> str:
        sums = call_text("calculate", {"expression": f"{asked.step} + 1"})
        say = sums if asked.step < STEPS - 1 else "All done."
        return thought(talk.prose(120, asked.step), asked) + say if asked.thinking else say

    endpoint = Endpoint(brain=brain)
    async with warm(database, endpoint) as desk:
        desk.thinking = thinking
        await desk.turns().run(await desk.ask("Add one, five times."))
        assert await desk.answers() == ["All done."]
    requests = endpoint.requests[WARM_UPS:]
    assert [one.thinking for one in requests] == [thinking == "on"] * STEPS
    assert only_what_is_new(requests)


@pytest.mark.parametrize("thinking", ["off", "on"])
async def test_thoughts_tools_and_long_answers_keep_every_prompt_within_the_budget(
    database: Database, thinking: Setting
):
    @tool(repeatable=True)
    async def dig(place: int) -> str:
        """Dig something up.

        Args:
            place: Where.
        """
        return talk.prose(1500, place)

    def brain(asked: ChatRequest) -> str:
        chance = random.Random(len(asked.prompt))
        digs = asked.body.get("tool_choice") == "auto" and not asked.continuing and chance.random() < 0.6
        answer = talk.prose(chance.choice((100, 900, 1900)), len(asked.prompt))
        say = call_text("dig", {"place": len(asked.prompt)}) if digs else answer
        return thought(talk.prose(chance.choice((50, 700)), 1), asked) + say if asked.thinking else say

    endpoint = Endpoint(brain=brain)
    async with warm(database, endpoint) as desk:
        desk.thinking, desk.budget, desk.tools = thinking, BUDGET // 2, (dig,)
        turns = desk.turns()
        for number in range(20):
            await turns.run(await desk.ask(question(number, 50)))
    assert max(one.prompt_tokens for one in endpoint.requests) <= BUDGET // 2
    assert thinking == "on" or any("continue_final_message" in one.body for one in endpoint.requests)


async def converse(house: World, chat: int, turns: int) -> None:
    """One person asks so many questions, each once the one before is answered."""
    person = house.api.person(chat, f"Person {chat}")
    for number in range(turns):
        person.send(question(100 * chat + number))
        await house.api.until(lambda: len(house.texts(chat)) > number and house.finished(chat), 30)  # noqa: B023 awaited here


async def test_twenty_chats_side_by_side_compute_as_little_as_one(tmp_path: Path):
    endpoint, chats, turns = Endpoint(brain=talk.Model(answer=150)), range(20, 40), 4
    async with open_house(tmp_path, endpoint, access="open", warm_up="on", thinking="auto") as house:
        await endpoint.until(lambda: warmed_up(endpoint))
        async with asyncio.TaskGroup() as people:
            for chat in chats:
                people.create_task(converse(house, chat, turns))
    for chat in chats:
        mine = [one for one in endpoint.requests if f"Question {100 * chat}:" in one.prompt]
        assert len(mine) == turns
        assert mine[0].cached_tokens > 0  # the head is everybody's
        assert only_what_is_new(mine)
