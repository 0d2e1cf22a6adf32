"""Judges what the model sent and repairs what is surely meant, before anything runs or is shown. Pure.

The endpoint checks neither names nor arguments, cuts calls into valid JSON and lets markup through: that ends
here.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from bot.agent.leaked_calls import LeakedCall, find_leaked_calls, remove_calls, select_trailing_calls
from bot.agent.sanitize import strip_control_tokens, to_sendable
from bot.agent.tool_calls import CheckedCall, check_call, refuse_call, write_json
from bot.domain import Reply, ToolCall, ToolResult
from bot.translations.translator import translatable
from tools.base import Tool

MAX_CALLS = 16  # calls of one reply that are considered
CALL_ID_PATTERN = re.compile(r"[\w.:-]{1,64}", re.ASCII)
# Drawn as blanks, though Unicode calls them signs and letters.
INVISIBLE_LETTERS = "\u2800\u3164\u115f\u1160\uffa0"

CUT_AT_LENGTH = translatable("I've reached the limit for one answer.")
BROKEN_OFF = translatable("The answer was cut off here.")
REPEATED = translatable("I started to repeat myself, so I stopped here.")

_THOUGHT = re.compile(r"<\|channel>(?:thought\n)?(.*?)(?:<channel\|>|\Z)", re.DOTALL)
_RESPONSE = re.compile(r"<\|tool_response>.*?(?:<tool_response\|>|\Z)", re.DOTALL)
_CALL = re.compile(r"<\|tool_call>.*?(?:<tool_call\|>|\Z)", re.DOTALL)
_UNFINISHED_MARKUP = re.compile(
    r"""(?:<\|["\w/]{0,40}\|?|<["\w/]{1,40}\||(?<!\w):?call:[\w.:-]{0,64}\s{0,3})\Z"""
)
_MAX_MARKUP_CHARS = 128  # characters of a text's end that such markup may take, and more
_ROLE_LINE = re.compile(r"(?:model|assistant)\n")
_THOUGHT_LABEL = "thought\n"
# Characters of the longest pattern looked for in a repeating end: about the 128 tokens a server looks for.
_MAX_PERIOD = 800


@dataclass(frozen=True, slots=True)
class AnswerReply:
    """Text for the user; `note` says what is incomplete about it."""

    text: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallsReply:
    """Tool calls, each ready to run or refused, and the text before them (may be empty)."""

    narration: str
    calls: tuple[CheckedCall | ToolResult, ...]


@dataclass(frozen=True, slots=True)
class CutReply:
    """The length limit fell into a call or a thought: nothing of it may be used but `narration`."""

    kind: Literal["call", "thought"]
    narration: str


@dataclass(frozen=True, slots=True)
class EmptyReply:
    """Nothing that a user could read; `reason` is for the log."""

    reason: str


ReplyVerdict = AnswerReply | ToolCallsReply | CutReply | EmptyReply


def parse_reply(
    reply: Reply, tools: Mapping[str, Tool], step: int = 1, used_ids: Collection[str] = ()
) -> ReplyVerdict:
    """What the reply to an offer of `tools` means. With no tools offered, calls in it are ignored.

    `step` and `used_ids`, the call ids of this turn so far, only serve to give every call an id of its own.
    Never raises.
    """
    content, thought = _split_thought(to_sendable(reply.text))
    unfinished = _find_unfinished_markup(content) if reply.finish_reason == "length" else None
    if unfinished:
        content = content[: unfinished.start()]
    leaks = find_leaked_calls(content, tuple(tools))
    text = _clean_text(remove_calls(content, leaks))
    calls = reply.calls
    if tools:
        calls += tuple(_to_tool_call(leak) for leak in select_trailing_calls(content, leaks))
    if tools and calls:
        if reply.finish_reason not in {"stop", "tool_calls"}:
            return CutReply("call", text)
        return ToolCallsReply(text, _check_calls(calls, tools, step, used_ids))
    if not is_blank(text):
        return _classify_answer(text, reply.finish_reason)
    if unfinished:
        return CutReply("call", "")
    return _classify_without_text(reply, thought, has_markup=bool(leaks or content.strip()))


def extract_visible_text(text: str) -> str:
    """The text of an answer still being written, as a user may see it; may be empty."""
    text = to_sendable(text)
    if unfinished := _find_unfinished_markup(text):
        text = text[: unfinished.start()]
    content, _ = _split_thought(text)
    return _clean_text(remove_calls(content, find_leaked_calls(content, ())))


def is_blank(text: str) -> bool:
    """Whether a user would see nothing."""
    return not any(
        char.isprintable() and not char.isspace() and char not in INVISIBLE_LETTERS for char in text
    )


def _find_unfinished_markup(text: str) -> re.Match[str] | None:
    return _UNFINISHED_MARKUP.search(text, len(text) - _MAX_MARKUP_CHARS)


def _classify_without_text(reply: Reply, thought: str, *, has_markup: bool) -> ReplyVerdict:
    reasoning = _clean_text(f"{to_sendable(reply.reasoning)}\n{thought}".strip())
    if is_blank(reasoning):
        return EmptyReply("nothing but markup" if has_markup else "nothing at all")
    if reply.finish_reason != "stop":
        return CutReply("thought", "")
    # The parser takes an answer for a thought when the model leaves out the channel's end.
    return AnswerReply(reasoning)


def _classify_answer(text: str, finish_reason: str | None) -> AnswerReply:
    match finish_reason:
        case "stop" | "tool_calls":
            return AnswerReply(text)
        case "length":
            return AnswerReply(text, CUT_AT_LENGTH)
        case "repetition":
            return AnswerReply(_remove_repetition(text), REPEATED)
    return AnswerReply(text, BROKEN_OFF)


def _split_thought(text: str) -> tuple[str, str]:
    """Content and thought, where the markup between them came through as text."""
    if "<" not in text:
        return text, ""
    thoughts = "\n".join(_THOUGHT.findall(text))
    text = _RESPONSE.sub("", _THOUGHT.sub("", text))
    turns = [_strip_role_line(part) for part in text.split("<|turn>")]
    return next((part for part in turns if not is_blank(part)), ""), thoughts


def _strip_role_line(text: str) -> str:
    role_line = _ROLE_LINE.match(text)
    if role_line is None:
        return text
    return text[role_line.end() :]


def _clean_text(text: str) -> str:
    text = text.strip()
    if "<" in text:
        text = strip_control_tokens(_CALL.sub("", text).replace('<|"|>', '"')).strip()
    return text.removeprefix(_THOUGHT_LABEL).strip()


def _to_tool_call(leak: LeakedCall) -> ToolCall:
    if leak.arguments is None:
        arguments = "unreadable"
    else:
        arguments = write_json(leak.arguments)
    return ToolCall("", leak.name, arguments)


def _check_calls(
    calls: tuple[ToolCall, ...], tools: Mapping[str, Tool], step: int, used_ids: Collection[str]
) -> tuple[CheckedCall | ToolResult, ...]:
    used = set(used_ids)
    checked: list[CheckedCall | ToolResult] = []
    for number, call in enumerate(calls[: MAX_CALLS + 1], start=1):
        call = replace(call, id=_make_unique_id(call.id, used, f"call-{step}-{number}"))
        used.add(call.id)
        if number <= MAX_CALLS:
            checked.append(check_call(call, tools))
        else:
            left_out = len(calls) - MAX_CALLS
            reason = f"At most {MAX_CALLS} calls run in one step; {left_out} were left out."
            checked.append(refuse_call(call, "too_many", reason))
    return tuple(checked)


def _make_unique_id(call_id: str, used_ids: set[str], fallback: str) -> str:
    if CALL_ID_PATTERN.fullmatch(call_id) and call_id not in used_ids:
        return call_id
    while fallback in used_ids:
        fallback += "x"
    return fallback


def _remove_repetition(text: str) -> str:
    """The text with the pattern that fills its end kept once."""
    text = text.rstrip()
    max_saved = 0
    for period in range(1, min(_MAX_PERIOD, len(text) // 3) + 1):
        if period <= max_saved:  # a shorter pattern fills that much of the end, so this one fills no more
            continue
        end = len(text)
        times = 0
        while end >= 2 * period and text[end - 2 * period : end - period] == text[len(text) - period :]:
            end -= period
            times += 1
        if times >= 2:
            max_saved = max(max_saved, times * period)
    return text[: len(text) - max_saved].rstrip()
