"""Prompt tokens that the endpoint computes: whole conversations with the simulator, compared with the
design's figures.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from bot.agent.thinking_policy import ThinkingSetting
from bot.bench.harness.prose import write_prose
from bot.db.engine import Database
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.sim.vllm.server import ChatRequest, RequestRecord, format_thought, format_tool_call
from bot.tool_registry.toolbox import Toolbox
from bot.translations.translator import Translatable
from bot.turns import cache_warmup
from bot.turns.cache_warmup import CacheWarmup, WarmupConfig
from bot.turns.call_ledger import CallLedger
from tests.bench.harness import workload
from tests.bench.harness.workload import write_question
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, TurnHarness
from tools.base import tool
from tools.registry import discover

BLOCK_TOKENS = 32  # tokens the endpoint's cache keeps together
PROMPT_BUDGET = 8000
WARMUP_CALLS = 4
STEPS = 6


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_warmup, "START_DELAY_SECONDS", 0.0)


def count_computed_tokens(requests: Sequence[RequestRecord]) -> int:
    """Prompt tokens that were not found in the cache."""
    return sum(request.prompt_tokens - request.cached_tokens for request in requests)


def cached_share(requests: Sequence[RequestRecord]) -> float:
    """The part of all prompt tokens that was found in the cache."""
    return sum(request.cached_tokens for request in requests) / sum(
        request.prompt_tokens for request in requests
    )


def computes_only_new_tokens(requests: Sequence[RequestRecord]) -> bool:
    """Whether each prompt was computed from where the one before ended, to a block.

    A prompt ends in the opening of its answer, which the next one has not. Where that begins within the last
    block, nothing is kept of this end, and the next prompt is computed from the end before it.
    """
    late = [
        after
        for before, after in pairwise(requests)
        if count_computed_tokens([after]) > after.prompt_tokens - before.prompt_tokens + BLOCK_TOKENS
    ]
    from_before = zip(requests, requests[2:], strict=False)
    return len(late) <= len(requests) // 3 and all(
        count_computed_tokens([after]) <= after.prompt_tokens - before.prompt_tokens + 2 * BLOCK_TOKENS
        for before, after in from_before
    )


def is_warmed_up(endpoint: ScriptedEndpoint, calls: int = WARMUP_CALLS) -> bool:
    return sum(request.finished_at is not None for request in endpoint.requests) >= calls


@contextlib.asynccontextmanager
async def open_warm_harness(database: Database, endpoint: ScriptedEndpoint) -> AsyncIterator[TurnHarness]:
    """Turns with the shipped tools at an endpoint that is warmed up, and no Telegram to pace them."""

    async def complain(subject: str, text: Translatable) -> None:
        raise AssertionError(subject, text)

    tools = tuple(discover())
    async with serve(endpoint.app) as url, contextlib.AsyncExitStack() as closing:
        model = ModelClient(f"{url}/v1", None, SeatLimiter(4))
        closing.push_async_callback(model.close)
        config = WarmupConfig(
            f"{url}/v1", None, None, "Be brief.", lambda: Toolbox(tools), PROMPT_BUDGET, (False, True)
        )
        ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(
                CacheWarmup(ledger, model, config, model_name=lambda: "model", notify_admins=complain).run()
            )
            await endpoint.wait_until(lambda: is_warmed_up(endpoint))
            running.cancel()
        yield TurnHarness(
            database, cast(ScriptedModel, model), tools, prompt_budget=PROMPT_BUDGET, thinking="auto"
        )


def write_words(number: int) -> str:
    """A message of fifty tokens."""
    return f"Question {number}:{write_prose(47 - len(str(number)), number)}"


async def test_sixty_turns_compute_little_of_their_prompts_again(database: Database):
    endpoint = ScriptedEndpoint(brain=workload.ProseBrain(answer_tokens=150))
    async with open_warm_harness(database, endpoint) as harness:
        harness.thinking = (
            "off"  # the words of the questions are random, and so would be what they seem to ask
        )
        turns = harness.build_runner()
        for number in range(60):
            await turns.run(await harness.new_request(write_words(number)))
    requests = endpoint.requests[WARMUP_CALLS:]
    assert len(requests) == 60
    assert any(
        after.prompt_tokens < before.prompt_tokens for before, after in pairwise(requests)
    )  # it was cut
    assert max(request.prompt_tokens for request in requests) <= PROMPT_BUDGET
    assert count_computed_tokens(requests) <= 17_500
    assert cached_share(requests) >= 0.93


@pytest.mark.parametrize("thinking", ["off", "on"])
async def test_a_loop_of_tools_computes_only_what_each_step_brought(
    database: Database, thinking: ThinkingSetting
):
    def brain(request: ChatRequest) -> str:
        sums = format_tool_call("calculate", {"expression": f"{request.step} + 1"})
        say = sums if request.step < STEPS - 1 else "All done."
        return format_thought(write_prose(120, request.step), request) + say if request.thinking else say

    endpoint = ScriptedEndpoint(brain=brain)
    async with open_warm_harness(database, endpoint) as harness:
        harness.thinking = thinking
        await harness.build_runner().run(await harness.new_request("Add one, five times."))
        assert await harness.load_answers() == ["All done."]
    requests = endpoint.requests[WARMUP_CALLS:]
    assert [request.thinking for request in requests] == [thinking == "on"] * STEPS
    assert computes_only_new_tokens(requests)


@pytest.mark.parametrize("thinking", ["off", "on"])
async def test_thoughts_tools_and_long_answers_keep_every_prompt_within_the_budget(
    database: Database, thinking: ThinkingSetting
):
    @tool(repeatable=True)
    async def dig(place: int) -> str:
        """Dig something up.

        Args:
            place: Where.
        """
        return write_prose(1500, place)

    def brain(request: ChatRequest) -> str:
        chance = random.Random(len(request.prompt))
        digs = (
            request.body.get("tool_choice") == "auto"
            and not request.is_continuation
            and chance.random() < 0.6
        )
        answer = write_prose(chance.choice((100, 900, 1900)), len(request.prompt))
        say = format_tool_call("dig", {"place": len(request.prompt)}) if digs else answer
        return (
            format_thought(write_prose(chance.choice((50, 700)), 1), request) + say
            if request.thinking
            else say
        )

    endpoint = ScriptedEndpoint(brain=brain)
    async with open_warm_harness(database, endpoint) as harness:
        harness.thinking = thinking
        harness.prompt_budget = PROMPT_BUDGET // 2
        harness.tools = (dig,)
        turns = harness.build_runner()
        for number in range(20):
            await turns.run(await harness.new_request(write_words(number)))
    assert max(request.prompt_tokens for request in endpoint.requests) <= PROMPT_BUDGET // 2
    assert thinking == "on" or any("continue_final_message" in request.body for request in endpoint.requests)


async def converse(gateway: GatewayHarness, chat: int, turns: int) -> None:
    """One person asks so many questions, each once the one before is answered."""
    person = gateway.api.person(chat, f"Person {chat}")
    for number in range(turns):
        person.send(write_question(100 * chat + number))
        await gateway.api.wait_until(
            lambda: len(gateway.texts(chat)) > number and gateway.is_finished(chat)  # noqa: B023
        )


async def test_chats_side_by_side_compute_as_little_as_one(tmp_path: Path):
    endpoint = ScriptedEndpoint(brain=workload.ProseBrain(answer_tokens=150))
    chats = range(20, 26)
    turns = 4
    async with running_gateway(tmp_path, endpoint, access="open", warm_up="on", thinking="off") as gateway:
        await endpoint.wait_until(lambda: is_warmed_up(endpoint, WARMUP_CALLS // 2))
        async with asyncio.TaskGroup() as people:
            for chat in chats:
                people.create_task(converse(gateway, chat, turns))
    for chat in chats:
        chat_requests = [
            request for request in endpoint.requests if f"Question {100 * chat}:" in request.prompt
        ]
        assert len(chat_requests) == turns
        assert chat_requests[0].cached_tokens > 0  # the head is everybody's
        assert computes_only_new_tokens(chat_requests)
