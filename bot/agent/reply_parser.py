"""Judges what the model sent and repairs what is surely meant, before anything runs or is shown. Pure.

The endpoint checks neither names nor arguments, cuts calls into valid JSON and lets markup through: that ends
here.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from bot.agent import leaked_calls as leaks
from bot.agent.sanitize import sendable, without_markup
from bot.agent.tool_calls import Wanted, judge_call, refuse, write_json
from bot.domain import Reply, ToolCall, ToolResult
from tools.base import Tool

CALLS = 16  # calls of one reply that are looked at
ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
INVISIBLE = "\u2800\u3164\u115f\u1160\uffa0"  # drawn as blanks, though Unicode calls them signs and letters

CUT_AT_LENGTH = "The answer was cut at the length limit."
BROKEN_OFF = "The answer broke off here."
REPEATED = "It began to repeat itself and was stopped here."

_THOUGHT = re.compile(r"<\|channel>(?:thought\n)?(.*?)(?:<channel\|>|\Z)", re.DOTALL)
_RESPONSE = re.compile(r"<\|tool_response>.*?(?:<tool_response\|>|\Z)", re.DOTALL)
_CALL = re.compile(r"<\|tool_call>.*?(?:<tool_call\|>|\Z)", re.DOTALL)
_BEGUN = re.compile(r"""(?:<\|["\w/]{0,40}\|?|<["\w/]{1,40}\||(?<!\w):?call:[\w.:-]{0,64}\s{0,3})\Z""")
_ROLE = re.compile(r"(?:model|assistant)\n")
_LABEL = "thought\n"
# Characters of the longest pattern looked for in a repeating end: about the 128 tokens a server looks for.
_PERIOD = 800


@dataclass(frozen=True, slots=True)
class Answer:
    """Text for the person; `note` says what is not whole about it."""

    text: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """Tool calls, each ready to run or refused, and the text said before them (may be empty)."""

    narration: str
    calls: tuple[Wanted | ToolResult, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """The length limit fell into a call or a thought: nothing of it may be used but `narration`."""

    what: Literal["call", "thought"]
    narration: str


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing a person could read; `why` is for the log."""

    why: str


Verdict = Answer | Calls | Cut | Empty


def judge(reply: Reply, tools: Mapping[str, Tool], step: int = 1, taken: Collection[str] = ()) -> Verdict:
    """What the reply to an offer of `tools` means. With no tools offered, calls in it are ignored.

    `step` and the call ids `taken` in this turn only serve to give every call an id of its own. Never raises.
    """
    content, thought = _parted(sendable(reply.text))
    begun = _BEGUN.search(content) if reply.finish_reason == "length" else None
    content = content[: begun.start()] if begun else content
    found = leaks.find(content, tuple(tools))
    asked = leaks.asked(content, found) if tools else ()
    said = _presentable(leaks.without(content, found))
    if tools and (reply.calls or asked):
        if reply.finish_reason not in {"stop", "tool_calls"}:
            return Cut("call", said)
        return Calls(said, _judged((*reply.calls, *map(_leaked, asked)), tools, step, taken))
    if not blank(said):
        return _answer(said, reply.finish_reason)
    if begun:
        return Cut("call", "")
    return _without_words(reply, thought, markup=bool(found or content.strip()))


def shown(text: str) -> str:
    """The text of an answer still being written, as a person may see it; may be empty."""
    content, _ = _parted(_BEGUN.sub("", sendable(text)))
    return _presentable(leaks.without(content, leaks.find(content, ())))


def blank(text: str) -> bool:
    """Whether a person would see nothing."""
    return not any(sign.isprintable() and not sign.isspace() and sign not in INVISIBLE for sign in text)


def _without_words(reply: Reply, thought: str, *, markup: bool) -> Verdict:
    reasoning = _presentable(f"{sendable(reply.reasoning)}\n{thought}".strip())
    if blank(reasoning):
        return Empty("nothing but markup" if markup else "nothing at all")
    if reply.finish_reason != "stop":
        return Cut("thought", "")
    # The parser takes an answer for a thought when the model leaves out the channel's end.
    return Answer(reasoning)


def _answer(text: str, finish_reason: str | None) -> Answer:
    if finish_reason == "length":
        return Answer(text, CUT_AT_LENGTH)
    if finish_reason == "repetition":
        return Answer(_without_repetition(text), REPEATED)
    return Answer(text, None if finish_reason in {"stop", "tool_calls"} else BROKEN_OFF)


def _parted(text: str) -> tuple[str, str]:
    """Content and thought, where the markup between them came through as text."""
    if "<" not in text:
        return text, ""
    thoughts = "\n".join(_THOUGHT.findall(text))
    text = _RESPONSE.sub("", _THOUGHT.sub("", text))
    turns = [_ROLE.sub("", part, count=1) if _ROLE.match(part) else part for part in text.split("<|turn>")]
    return next((part for part in turns if not blank(part)), ""), thoughts


def _presentable(text: str) -> str:
    text = text.strip()
    if "<" in text:
        text = without_markup(_CALL.sub("", text).replace('<|"|>', '"')).strip()
    return text.removeprefix(_LABEL).strip()


def _leaked(leak: leaks.Leak) -> ToolCall:
    if leak.arguments is None:
        arguments = "unreadable"
    else:
        arguments = write_json(leak.arguments)
    return ToolCall("", leak.name, arguments)


def _judged(
    calls: tuple[ToolCall, ...], tools: Mapping[str, Tool], step: int, taken: Collection[str]
) -> tuple[Wanted | ToolResult, ...]:
    used = set(taken)
    judged: list[Wanted | ToolResult] = []
    for number, call in enumerate(calls[: CALLS + 1], start=1):
        known = replace(call, id=_own_id(call.id, used, f"call-{step}-{number}"))
        used.add(known.id)
        if number <= CALLS:
            judged.append(judge_call(known, tools))
        else:
            left_out = len(calls) - CALLS
            judged.append(refuse(known, f"At most {CALLS} calls run in one step; {left_out} were left out."))
    return tuple(judged)


def _own_id(wanted: str, used: set[str], otherwise: str) -> str:
    if ID.fullmatch(wanted) and wanted not in used:
        return wanted
    while otherwise in used:
        otherwise += "x"
    return otherwise


def _without_repetition(text: str) -> str:
    """The text with the pattern that fills its end kept once."""
    text = text.rstrip()
    best = 0
    saved = 0
    for period in range(1, min(_PERIOD, len(text) // 3) + 1):
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
