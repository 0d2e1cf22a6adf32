"""What prompts cost in tokens: the first one with eleven tools, and sixty turns of one conversation.

The simulated endpoint counts them, by its printed rule, so they compare with each other only.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bot.agent.prompt import build_prompt, format_timestamp
from bot.bench.harness.sample_tools import SAMPLE_TOOLS
from bot.domain import Message, ModelRequest
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.settings import SYSTEM_PROMPT, Settings
from bot.sim.vllm.server import RequestRecord
from bot.tool_registry.toolbox import Toolbox
from tests.bench.harness import workload
from tests.bench.harness.figures import BotName, FigureRow, FigureValue, limit_to
from tests.bench.harness.stage import PATIENCE_SECONDS, Stage, open_stages
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tools.base import Tool
from tools.registry import discover

TOOL_COUNT = 11
MAX_FIRST_PROMPT_TOKENS = 910
MAX_PREFILL_THOUSANDS = 18
MAX_PROMPT_TOKENS: int = Settings.model_fields["prompt_budget"].default

# Between a reply of the model and the person's next message: the rest of the turn is stored meanwhile.
_PAUSE_SECONDS = 0.05
_FIRST_QUESTION = "What will the weather be like in Lisbon tomorrow?"
# Some launch recipes have the server think unless a request says whether to.
_THINKS_BY_DEFAULT = replace(ServerProfile(), thinking=True)


@dataclass(frozen=True, slots=True)
class TokenSums:
    """Sums over the requests of a conversation, in tokens."""

    first_prompt: int
    computed: int
    largest: int
    output: int
    reasoning: int

    @property
    def reasoning_percent(self) -> float | None:
        """Reasoning as a share of all output, in percent; None without output."""
        if self.output:
            return 100 * self.reasoning / self.output
        return None


async def measure_prompt_tokens(bot_names: tuple[BotName, ...], folder: Path, turns: int) -> list[FigureRow]:
    """One conversation of `turns` turns a bot, and the first prompt of ours with eleven tools."""
    make_endpoint = partial(ScriptedEndpoint, brain=workload.ProseBrain(), profile=_THINKS_BY_DEFAULT)
    async with open_stages(bot_names, folder, make_endpoint) as stages:
        async with asyncio.TaskGroup() as tasks:
            conversation_tasks = {
                name: tasks.create_task(_converse(stage, turns)) for name, stage in stages.items()
            }
        sums_by_bot = {name: task.result() for name, task in conversation_tasks.items()}
    with_tools, without_tools = await measure_first_prompt()
    first: dict[BotName, FigureValue] = {name: sums.first_prompt for name, sums in sums_by_bot.items()}
    tool_tokens: dict[BotName, FigureValue] = dict.fromkeys(sums_by_bot, 0)
    if "ours" in sums_by_bot:
        first["ours"] = with_tools
        tool_tokens["ours"] = with_tools - without_tools
    return [
        FigureRow(
            "first_prompt",
            "first prompt, eleven tools",
            "tokens",
            first,
            limit_to(MAX_FIRST_PROMPT_TOKENS),
            digits=0,
        ),
        FigureRow("first_tools", "of it tools", "tokens", tool_tokens, digits=0),
        *build_rows(sums_by_bot, turns),
    ]


def build_rows(sums_by_bot: dict[BotName, TokenSums], turns: int) -> list[FigureRow]:
    """The figures of a conversation."""
    computed: dict[BotName, FigureValue] = {name: sums.computed / 1000 for name, sums in sums_by_bot.items()}
    largest: dict[BotName, FigureValue] = {name: sums.largest for name, sums in sums_by_bot.items()}
    share: dict[BotName, FigureValue] = {name: sums.reasoning_percent for name, sums in sums_by_bot.items()}
    return [
        FigureRow(
            "prefill",
            f"{turns} turns: prefill computed",
            "thousand tokens",
            computed,
            limit_to(MAX_PREFILL_THOUSANDS),
        ),
        FigureRow(
            "largest",
            f"{turns} turns: largest prompt",
            "tokens",
            largest,
            limit_to(MAX_PROMPT_TOKENS),
            digits=0,
        ),
        FigureRow(
            "reasoning", f"{turns} turns: reasoning share of output", "%", share, limit_to(0), digits=0
        ),
    ]


def sum_requests(requests: Sequence[RequestRecord], *, thought_tokens: int) -> TokenSums:
    """Sums of the endpoint's log; a request with thinking has `thought_tokens` reasoning tokens."""
    return TokenSums(
        first_prompt=requests[0].prompt_tokens,
        computed=sum(request.prompt_tokens - request.cached_tokens for request in requests),
        largest=max(request.prompt_tokens for request in requests),
        output=sum(request.completion_tokens for request in requests),
        reasoning=sum(thought_tokens for request in requests if request.thinking),
    )


async def measure_first_prompt() -> tuple[int, int]:
    """Tokens of the first prompt as the gateway sends it: with eleven tools, samples included, and none."""
    shipped = list(discover())
    eleven_tools = [*shipped, *SAMPLE_TOOLS][: max(TOOL_COUNT, len(shipped))]
    endpoint = ScriptedEndpoint(brain=workload.ProseBrain())
    async with serve(endpoint.app) as url:
        llm = ModelClient(f"{url}/v1", None, SeatLimiter(1))
        for tools in (eleven_tools, []):
            await llm.call(_build_request(tools), lambda text: None, lambda: None)
        await llm.close()
    with_tools, without_tools = (log.prompt_tokens for log in endpoint.requests)
    return with_tools, without_tools


def _build_request(tools: Sequence[Tool]) -> ModelRequest:
    question = Message("user", format_timestamp(datetime.now(UTC)) + _FIRST_QUESTION)
    prompt = build_prompt(SYSTEM_PROMPT, (), (question,))
    definitions = Toolbox(tools).definitions
    return ModelRequest(
        prompt, definitions, "auto", thinking=False, max_tokens=256, session="bench", lane="bench"
    )


async def _converse(stage: Stage, turns: int) -> TokenSums:
    """A person writes again as soon as the model has answered, whatever the chat's pace of messages."""
    for number in range(turns):
        stage.write_question(number, chat_index=0)
        await stage.endpoint.wait_until(partial(_has_finished, stage, number + 1), timeout=PATIENCE_SECONDS)
        await asyncio.sleep(_PAUSE_SECONDS)
    return sum_requests(stage.endpoint.requests, thought_tokens=workload.ProseBrain().thought_tokens)


def _has_finished(stage: Stage, count: int) -> bool:
    return sum(log.finished_at is not None for log in stage.endpoint.requests) >= count
