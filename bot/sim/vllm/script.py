"""What the simulated model says: the request a brain sees, and the brains for tests.

Pure. A brain is any callable from a `ChatRequest` to raw Gemma text, or to a `Reply` with a delay or a crash.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.sim.vllm.plain_requests import obeyed

Json = Mapping[str, Any]

_PIECE = re.compile(r"@@(say|tool|tools|think|b64|repeat|loop|slow|empty|crash)(?::(.*?))?@@", re.DOTALL)
_QUOTE = '<|"|>'
_LONGEST_TOKEN = 7
_DEFAULT_THOUGHT = "Let me think about it."


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What the model is asked: the messages and tools as sent, and the rendered prompt it really sees.

    `continuing`: the last message is left open, and the model goes on in the middle of it.
    """

    messages: Sequence[Json]
    tools: Sequence[Json]
    thinking: bool
    prompt: str
    max_tokens: int
    body: dict[str, Any]
    continuing: bool = False

    @property
    def so_far(self) -> str:
        """The text of the message left open, as the prompt has it: without blanks around it."""
        if self.continuing:
            return text_of(self.messages[-1]).strip()
        return ""

    @property
    def inside_thought(self) -> bool:
        """Whether the prompt ends in an open thought channel, as it does after a tool result with thinking
        on.
        """
        return self.prompt.endswith("<|channel>thought\n")

    @property
    def asked(self) -> Sequence[str]:
        """The texts of the user messages since the last answer, oldest first."""
        texts: list[str] = []
        for message in reversed(self.messages):
            if message["role"] == "user":
                texts.append(text_of(message))
            elif texts:
                break
        return texts[::-1]

    @property
    def rounds(self) -> Sequence[Json]:
        """The messages since the last user message: calls and their results."""
        last = max((n for n, message in enumerate(self.messages) if message["role"] == "user"), default=-1)
        return self.messages[last + 1 :]

    @property
    def step(self) -> int:
        """How many rounds of tool calls there were since the last user message."""
        return sum(bool(message.get("tool_calls")) for message in self.rounds)


@dataclass(frozen=True, slots=True)
class Reply:
    """Raw text, seconds added to every canvas, and whether the engine dies of it."""

    text: str
    delay: float = 0.0
    crash: bool = False


Brain = Callable[[ChatRequest], str | Reply]


