"""Judges what the model sent and repairs what is surely meant, before anything runs or is shown. Pure.

The endpoint checks neither names nor arguments, cuts calls into valid JSON and lets markup through: that ends
here.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from bot.agent import leaked_calls as leaks
from bot.agent.sanitize import strip_control_tokens, to_sendable
from bot.agent.tool_calls import CheckedCall, check_call, refuse_call, write_json
from bot.domain import Reply, ToolCall, ToolResult
from tools.base import Tool

MAX_CALLS = 16  # calls of one reply that are looked at
CALL_ID_PATTERN = re.compile(r"[\w.:-]{1,64}", re.ASCII)
INVISIBLE_LETTERS = (
    "\u2800\u3164\u115f\u1160\uffa0"  # drawn as blanks, though Unicode calls them signs and letters
)

CUT_AT_LENGTH = "The answer was cut at the length limit."
BROKEN_OFF = "The answer broke off here."
REPEATED = "It began to repeat itself and was stopped here."

_THOUGHT = re.compile(r"<\|channel>(?:thought\n)?(.*?)(?:<channel\|>|\Z)", re.DOTALL)
_RESPONSE = re.compile(r"<\|tool_response>.*?(?:<tool_response\|>|\Z)", re.DOTALL)
_CALL = re.compile(r"<\|tool_call>.*?(?:<tool_call\|>|\Z)", re.DOTALL)
_UNFINISHED_MARKUP = re.compile(
    r"""(?:<\|["\w/]{0,40}\|?|<["\w/]{1,40}\||(?<!\w):?call:[\w.:-]{0,64}\s{0,3})\Z"""
)
_ROLE_LINE = re.compile(r"(?:model|assistant)\n")
_THOUGHT_LABEL = "thought\n"
# Characters of the longest pattern looked for in a repeating end: about the 128 tokens a server looks for.
_MAX_PERIOD = 800


@dataclass(frozen=True, slots=True)
class AnswerReply:
    """Text for the person; `note` says what is not whole about it."""

    text: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallsReply:
    """Tool calls, each ready to run or refused, and the text said before them (may be empty)."""

    narration: str
    calls: tuple[CheckedCall | ToolResult, ...]


@dataclass(frozen=True, slots=True)
class CutReply:
    """The length limit fell into a call or a thought: nothing of it may be used but `narration`."""

    kind: Literal["call", "thought"]
    narration: str


@dataclass(frozen=True, slots=True)
class EmptyReply:
    """Nothing a person could read; `why` is for the log."""

    reason: str


ReplyVerdict = AnswerReply | ToolCallsReply | CutReply | EmptyReply


def parse_reply(
    reply: Reply, tools: Mapping[str, Tool], step: int = 1, used_ids: Collection[str] = ()
) -> ReplyVerdict:
    """What the reply to an offer of `tools` means. With no tools offered, calls in it are ignored.

    `step` and the call ids `taken` in this turn only serve to give every call an id of its own. Never raises.
    """
    content, thought = _split_thought(to_sendable(reply.text))
    begun = _UNFINISHED_MARKUP.search(content) if reply.finish_reason == "length" else None
    content = content[: begun.start()] if begun else content
    found = leaks.find_leaked_calls(content, tuple(tools))
    asked = leaks.select_trailing_calls(content, found) if tools else ()
    said = _clean_text(leaks.remove_calls(content, found))
    if tools and (reply.calls or asked):
        if reply.finish_reason not in {"stop", "tool_calls"}:
            return CutReply("call", said)
        return ToolCallsReply(
            said, _check_calls((*reply.calls, *map(_to_tool_call, asked)), tools, step, used_ids)
        )
    if not is_blank(said):
        return _classify_answer(said, reply.finish_reason)
    if begun:
        return CutReply("call", "")
    return _classify_wordless(reply, thought, has_markup=bool(found or content.strip()))


def extract_visible_text(text: str) -> str:
    """The text of an answer still being written, as a person may see it; may be empty."""
    content, _ = _split_thought(_UNFINISHED_MARKUP.sub("", to_sendable(text)))
    return _clean_text(leaks.remove_calls(content, leaks.find_leaked_calls(content, ())))


def is_blank(text: str) -> bool:
    """Whether a person would see nothing."""
    return not any(
        sign.isprintable() and not sign.isspace() and sign not in INVISIBLE_LETTERS for sign in text
    )


def _classify_wordless(reply: Reply, thought: str, *, has_markup: bool) -> ReplyVerdict:
    reasoning = _clean_text(f"{to_sendable(reply.reasoning)}\n{thought}".strip())
    if is_blank(reasoning):
        return EmptyReply("nothing but markup" if has_markup else "nothing at all")
    if reply.finish_reason != "stop":
        return CutReply("thought", "")
    # The parser takes an answer for a thought when the model leaves out the channel's end.
    return AnswerReply(reasoning)


def _classify_answer(text: str, finish_reason: str | None) -> AnswerReply:
    if finish_reason == "length":
        return AnswerReply(text, CUT_AT_LENGTH)
    if finish_reason == "repetition":
        return AnswerReply(_remove_repetition(text), REPEATED)
    return AnswerReply(text, None if finish_reason in {"stop", "tool_calls"} else BROKEN_OFF)


def _split_thought(text: str) -> tuple[str, str]:
    """Content and thought, where the markup between them came through as text."""
    if "<" not in text:
        return text, ""
    thoughts = "\n".join(_THOUGHT.findall(text))
    text = _RESPONSE.sub("", _THOUGHT.sub("", text))
    turns = [
        _ROLE_LINE.sub("", part, count=1) if _ROLE_LINE.match(part) else part
        for part in text.split("<|turn>")
    ]
    return next((part for part in turns if not is_blank(part)), ""), thoughts


def _clean_text(text: str) -> str:
    text = text.strip()
    if "<" in text:
        text = strip_control_tokens(_CALL.sub("", text).replace('<|"|>', '"')).strip()
    return text.removeprefix(_THOUGHT_LABEL).strip()


def _to_tool_call(leak: leaks.LeakedCall) -> ToolCall:
    if leak.arguments is None:
        arguments = "unreadable"
    else:
        arguments = write_json(leak.arguments)
    return ToolCall("", leak.name, arguments)


def _check_calls(
    calls: tuple[ToolCall, ...], tools: Mapping[str, Tool], step: int, used_ids: Collection[str]
) -> tuple[CheckedCall | ToolResult, ...]:
    used = set(used_ids)
    judged: list[CheckedCall | ToolResult] = []
    for number, call in enumerate(calls[: MAX_CALLS + 1], start=1):
        known = replace(call, id=_make_unique_id(call.id, used, f"call-{step}-{number}"))
        used.add(known.id)
        if number <= MAX_CALLS:
            judged.append(check_call(known, tools))
        else:
            left_out = len(calls) - MAX_CALLS
            judged.append(
                refuse_call(known, f"At most {MAX_CALLS} calls run in one step; {left_out} were left out.")
            )
    return tuple(judged)


def _make_unique_id(call_id: str, used_ids: set[str], fallback: str) -> str:
    if CALL_ID_PATTERN.fullmatch(call_id) and call_id not in used_ids:
        return call_id
    while fallback in used_ids:
        fallback += "x"
    return fallback


def _remove_repetition(text: str) -> str:
    """The text with the pattern that fills its end kept once."""
    text = text.rstrip()
    best = 0
    saved = 0
    for period in range(1, min(_MAX_PERIOD, len(text) // 3) + 1):
        end = len(text)
        times = 0
        while end >= 2 * period and text[end - 2 * period : end - period] == text[len(text) - period :]:
            end = end - period
            times = times + 1
        if times >= 2 and times * period > saved:
            best = period
            saved = times * period
    if best:
        return text[: len(text) - saved].rstrip()
    return text
