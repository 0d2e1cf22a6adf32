"""Single calls that need one tool each, with thinking and without: how often the right call comes back.

Owns the cases and their scoring; a call counts as right by the tool's own schema and by what was plainly
asked for.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bot.agent.tool_calls import CheckedCall, check_call, read_json
from bot.bench.harness.sample_tools import discover_with_samples
from bot.domain import Message, ModelRequest, Reply
from bot.tool_registry.toolbox import Toolbox
from tools.base import Tool

MAX_TOKENS = 2048  # a thought included

ToolCallVerdict = Literal["right", "mended", "wrong"]


@dataclass(frozen=True, slots=True)
class ToolCallCase:
    """A message, the call it needs, and the texts that must occur in the call's arguments, by argument."""

    text: str
    tool_name: str
    arguments: Mapping[str, object]
    required_texts: Mapping[str, str]


_CASES_FILE = Path(__file__).with_name("tool_calls.json")
TOOL_CALL_CASES = tuple(ToolCallCase(**case) for case in json.loads(_CASES_FILE.read_text(encoding="utf-8")))


def build_toolbox() -> Toolbox:
    """The tools that every case is offered: the built-in ones and the bench's samples."""
    return Toolbox(discover_with_samples())


def build_tool_request(case: ToolCallCase, toolbox: Toolbox, *, thinking: bool) -> ModelRequest:
    """The request of a case."""
    user = (Message("user", case.text),)
    return ModelRequest(
        user, toolbox.definitions, "auto", thinking, MAX_TOKENS, session="bench", lane="bench"
    )


def judge_reply(reply: Reply, case: ToolCallCase, tools: Mapping[str, Tool]) -> ToolCallVerdict:
    """Whether the reply holds the one call that was needed: as it came, only once repaired, or not."""
    if len(reply.calls) != 1 or reply.finish_reason == "length":
        return "wrong"
    call = reply.calls[0]
    checked = check_call(call, tools)
    if (
        not isinstance(checked, CheckedCall)
        or checked.call.name != case.tool_name
        or not _has_required_texts(checked.arguments, case)
    ):
        return "wrong"
    is_unchanged = call.name == case.tool_name and _is_unchanged(call.arguments, checked.arguments)
    if is_unchanged:
        return "right"
    return "mended"


def _has_required_texts(arguments: Mapping[str, Any], case: ToolCallCase) -> bool:
    return all(text in str(arguments.get(key, "")).lower() for key, text in case.required_texts.items())


def _is_unchanged(raw_arguments: str, checked_arguments: Mapping[str, Any]) -> bool:
    """Whether every argument already had the value it was checked to."""
    raw = read_json(raw_arguments)
    return isinstance(raw, dict) and all(checked_arguments.get(key) == value for key, value in raw.items())


def select_cases(*, quick: bool) -> Sequence[ToolCallCase]:
    """The cases of a run."""
    if quick:
        return TOOL_CALL_CASES[:2]
    return TOOL_CALL_CASES
