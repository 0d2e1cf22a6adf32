"""The cost of a thinking policy: a scripted mix of turns, run by the gateway's loop on a simulated endpoint.

The model's part is scripted: it calls the tools of the script, and thinks a fixed number of tokens a call
when thinking is on. Seconds are the simulator's, at the speed of a DGX Spark.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bot.agent import loop
from bot.agent.events import CallModel, TurnLimits, TurnResult
from bot.agent.prompt import build_prompt
from bot.agent.thinking_policy import ThinkingDecision, ThinkingEvidence, decide_thinking
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.bench.harness.prose import write_prose
from bot.bench.harness.sample_tools import discover_with_samples
from bot.canvases import count_canvases
from bot.domain import Message, ModelRequest, ToolResult
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.settings import SYSTEM_PROMPT
from bot.sim.vllm.profile import Timing
from bot.sim.vllm.request import RequestRecord
from bot.sim.vllm.server import COUNTING_RULE, ChatRequest, format_thought, format_tool_call
from bot.tables import Line, TextTable
from bot.tool_registry.toolbox import Toolbox
from tests.support.endpoint.server import ScriptedEndpoint

_COST_TITLES = (
    "policy",
    "thought",
    "canvases",
    "prefill computed",
    "prompt",
    "calls",
    "turns thinking",
    "heavy ones",
    "switches",
    "seconds",
    "pays from",
)
THOUGHT_LENGTHS = (150, 300, 600)  # tokens of one thought
LOOP_LIMITS = TurnLimits(max_steps=8, max_tokens=4096)
RESULT_TOKENS = 60  # of a tool's result

_TURN_NUMBER = re.compile(r"\(turn (\d+)\)")

TIMING = Timing.spark()
LATE_STEP = 3  # the first after two calls, of which the second may have used what the first found


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One turn: the person's message, the tools the model calls one after the other, the answer's tokens.

    `is_heavy`: whether this is work that thinking is for.
    """

    text: str
    calls: tuple[tuple[str, Mapping[str, object]], ...] = ()
    answer_tokens: int = 80
    is_heavy: bool = False


Policy = Callable[[ThinkingDecision, ScriptedTurn], int | None]
"""The step from which a turn thinks; None: it does not think."""


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """Sums of one policy over the mix.

    `turns` thought, and `useful` of them were heavy; `switches` changed the lineage of the prefix cache
    between turns. A thought takes `thought_tokens`, 0 if there is none.
    `pays_from`: it is cheaper than never thinking if it saves this share of the heavy turns from being asked
    again; None: nothing to compare with.
    """

    policy: str
    canvases: int
    computed: int
    prompt: int
    calls: int
    turns: int
    useful: int
    heavy: int
    switches: int
    thought_tokens: int
    seconds: float
    pays_from: float | None = None


@dataclass(slots=True)
class _ChatState:
    """The conversation so far, and what a decision needs to know of its last turn."""

    turns: list[tuple[Message, ...]] = field(default_factory=list)
    recent_tools: tuple[str, ...] = ()
    has_thought: bool = False


def _read_turns() -> Iterator[ScriptedTurn]:
    text = Path(__file__).with_name("scripted_turns.json").read_text(encoding="utf-8")
    for turn in json.loads(text):
        calls = tuple((name, arguments) for name, arguments in turn.pop("calls"))
        yield ScriptedTurn(calls=calls, **turn)


SCRIPTED_TURNS = tuple(_read_turns())
_COSTS_NOTE = (
    f"{len(SCRIPTED_TURNS)} scripted turns, one chat, ten tools; "
    f"seconds at {TIMING.canvas_time(0):.1f} s a canvas and "
    f"{TIMING.prefill_tokens_per_s:.0f} prompt tokens a second, as about a DGX Spark; "
    "the simulated model works as well without thinking, so answers are not judged: a policy pays if it "
    "saves at least the last column's share of the heavy turns from being asked again"
)


def _think_if(should_think: bool) -> int | None:
    return 1 if should_think else None


def _never(decision: ThinkingDecision, turn: ScriptedTurn) -> None:
    """Switch thinking off."""


POLICIES: Mapping[str, Policy] = {
    "ours": lambda decision, turn: _think_if(decision.thinking),
    "exactly the heavy ones": lambda decision, turn: _think_if(turn.is_heavy),
    "once it turned out heavy": lambda decision, turn: LATE_STEP if turn.is_heavy else None,
    "on with tools": lambda decision, turn: _think_if(bool(decision.tools)),
    "always on": lambda decision, turn: 1,
}


async def measure(
    scripted_turns: tuple[ScriptedTurn, ...] = SCRIPTED_TURNS,
    thought_lengths: Sequence[int] = THOUGHT_LENGTHS,
) -> list[PolicyCost]:
    """The same mix without thinking, and under each policy with thoughts of each length.

    Each run has an endpoint of its own that starts with an empty cache.
    """
    tools = {tool.name: tool for tool in discover_with_samples()}
    toolbox = Toolbox(tools.values())
    off, seconds_of_heavy_turns = await _run_policy("always off", _never, scripted_turns, 0, toolbox)
    costs = [off]
    for thought_tokens in thought_lengths:
        for name, policy in POLICIES.items():
            cost, _ = await _run_policy(name, policy, scripted_turns, thought_tokens, toolbox)
            if seconds_of_heavy_turns:
                cost = replace(cost, pays_from=(cost.seconds - off.seconds) / seconds_of_heavy_turns)
            costs.append(cost)
    return costs


