"""The cost of a thinking policy: a scripted mix of turns, run by the gateway's loop on a simulated endpoint.

The model's part is scripted: it calls the tools of the script, and thinks a fixed number of tokens a call
when thinking is on.
"""

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil

from bot.agent import loop
from bot.agent.events import CallModel, TurnLimits, TurnResult
from bot.agent.prompt import build_prompt
from bot.agent.thinking_policy import ThinkingDecision, ThinkingEvidence, decide_thinking
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.agent.toolbox import Toolbox
from bot.bench.harness.sample_tools import discover_with_samples
from bot.bench.harness.workload import write_prose
from bot.domain import CANVAS_TOKENS, Message, ModelRequest, ToolResult
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.settings import SYSTEM_PROMPT
from bot.sim.vllm.server import ChatRequest, SimulatedEndpoint, format_thought, format_tool_call

THOUGHT_TOKENS = 600  # of one thought: between two and three canvases
LOOP_LIMITS = TurnLimits(max_steps=8, max_tokens=4096)
RESULT_TOKENS = 60  # of a tool's result

_TURN_NUMBER = re.compile(r"\(turn (\d+)\)")

Policy = Callable[[ThinkingDecision], bool]


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One turn: the person's message, the tools the model calls one after the other, the answer's tokens.

    `is_heavy`: whether this is work that thinking is for.
    """

    text: str
    calls: tuple[tuple[str, Mapping[str, object]], ...] = ()
    answer_tokens: int = 80
    is_heavy: bool = False


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """Sums of one policy over the mix.

    `turns` thought, and `useful` of them were heavy; `switches` changed the lineage of the prefix cache.
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


@dataclass(slots=True)
class _ChatState:
    """The conversation so far, and what a decision needs to know of its last turn."""

    turns: list[tuple[Message, ...]] = field(default_factory=list)
    recent_tools: tuple[str, ...] = ()
    has_thought: bool = False


_CLOCK_CALL = ("clock", {"zone": "Asia/Tokyo"})
_SEARCH_CALL = ("search_web", {"query": "papers"})
_REMIND_CALL = ("remind_me", {"when": "2026-11-21T09:00Z", "text": "read"})
_ISSUE_CALL = ("create_issue", {"project": "acme/site", "title": "Search is slow", "body": "See above."})
_FETCH_CALL = ("fetch_page", {"url": "https://example.org/a"})
_CURRENCY_CALL = ("convert_currency", {"amount": 120, "source": "EUR", "target": "JPY"})
_CALCULATE_CALL = ("calculate", {"expression": "19% of 84.50"})
_WEATHER_CALL = ("weather", {"place": "Lisbon"})
_REMEMBER_CALL = ("remember", {"note": "Aisle seats."})

SCRIPTED_TURNS = (
    ScriptedTurn("Good morning! How are you?", answer_tokens=30),
    ScriptedTurn("What time is it in Tokyo?", (_CLOCK_CALL,), 20),
    ScriptedTurn("Why do cats purr?", answer_tokens=160),
    ScriptedTurn(
        "Search the web for papers on sleep, compare them and remind me tomorrow",
        (_SEARCH_CALL, _REMIND_CALL),
        300,
        True,
    ),
    ScriptedTurn("Thanks, that helps.", answer_tokens=20),
    ScriptedTurn("What is 19 % of 84.50?", (_CALCULATE_CALL,), 20),
    ScriptedTurn("Write a limerick about rain.", answer_tokens=60),
    ScriptedTurn("Convert 120 EUR to JPY", (_CURRENCY_CALL,), 25),
    ScriptedTurn("Do you think people were happier without phones?", answer_tokens=200),
    ScriptedTurn("What will the weather be like in Lisbon tomorrow?", (_WEATHER_CALL,), 60),
    ScriptedTurn(
        "Read https://example.org/a and then open an issue in acme/site about it",
        (_FETCH_CALL, _ISSUE_CALL),
        90,
        True,
    ),
    ScriptedTurn("Nice. Explain what a mutex is.", answer_tokens=220),
    ScriptedTurn("Please remember that I like aisle seats.", (_REMEMBER_CALL,), 20),
    ScriptedTurn("Tell me a story about a lighthouse keeper.", answer_tokens=320),
    ScriptedTurn(
        "Search for train fares to Porto, convert them to yen and remind me",
        (_SEARCH_CALL, _CURRENCY_CALL, _REMIND_CALL),
        180,
        True,
    ),
    ScriptedTurn("What is the difference between fog and mist?", answer_tokens=110),
    ScriptedTurn("What date is it today?", (_CLOCK_CALL,), 20),
    ScriptedTurn("You are funny.", answer_tokens=20),
    ScriptedTurn("What is 2^10 / 3?", (_CALCULATE_CALL,), 20),
    ScriptedTurn("I could not sleep last night.", answer_tokens=90),
)
POLICIES: Mapping[str, Policy] = {
    "always off": lambda decision: False,
    "ours": lambda decision: decision.thinking,
    "on with tools": lambda decision: bool(decision.tools),
    "always on": lambda decision: True,
}