def text_of(message: Json) -> str:
    """The text of a message, its parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def call_text(name: str, arguments: Json) -> str:
    """A tool call as the model writes it, keys in the order given."""
    pairs = ",".join(f"{key}:{_argument(value)}" for key, value in arguments.items())
    return f"<|tool_call>call:{name}{{{pairs}}}<tool_call|>"


def thought(text: str, request: ChatRequest) -> str:
    """A thought as the model writes it: without the opener where the prompt has opened the channel already."""
    return ("" if request.inside_thought else "<|channel>thought\n") + f"{text}\n<channel|>"


def said(*replies: str | Reply) -> Brain:
    """A brain that gives one reply a request, in this order, and repeats the last."""
    left = list(replies)

    def brain(_: ChatRequest) -> str | Reply:
        if len(left) > 1:
            return left.pop(0)
        return left[0]

    return brain


@dataclass(slots=True)
class _Step:
    name: str
    argument: str
    thought: str | None = None


@dataclass(slots=True)
class _Script:
    steps: list[_Step] = field(default_factory=list)
    delay: float = 0.0


def scripted(request: ChatRequest) -> Reply:
    """Write what `@@name:argument@@` pieces of the newest user message that has any ask for; without any, do
    what it asks plainly (`endpoint_obeying`), else echo it.

    say:TEXT · tool:NAME {JSON} · tools:[{"name":..,"arguments":{..}},..] · think:TEXT (before the next step)
    · b64:BASE64 (raw, control tokens spelled out) · repeat:N TEXT · loop:TEXT (until max_tokens) · slow:MS
    (milliseconds added to every canvas) · empty · crash. Step k is used after k rounds of tool calls, the
    last one again and again. A message left open goes on where it stopped: what it has of the text is not
    written again.
    """
    script = next((found for text in reversed(request.asked) if (found := _read(text)).steps), None)
    if script is None:
        delay = max((_read(text).delay for text in request.asked), default=0.0)
        return Reply(_rest(_with_thought(_plainly(request), None, request), request), delay)
    step = script.steps[min(request.step, len(script.steps) - 1)]
    text = _WRITE[step.name](step.argument, request)
    if step.name not in ("b64", "empty", "crash") or step.thought is not None:
        text = _with_thought(text, step.thought, request)
    return Reply(_rest(text, request), script.delay, crash=step.name == "crash")


def _read(text: str) -> _Script:
    script = _Script()
    waiting: str | None = None
    for name, argument in _PIECE.findall(text):
        if name == "slow":
            script.delay = float(argument) / 1000
        elif name == "think":
            waiting = argument
        else:
            script.steps.append(_Step(name, argument, waiting))
            waiting = None
    return script


def _with_thought(text: str, wanted: str | None, request: ChatRequest) -> str:
    if request.so_far:
        return text  # it was thought before the message began
    wanted = _DEFAULT_THOUGHT if wanted is None and request.thinking else wanted
    if wanted is None:
        return text
    return thought(wanted, request) + text


def _rest(text: str, request: ChatRequest) -> str:
    """What is left to write of `text`; all of it where the message left open says something else."""
    if request.so_far:
        return text.lstrip().removeprefix(request.so_far)
    return text


def _plainly(request: ChatRequest) -> str:
    """What is asked in plain words, the newest first; else an echo."""
    told = any(message["role"] == "tool" for message in request.rounds)
    for asked in reversed(request.asked):
        wanted = obeyed(asked, request.tools, told=told)
        if wanted is not None:
            if isinstance(wanted, str):
                return wanted
            return "".join(call_text(*call) for call in wanted)
    return _echo(request)


def _echo(request: ChatRequest) -> str:
    results = [message for message in request.rounds if message["role"] == "tool"]
    if not results:
        return f"echo: {request.asked[-1] if request.asked else ''}"
    names = {call.get("id"): call["function"]["name"] for call in _calls(request.rounds)}
    name = names.get(results[-1].get("tool_call_id"), "unknown")
    return f"tool said: response:{name}{{value:{_QUOTE}{text_of(results[-1])}{_QUOTE}}}"


def _calls(messages: Sequence[Json]) -> Iterator[Json]:
    return (call for message in messages for call in message.get("tool_calls") or ())


def _one_call(argument: str, _: ChatRequest) -> str:
    name, _blank, arguments = argument.partition(" ")
    return call_text(name, json.loads(arguments or "{}"))


def _many_calls(argument: str, _: ChatRequest) -> str:
    return "".join(call_text(call["name"], call.get("arguments") or {}) for call in json.loads(argument))


def _repeat(argument: str, _: ChatRequest) -> str:
    times, _blank, text = argument.partition(" ")
    return text * int(times)


def _loop(argument: str, request: ChatRequest) -> str:
    word = argument or "again "
    once = -(-_LONGEST_TOKEN // len(word))  # repetitions that are a token at least
    return word * (once * (request.max_tokens + 1) + len(request.so_far))


_WRITE: Mapping[str, Callable[[str, ChatRequest], str]] = {
    "say": lambda argument, _: argument,
    "tool": _one_call,
    "tools": _many_calls,
    "b64": lambda argument, _: base64.b64decode(argument).decode(),
    "repeat": _repeat,
    "loop": _loop,
    "empty": lambda *_: "",
    "crash": lambda *_: "",
}


def _argument(value: object) -> str:
    if isinstance(value, str):
        return f"{_QUOTE}{value}{_QUOTE}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_argument(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_argument(item) for item in value) + "]"
    return json.dumps(value)