async def _run_policy(
    name: str,
    policy: Policy,
    scripted_turns: tuple[ScriptedTurn, ...],
    thought_tokens: int,
    toolbox: Toolbox,
) -> tuple[PolicyCost, float]:
    """The costs, and the seconds of the heavy turns among them."""
    endpoint = ScriptedEndpoint(brain=_ScriptedBrain(scripted_turns, thought_tokens))
    chat = _ChatState()
    tool_index = build_index(toolbox.tools.values())
    thinking: list[bool] = []
    seconds: list[float] = []
    async with serve(endpoint.app) as url:
        llm = ModelClient(f"{url}/v1", None, SeatLimiter(1))
        for number, turn in enumerate(scripted_turns):
            first_step = policy(_decide(turn, chat, tool_index), turn)
            message = Message("user", f"{turn.text} (turn {number})")
            previous_calls = len(endpoint.requests)
            await _run_turn(llm, toolbox, chat, message, first_step)
            thinking.append(first_step is not None)
            seconds.append(sum(map(_estimate_seconds, endpoint.requests[previous_calls:])))
        await llm.close()
    log = endpoint.requests
    heavy_numbers = [number for number, turn in enumerate(scripted_turns) if turn.is_heavy]
    cost = PolicyCost(
        policy=name,
        canvases=sum(count_canvases(record.completion_tokens) for record in log),
        computed=sum(record.prompt_tokens - record.cached_tokens for record in log),
        prompt=sum(record.prompt_tokens for record in log),
        calls=len(log),
        turns=sum(thinking),
        useful=sum(thinking[number] for number in heavy_numbers),
        heavy=len(heavy_numbers),
        switches=sum(previous != current for previous, current in itertools.pairwise(thinking)),
        thought_tokens=thought_tokens,
        seconds=sum(seconds),
    )
    return cost, sum(seconds[number] for number in heavy_numbers)


def _estimate_seconds(record: RequestRecord) -> float:
    prefill_seconds = TIMING.prefill_seconds(record.prompt_tokens - record.cached_tokens)
    return prefill_seconds + count_canvases(record.completion_tokens) * TIMING.canvas_time(
        record.prompt_tokens
    )


def _decide(turn: ScriptedTurn, chat: _ChatState, tool_index: ToolIndex) -> ThinkingDecision:
    evidence = ThinkingEvidence(recent_tools=chat.recent_tools, was_thinking=chat.has_thought)
    return decide_thinking([turn.text], tool_index, evidence)


async def _run_turn(
    model_client: ModelClient, toolbox: Toolbox, chat: _ChatState, user: Message, first_step: int | None
) -> None:
    """`first_step`: the step from which it thinks; None: never."""
    prompt = build_prompt(SYSTEM_PROMPT, chat.turns, (user,))
    run = loop.run_turn(prompt, toolbox.tools, LOOP_LIMITS, first_step == 1)
    event = next(run)
    messages: list[Message] = [*event.new_messages]
    used_tools: list[str] = []
    while not isinstance(event, TurnResult):
        if isinstance(event, CallModel):
            request_fields = (
                event.messages,
                toolbox.definitions,
                event.tool_choice,
                first_step is not None and event.step >= first_step,
                event.max_tokens,
            )
            request = ModelRequest(*request_fields, session="bench", lane="bench")
            event = run.send(await model_client.call(request, lambda text: None, lambda: None))
        else:
            used_tools += [checked_call.call.name for checked_call in event.calls]
            event = run.send(
                tuple(ToolResult(call.call, write_prose(RESULT_TOKENS, 7), "ok") for call in event.calls)
            )
        messages += event.new_messages
    chat.turns.append((user, *messages))
    chat.recent_tools = tuple(used_tools)
    chat.has_thought = first_step is not None


@dataclass(frozen=True, slots=True)
class _ScriptedBrain:
    """Plays the model's part of a mix; finds the turn by the number at the end of the newest message."""

    scripted_turns: tuple[ScriptedTurn, ...]
    thought_tokens: int

    def __call__(self, request: ChatRequest) -> str:
        turn = self.scripted_turns[int(_TURN_NUMBER.findall(request.user_texts[-1])[-1])]
        thought = ""
        if request.thinking:
            thought = format_thought(write_prose(self.thought_tokens, request.step), request)
        if request.step < len(turn.calls):
            name, arguments = turn.calls[request.step]
            return thought + format_tool_call(name, json.loads(json.dumps(arguments)))
        return thought + write_prose(turn.answer_tokens, 3).strip()


def format_lines(costs: Iterable[PolicyCost]) -> Iterator[Line]:
    """A row for each policy and length of thoughts, and below them the conditions."""
    yield TextTable("", _COST_TITLES, [_format_cost(cost) for cost in costs])
    yield ""
    yield _COSTS_NOTE
    yield f"tokens: {COUNTING_RULE}"


def _format_cost(cost: PolicyCost) -> tuple[str, ...]:
    counts = (cost.thought_tokens, cost.canvases, cost.computed, cost.prompt, cost.calls, cost.turns)
    return (
        cost.policy,
        *(f"{count:,}" for count in counts),
        f"{cost.useful} of {cost.heavy}",
        str(cost.switches),
        f"{cost.seconds:.1f}",
        "-" if cost.pays_from is None else f"{100 * cost.pays_from:.1f} %",
    )