async def measure(scripted_turns: tuple[ScriptedTurn, ...] = SCRIPTED_TURNS) -> list[PolicyCost]:
    """The same mix under each policy, each on an endpoint of its own that starts with an empty cache."""
    tools = {tool.name: tool for tool in discover_with_samples()}
    return [
        await _run_policy(name, policy, scripted_turns, Toolbox(tools.values()))
        for name, policy in POLICIES.items()
    ]


async def _run_policy(
    name: str, policy: Policy, scripted_turns: tuple[ScriptedTurn, ...], toolbox: Toolbox
) -> PolicyCost:
    endpoint = SimulatedEndpoint(brain=_ScriptedBrain(scripted_turns))
    chat = _ChatState()
    tool_index = build_index(toolbox.tools.values())
    thinking: list[bool] = []
    async with serve(endpoint.app) as url:
        llm = ModelClient(f"{url}/v1", None, SeatLimiter(1))
        for number, turn in enumerate(scripted_turns):
            thinking.append(policy(_decide(turn, chat, tool_index)))
            message = Message("user", f"{turn.text} (turn {number})")
            await _run_turn(llm, toolbox, chat, message, thinking[-1])
        await llm.close()
    log = endpoint.requests
    return PolicyCost(
        policy=name,
        canvases=sum(ceil(record.completion_tokens / CANVAS_TOKENS) for record in log),
        computed=sum(record.prompt_tokens - record.cached_tokens for record in log),
        prompt=sum(record.prompt_tokens for record in log),
        calls=len(log),
        turns=sum(thinking),
        useful=sum(
            turn.is_heavy and is_thinking for turn, is_thinking in zip(scripted_turns, thinking, strict=True)
        ),
        heavy=sum(turn.is_heavy for turn in scripted_turns),
        switches=sum(previous != current for previous, current in itertools.pairwise(thinking)),
    )


def _decide(turn: ScriptedTurn, chat: _ChatState, tool_index: ToolIndex) -> ThinkingDecision:
    evidence = ThinkingEvidence(recent_tools=chat.recent_tools, was_thinking=chat.has_thought)
    return decide_thinking([turn.text], tool_index, evidence)


async def _run_turn(
    model_client: ModelClient, toolbox: Toolbox, chat: _ChatState, user: Message, thinking: bool
) -> None:
    prompt = build_prompt(SYSTEM_PROMPT, chat.turns, (user,))
    run = loop.run_turn(prompt, toolbox.tools, LOOP_LIMITS, thinking)
    event = next(run)
    messages: list[Message] = [*event.new_messages]
    used_tools: list[str] = []
    while not isinstance(event, TurnResult):
        if isinstance(event, CallModel):
            request_fields = (
                event.messages,
                toolbox.definitions,
                event.tool_choice,
                event.thinking,
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
    chat.has_thought = thinking


@dataclass(frozen=True, slots=True)
class _ScriptedBrain:
    """Plays the model's part of a mix; finds the turn by the number at the end of the newest message."""

    scripted_turns: tuple[ScriptedTurn, ...]

    def __call__(self, request: ChatRequest) -> str:
        turn = self.scripted_turns[int(_TURN_NUMBER.findall(request.user_texts[-1])[-1])]
        thought = ""
        if request.thinking:
            thought = format_thought(write_prose(THOUGHT_TOKENS, request.step), request)
        if request.step < len(turn.calls):
            name, arguments = turn.calls[request.step]
            return thought + format_tool_call(name, json.loads(json.dumps(arguments)))
        return thought + write_prose(turn.answer_tokens, 3).strip()
