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
from bot.agent.events import CallModel, Finished, Limits
from bot.agent.thinking_policy import Decision, Evidence, decide
from bot.agent.tool_matching.index import Offer, index
from bot.agent.toolbox import Toolbox
from bot.bench.harness.sample_tools import with_stand_ins
from bot.bench.harness.workload import prose
from bot.domain import CANVAS, Message, ModelRequest, ToolResult
from bot.http_server import serve
from bot.llm.client import Llm
from bot.llm.seats import Seats
from bot.settings import SYSTEM_PROMPT
from bot.sim.vllm.server import ChatRequest, Endpoint, call_text, thought

THOUGHT = 600  # tokens of one thought: between two and three canvases
LIMITS = Limits(steps=8, max_tokens=4096)
RESULT = 60  # tokens of a tool's result

_NUMBER = re.compile(r"\(turn (\d+)\)")

Policy = Callable[[Decision], bool]


@dataclass(frozen=True, slots=True)
class Scene:
    """One turn: what the person writes, the tools the model calls one after the other, the answer's tokens.

    `heavy`: whether this is work that thinking is for.
    """

    text: str
    calls: tuple[tuple[str, Mapping[str, object]], ...] = ()
    answer: int = 80
    heavy: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
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
class _Chat:
    """The conversation so far, and what a decision needs to know of its last turn."""

    turns: list[tuple[Message, ...]] = field(default_factory=list)
    recent: tuple[str, ...] = ()
    thought: bool = False


_TOKYO = ("clock", {"zone": "Asia/Tokyo"})
_SEARCH = ("search_web", {"query": "papers"})
_REMIND = ("remind_me", {"when": "2026-11-21T09:00Z", "text": "read"})
_ISSUE = ("create_issue", {"project": "acme/site", "title": "Search is slow", "body": "See above."})
_PAGE = ("fetch_page", {"url": "https://example.org/a"})
_YEN = ("convert_currency", {"amount": 120, "source": "EUR", "target": "JPY"})
_SUM = ("calculate", {"expression": "19% of 84.50"})
_SKY = ("weather", {"place": "Lisbon"})
_KEEP = ("remember", {"note": "Aisle seats."})

MIX = (
    Scene("Good morning! How are you?", answer=30),
    Scene("What time is it in Tokyo?", (_TOKYO,), 20),
    Scene("Why do cats purr?", answer=160),
    Scene(
        "Search the web for papers on sleep, compare them and remind me tomorrow",
        (_SEARCH, _REMIND),
        300,
        True,
    ),
    Scene("Thanks, that helps.", answer=20),
    Scene("What is 19 % of 84.50?", (_SUM,), 20),
    Scene("Write a limerick about rain.", answer=60),
    Scene("Convert 120 EUR to JPY", (_YEN,), 25),
    Scene("Do you think people were happier without phones?", answer=200),
    Scene("What will the weather be like in Lisbon tomorrow?", (_SKY,), 60),
    Scene(
        "Read https://example.org/a and then open an issue in acme/site about it", (_PAGE, _ISSUE), 90, True
    ),
    Scene("Nice. Explain what a mutex is.", answer=220),
    Scene("Please remember that I like aisle seats.", (_KEEP,), 20),
    Scene("Tell me a story about a lighthouse keeper.", answer=320),
    Scene(
        "Search for train fares to Porto, convert them to yen and remind me",
        (_SEARCH, _YEN, _REMIND),
        180,
        True,
    ),
    Scene("What is the difference between fog and mist?", answer=110),
    Scene("What date is it today?", (_TOKYO,), 20),
    Scene("You are funny.", answer=20),
    Scene("What is 2^10 / 3?", (_SUM,), 20),
    Scene("I could not sleep last night.", answer=90),
)
POLICIES: Mapping[str, Policy] = {
    "always off": lambda decision: False,
    "ours": lambda decision: decision.thinking,
    "on with tools": lambda decision: bool(decision.tools),
    "always on": lambda decision: True,
}


async def measure(mix: tuple[Scene, ...] = MIX) -> list[Cost]:
    """The same mix under each policy, each before an endpoint of its own that begins with an empty cache."""
    tools = {tool.name: tool for tool in with_stand_ins()}
    return [await _played(name, policy, mix, Toolbox(tools.values())) for name, policy in POLICIES.items()]


async def _played(name: str, policy: Policy, mix: tuple[Scene, ...], box: Toolbox) -> Cost:
    endpoint = Endpoint(brain=_Model(mix))
    chat = _Chat()
    offer = index(box.tools.values())
    thinking: list[bool] = []
    async with serve(endpoint.app) as url:
        llm = Llm(f"{url}/v1", None, Seats(1))
        for number, scene in enumerate(mix):
            thinking.append(policy(_decision(scene, chat, offer)))
            await _turn(llm, box, chat, Message("user", f"{scene.text} (turn {number})"), thinking[-1])
        await llm.close()
    log = endpoint.requests
    return Cost(
        policy=name,
        canvases=sum(ceil(one.completion_tokens / CANVAS) for one in log),
        computed=sum(one.prompt_tokens - one.cached_tokens for one in log),
        prompt=sum(one.prompt_tokens for one in log),
        calls=len(log),
        turns=sum(thinking),
        useful=sum(scene.heavy and thinks for scene, thinks in zip(mix, thinking, strict=True)),
        heavy=sum(scene.heavy for scene in mix),
        switches=sum(before != after for before, after in itertools.pairwise(thinking)),
    )


def _decision(scene: Scene, chat: _Chat, offer: Offer) -> Decision:
    return decide([scene.text], offer, Evidence(recent=chat.recent, thought=chat.thought))


async def _turn(llm: Llm, box: Toolbox, chat: _Chat, user: Message, thinking: bool) -> None:
    prompt = prompting.build(SYSTEM_PROMPT, chat.turns, (user,))
    playing = loop.play(prompt, box.tools, LIMITS, thinking)
    event = next(playing)
    said: list[Message] = [*event.said]
    used: list[str] = []
    while not isinstance(event, Finished):
        if isinstance(event, CallModel):
            asked = (event.messages, box.definitions, event.tool_choice, event.thinking, event.max_tokens)
            request = ModelRequest(*asked, session="bench", lane="bench")
            event = playing.send(await llm.call(request, lambda text: None, lambda: None))
        else:
            used += [wanted.call.name for wanted in event.calls]
            event = playing.send(tuple(ToolResult(one.call, prose(RESULT, 7), "ok") for one in event.calls))
        said += event.said
    chat.turns.append((user, *said))
    chat.recent = tuple(used)
    chat.thought = thinking


@dataclass(frozen=True, slots=True)
class _Model:
    """Plays the model's part of a mix; finds its place by the number at the end of the newest message."""

    mix: tuple[Scene, ...]

    def __call__(self, request: ChatRequest) -> str:
        scene = self.mix[int(_NUMBER.findall(request.asked[-1])[-1])]
        if request.thinking:
            before = thought(prose(THOUGHT, request.step), request)
        else:
            before = ""
        if request.step < len(scene.calls):
            name, arguments = scene.calls[request.step]
            return before + call_text(name, json.loads(json.dumps(arguments)))
        return before + prose(scene.answer, 3).strip()
