"""What a thinking policy costs: a scripted mix of turns, played by the gateway's own loop before a simulated
endpoint.

The model's part is scripted: it calls the tools of the script, and thinks as many tokens a call if it is told
to.
"""

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil

from bot.agent import loop
from bot.agent import prompt as prompting
from bot.agent.events import CallModel, TurnLimits, TurnResult
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

THOUGHT_TOKENS = 600  # tokens of one thought: between two and three canvases
LOOP_LIMITS = TurnLimits(max_steps=8, max_tokens=4096)
RESULT_TOKENS = 60  # tokens of a tool's result

_TURN_NUMBER = re.compile(r"\(turn (\d+)\)")

Policy = Callable[[ThinkingDecision], bool]


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One turn: what the person writes, the tools the model calls one after the other, the answer's tokens.

    `heavy`: whether this is work that thinking is for.
    """

    text: str
    calls: tuple[tuple[str, Mapping[str, object]], ...] = ()
    answer_tokens: int = 80
    is_heavy: bool = False


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """Sums of one policy over the mix. `turns` thought; of them `useful` were heavy; `switches` changed the
    lineage.
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
    """The same mix under each policy, each before an endpoint of its own that begins with an empty cache."""
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
    offer = build_index(toolbox.tools.values())
    thinking: list[bool] = []
    async with serve(endpoint.app) as url:
        llm = ModelClient(f"{url}/v1", None, SeatLimiter(1))
        for number, scene in enumerate(scripted_turns):
            thinking.append(policy(_decide(scene, chat, offer)))
            await _run_turn(
                llm, toolbox, chat, Message("user", f"{scene.text} (turn {number})"), thinking[-1]
            )
        await llm.close()
    log = endpoint.requests
    return PolicyCost(
        policy=name,
        canvases=sum(ceil(one.completion_tokens / CANVAS_TOKENS) for one in log),
        computed=sum(one.prompt_tokens - one.cached_tokens for one in log),
        prompt=sum(one.prompt_tokens for one in log),
        calls=len(log),
        turns=sum(thinking),
        useful=sum(scene.is_heavy and thinks for scene, thinks in zip(scripted_turns, thinking, strict=True)),
        heavy=sum(scene.is_heavy for scene in scripted_turns),
        switches=sum(before != after for before, after in itertools.pairwise(thinking)),
    )


def _decide(turn: ScriptedTurn, chat: _ChatState, tool_index: ToolIndex) -> ThinkingDecision:
    return decide_thinking(
        [turn.text],
        tool_index,
        ThinkingEvidence(recent_tools=chat.recent_tools, was_thinking=chat.has_thought),
    )


async def _run_turn(
    model_client: ModelClient, toolbox: Toolbox, chat: _ChatState, user: Message, thinking: bool
) -> None:
    prompt = prompting.build_prompt(SYSTEM_PROMPT, chat.turns, (user,))
    playing = loop.run_turn(prompt, toolbox.tools, LOOP_LIMITS, thinking)
    event = next(playing)
    said: list[Message] = [*event.new_messages]
    used: list[str] = []
    while not isinstance(event, TurnResult):
        if isinstance(event, CallModel):
            asked = (event.messages, toolbox.definitions, event.tool_choice, event.thinking, event.max_tokens)
            request = ModelRequest(*asked, session="bench", lane="bench")
            event = playing.send(await model_client.call(request, lambda text: None, lambda: None))
        else:
            used += [wanted.call.name for wanted in event.calls]
            event = playing.send(
                tuple(ToolResult(one.call, write_prose(RESULT_TOKENS, 7), "ok") for one in event.calls)
            )
        said += event.new_messages
    chat.turns.append((user, *said))
    chat.recent_tools = tuple(used)
    chat.has_thought = thinking


@dataclass(frozen=True, slots=True)
class _ScriptedBrain:
    """Plays the model's part of a mix; finds its place by the number at the end of the newest message."""

    scripted_turns: tuple[ScriptedTurn, ...]

    def __call__(self, request: ChatRequest) -> str:
        scene = self.scripted_turns[int(_TURN_NUMBER.findall(request.user_texts[-1])[-1])]
        if request.thinking:
            before = format_thought(write_prose(THOUGHT_TOKENS, request.step), request)
        else:
            before = ""
        if request.step < len(scene.calls):
            name, arguments = scene.calls[request.step]
            return before + format_tool_call(name, json.loads(json.dumps(arguments)))
        return before + write_prose(scene.answer_tokens, 3).strip()
