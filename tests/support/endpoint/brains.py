"""Brains for tests: one does what a message asks for, the other gives the replies it was made with. Pure."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from bot.sim.vllm.script import Brain, ChatRequest, format_thought, format_tool_call, message_text
from tests.support.endpoint.plain_requests import answer_plain_request

Json = Mapping[str, Any]

_SCRIPT_PIECE = re.compile(
    r"@@(say|tool|tools|think|b64|repeat|loop|slow|empty|crash)(?::(.*?))?@@", re.DOTALL
)
_QUOTE = '<|"|>'
_MAX_TOKEN_CHARACTERS = 7
_DEFAULT_THOUGHT = "Let me think about it."


class ScriptedReply(str):
    """Raw text, with seconds added to every canvas, and whether it crashes the engine."""

    __slots__ = ("canvas_delay", "crashes_engine")

    canvas_delay: float
    crashes_engine: bool

    def __new__(cls, text: str, canvas_delay: float = 0.0, *, crashes_engine: bool = False) -> Self:
        """A reply of this text."""
        reply = super().__new__(cls, text)
        reply.canvas_delay = canvas_delay
        reply.crashes_engine = crashes_engine
        return reply


def reply_with(*replies: str) -> Brain:
    """A brain that gives one reply for each request, in this order, and repeats the last."""
    remaining = list(replies)

    def brain(_: ChatRequest) -> str:
        if len(remaining) > 1:
            return remaining.pop(0)
        return remaining[0]

    return brain


@dataclass(slots=True)
class _ScriptStep:
    name: str
    argument: str
    thought_text: str | None = None


@dataclass(slots=True)
class _Script:
    steps: list[_ScriptStep] = field(default_factory=list)
    canvas_delay: float = 0.0


def scripted_brain(request: ChatRequest) -> ScriptedReply:
    """Write what `@@name:argument@@` pieces of the newest user message that has any ask for.

    Without any, do what it asks for plainly (`plain_requests`), else echo it.

    say:TEXT · tool:NAME {JSON} · tools:[{"name":..,"arguments":{..}},..] · think:TEXT (before the next step)
    · b64:BASE64 (raw, control tokens spelled out) · repeat:N TEXT · loop:TEXT (until max_tokens) · slow:MS
    (milliseconds added to every canvas) · empty · crash. Step k is used after k rounds of tool calls, the
    last one again and again. A message left open is continued where it stopped: the part of the text that it
    already has is not written again.
    """
    script = next(
        (script for text in reversed(request.user_texts) if (script := _parse_script(text)).steps), None
    )
    if script is None:
        delay = max((_parse_script(text).canvas_delay for text in request.user_texts), default=0.0)
        return ScriptedReply(
            _remaining_text(_prepend_thought(_answer_plainly(request), None, request), request), delay
        )
    step = script.steps[min(request.step, len(script.steps) - 1)]
    text = _STEP_WRITERS[step.name](step.argument, request)
    if step.name not in ("b64", "empty", "crash") or step.thought_text is not None:
        text = _prepend_thought(text, step.thought_text, request)
    return ScriptedReply(
        _remaining_text(text, request), script.canvas_delay, crashes_engine=step.name == "crash"
    )


def _parse_script(text: str) -> _Script:
    script = _Script()
    waiting: str | None = None
    for name, argument in _SCRIPT_PIECE.findall(text):
        if name == "slow":
            script.canvas_delay = float(argument) / 1000
        elif name == "think":
            waiting = argument
        else:
            script.steps.append(_ScriptStep(name, argument, waiting))
            waiting = None
    return script


def _prepend_thought(text: str, thought_text: str | None, request: ChatRequest) -> str:
    if request.open_text:
        return text  # it was thought before the message began
    thought_text = _DEFAULT_THOUGHT if thought_text is None and request.thinking else thought_text
    if thought_text is None:
        return text
    return format_thought(thought_text, request) + text


def _remaining_text(text: str, request: ChatRequest) -> str:
    """The part of `text` still to write; all of it where the message left open says something else."""
    if request.open_text:
        return text.lstrip().removeprefix(request.open_text)
    return text


def _answer_plainly(request: ChatRequest) -> str:
    """The answer to the newest plain request in the user texts; else an echo."""
    has_results = any(message["role"] == "tool" for message in request.round_messages)
    for user_text in reversed(request.user_texts):
        answer = answer_plain_request(user_text, request.tools, has_tool_results=has_results)
        if answer is not None:
            if isinstance(answer, str):
                return answer
            return "".join(format_tool_call(*call) for call in answer)
    return _echo(request)


def _echo(request: ChatRequest) -> str:
    results = [message for message in request.round_messages if message["role"] == "tool"]
    if not results:
        newest_text = request.user_texts[-1] if request.user_texts else ""
        return f"echo: {newest_text}"
    names = {call.get("id"): call["function"]["name"] for call in _tool_calls(request.round_messages)}
    name = names.get(results[-1].get("tool_call_id"), "unknown")
    return f"tool said: response:{name}{{value:{_QUOTE}{message_text(results[-1])}{_QUOTE}}}"


def _tool_calls(messages: Sequence[Json]) -> Iterator[Json]:
    return (call for message in messages for call in message.get("tool_calls") or ())


def _write_call(argument: str, _: ChatRequest) -> str:
    name, _blank, arguments = argument.partition(" ")
    return format_tool_call(name, json.loads(arguments or "{}"))


def _write_calls(argument: str, _: ChatRequest) -> str:
    return "".join(
        format_tool_call(call["name"], call.get("arguments") or {}) for call in json.loads(argument)
    )


def _write_repeated(argument: str, _: ChatRequest) -> str:
    times, _blank, text = argument.partition(" ")
    return text * int(times)


def _write_loop(argument: str, request: ChatRequest) -> str:
    word = argument or "again "
    once = -(-_MAX_TOKEN_CHARACTERS // len(word))  # repetitions that are a token at least
    return word * (once * (request.max_tokens + 1) + len(request.open_text))


_STEP_WRITERS: Mapping[str, Callable[[str, ChatRequest], str]] = {
    "say": lambda argument, _: argument,
    "tool": _write_call,
    "tools": _write_calls,
    "b64": lambda argument, _: base64.b64decode(argument).decode(),
    "repeat": _write_repeated,
    "loop": _write_loop,
    "empty": lambda *_: "",
    "crash": lambda *_: "",
}
