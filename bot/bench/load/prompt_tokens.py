"""What prompts cost in tokens: the first one with ten tools, and sixty turns of one conversation.

Counts are the simulated endpoint's, by its printed rule, so they compare with each other only.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bot.agent import prompt as prompting
from bot.agent.toolbox import Toolbox
from bot.bench.harness import workload as talk
from bot.bench.harness.sample_tools import STAND_INS
from bot.bench.harness.stage import PATIENCE, Stage, all_staged
from bot.bench.harness.statistics import Name, Row, Value, at_most
from bot.domain import Message, ModelRequest
from bot.http_server import serve
from bot.llm.client import Llm
from bot.llm.seats import Seats
from bot.settings import SYSTEM_PROMPT, Settings
from bot.sim.vllm.server import Endpoint, Profile, Request
from tools.base import Tool
from tools.registry import discover

TOOLS = 10
FIRST_PROMPT = 1200
PREFILL_THOUSANDS = 18
BUDGET: int = Settings.model_fields["prompt_budget"].default

_PAUSE = (
    0.05  # seconds after a model's reply until the person goes on: what is left of a turn is stored meanwhile
)
_FIRST = "What will the weather be like in Lisbon tomorrow?"
# Some launch recipes have the server think wherever a request does not say whether to.
_THINKS_BY_DEFAULT = replace(Profile.today(), thinking=True)


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over the requests of a conversation, in tokens."""

    first: int
    computed: int
    largest: int
    output: int
    reasoning: int

    @property
    def share(self) -> float | None:
        """Reasoning as a share of all output, in percent."""
        if self.output:
            return 100 * self.reasoning / self.output
        return None


async def measure(names: tuple[Name, ...], folder: Path, turns: int) -> list[Row]:
    """One conversation of `turns` turns a bot, and the first prompt of ours with ten tools."""
    make = partial(Endpoint, brain=talk.Model(), profile=_THINKS_BY_DEFAULT)
    async with all_staged(names, folder, make) as stages:
        async with asyncio.TaskGroup() as tasks:
            talking = {name: tasks.create_task(_converse(stage, turns)) for name, stage in stages.items()}
        spent = {name: task.result() for name, task in talking.items()}
    with_tools, without = await first_prompt()
    first: dict[Name, Value] = {name: one.first for name, one in spent.items()}
    of_it: dict[Name, Value] = dict.fromkeys(spent, 0)
    if "ours" in spent:
        first["ours"], of_it["ours"] = with_tools, with_tools - without
    return [
        Row("first_prompt", "first prompt, ten tools", "tokens", first, at_most(FIRST_PROMPT), digits=0),
        Row("first_tools", "of it tools", "tokens", of_it, digits=0),
        *rows(spent, turns),
    ]


def rows(spent: dict[Name, Spent], turns: int) -> list[Row]:
    """The figures of a conversation."""
    computed: dict[Name, Value] = {name: one.computed / 1000 for name, one in spent.items()}
    largest: dict[Name, Value] = {name: one.largest for name, one in spent.items()}
    share: dict[Name, Value] = {name: one.share for name, one in spent.items()}
    return [
        Row(
            "prefill",
            f"{turns} turns: prefill computed",
            "thousand tokens",
            computed,
            at_most(PREFILL_THOUSANDS),
        ),
        Row("largest", f"{turns} turns: largest prompt", "tokens", largest, at_most(BUDGET), digits=0),
        Row("reasoning", f"{turns} turns: reasoning share of output", "%", share, at_most(0), digits=0),
    ]


def summed(requests: Sequence[Request], *, thought: int) -> Spent:
    """Sums of the endpoint's log; a request with thinking has `thought` reasoning tokens."""
    return Spent(
        first=requests[0].prompt_tokens,
        computed=sum(one.prompt_tokens - one.cached_tokens for one in requests),
        largest=max(one.prompt_tokens for one in requests),
        output=sum(one.completion_tokens for one in requests),
        reasoning=sum(thought for one in requests if one.thinking),
    )


async def first_prompt() -> tuple[int, int]:
    """Tokens of the first prompt as the gateway sends it: with ten tools (some stand in), and without any."""
    shipped = list(discover())
    ten = [*shipped, *STAND_INS][: max(TOOLS, len(shipped))]
    endpoint = Endpoint(brain=talk.Model())
    async with serve(endpoint.app) as url:
        llm = Llm(f"{url}/v1", None, Seats(1))
        for tools in (ten, []):
            await llm.call(_request(tools), lambda text: None, lambda: None)
        await llm.close()
    with_tools, without = (log.prompt_tokens for log in endpoint.requests)
    return with_tools, without


def _request(tools: Sequence[Tool]) -> ModelRequest:
    asked = Message("user", prompting.stamp(datetime.now(UTC)) + _FIRST)
    prompt = prompting.build(SYSTEM_PROMPT, (), (asked,))
    definitions = Toolbox(tools).definitions
    return ModelRequest(
        prompt, definitions, "auto", thinking=False, max_tokens=256, session="bench", lane="bench"
    )


async def _converse(stage: Stage, turns: int) -> Spent:
    """A person writes on as soon as the model has answered; nobody waits for a chat's pace of messages."""
    for number in range(turns):
        stage.write(number, chat=0)
        await stage.endpoint.until(partial(_has_finished, stage, number + 1), timeout=PATIENCE)
        await asyncio.sleep(_PAUSE)
    return summed(stage.endpoint.requests, thought=talk.Model().thinks)


def _has_finished(stage: Stage, count: int) -> bool:
    return sum(log.finished is not None for log in stage.endpoint.requests) >= count
