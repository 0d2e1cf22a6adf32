"""Judges the tool calls of a reply: repairs name and JSON where that is surely meant, else refuses. Pure.

What a tool's arguments must be is known to tools.arguments; the words of a refusal are for the model.
"""

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bot.agent import notices as sentences
from bot.agent.sanitize import break_control_tokens, to_sendable
from bot.agent.tool_search import FIND_TOOLS, USE_TOOL, render_tool
from bot.domain import ToolCall, ToolResult
from tools.arguments import check_arguments
from tools.base import Tool, ToolError

# Without a bound of our own, the depth of the stack would decide, and a turn played again could go another
# way.
MAX_DEPTH = 32
MAX_REPEATS = 2  # times the same call may run in one turn
UNREADABLE_ARGUMENTS = "The arguments of {} could not be read. Call it again, with each argument once."
MAX_NAME_CHARS = 64  # characters of a name nobody offered that are told back

_PREFIX = re.compile(r"(?:call|tool|functions?|default_api)\s*[:.]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call that may run: repaired, and its arguments checked against the tool's schema."""

    call: ToolCall
    arguments: dict[str, Any]


class CallHistory:
    """The calls of a turn that were let run."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def refuse_repeats(
        self, checked: Iterable[CheckedCall | ToolResult]
    ) -> tuple[CheckedCall | ToolResult, ...]:
        """The calls of a reply; one made twice in it runs once, and no more than REPEATS times in the turn."""
        here: set[tuple[str, str]] = set()
        kept: list[CheckedCall | ToolResult] = []
        for one in checked:
            same = (one.call.name, one.call.arguments)
            if isinstance(one, CheckedCall) and (same in here or self._counts[same] >= MAX_REPEATS):
                kept.append(refuse_call(one.call, sentences.REPEATED_CALL))
                continue
            if isinstance(one, CheckedCall):
                here.add(same)
                self._counts[same] += 1
            kept.append(one)
        return tuple(kept)


def read_json(text: str) -> Any:
    """JSON as the standard has it; of a key given twice the last value counts. Raises ValueError for all
    else.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_number, parse_float=_parse_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError("nested too deeply")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return any(levels == 0 or _is_deeper(item, levels - 1) for item in inner)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    return _refuse_number(text)


def write_json(value: object) -> str:
    """JSON that is the same bytes for the same value, with nothing in it that a wire would refuse."""
    return to_sendable(json.dumps(value, ensure_ascii=False, allow_nan=False))


def check_call(call: ToolCall, tools: Mapping[str, Tool]) -> CheckedCall | ToolResult:
    """The call ready to run, or its refusal as the result the model will read; `tools` are all that may be
    called.

    Of `use_tool` it is the call of the tool it names.
    """
    inner = _unwrap_use_tool(call, tools)
    call = inner or call
    given = _parse_arguments(call.arguments)
    tool = tools.get(_match_tool_name(call.name, tools))
    if tool is None or (inner and tool.name == USE_TOOL):
        return refuse_call(call, _explain_unknown_tool(call.name, tools))
    call = ToolCall(call.id, tool.name, call.arguments)
    if given is None:
        return refuse_call(call, _explain_refusal(UNREADABLE_ARGUMENTS.format(tool.name), tool, tools))
    try:
        checked = check_arguments(tool, given)
        return CheckedCall(ToolCall(call.id, tool.name, write_json(_drop_defaults(tool, checked))), checked)
    except ToolError as error:
        return refuse_call(call, _explain_refusal(str(error), tool, tools))
    except Exception:  # noqa: BLE001 a schema may come from anywhere and a value hold anything; judging goes on
        return refuse_call(call, _explain_refusal(UNREADABLE_ARGUMENTS.format(tool.name), tool, tools))


def refuse_call(call: ToolCall, reason: str) -> ToolResult:
    """The result of a call that will not run; the call is kept in a form every template can render."""
    given = _parse_arguments(call.arguments)
    arguments = write_json(given) if given is not None else "{}"
    kept = ToolCall(call.id, _clean_name(call.name), arguments)
    return ToolResult(kept, break_control_tokens(to_sendable(reason)), "refused")


def _parse_arguments(text: str) -> dict[str, Any] | None:
    """What a call holds, also when the whole object was sent as a JSON string; None if it cannot be read."""
    try:
        given = read_json(text) if text.strip() else {}
        if isinstance(given, str):
            given = read_json(given)
    except ValueError:
        return None
    if isinstance(given, dict):
        return given
    return None


def _unwrap_use_tool(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall | None:
    """The call that `use_tool` asks for, its arguments as an object, as JSON or beside the name; None: it is
    none.
    """
    if USE_TOOL not in tools or _match_tool_name(call.name, tools) != USE_TOOL:
        return None
    given = _parse_arguments(call.arguments)
    if given is None or not isinstance(name := given.pop("name", None), str):
        return None
    inner = given.get("arguments", given)
    if inner is None:
        inner = {}
    return ToolCall(call.id, name, inner if isinstance(inner, str) else write_json(inner))


def _drop_defaults(tool: Tool, checked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that only repeat a default: they would cost prompt tokens at every further
    step.
    """
    properties = tool.input_schema.get("properties", {})
    absent = object()
    return {
        key: value
        for key, value in checked.items()
        if properties.get(key, {}).get("default", absent) != value
    }


def _match_tool_name(name: str, tools: Mapping[str, Tool]) -> str:
    """The name of the tool that is surely meant, or the name as it came."""
    if name in tools:
        return name
    bare = name.strip().strip("`'\":").strip()
    while prefix := _PREFIX.match(bare):
        bare = bare[prefix.end() :].lstrip(": ")
    alike = [known for known in tools if known.lower() == bare.lower().replace("-", "_")]
    if len(alike) == 1:
        return alike[0]
    return name


def _explain_unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    none = f"There is no tool called {_clean_name(name)}."
    if USE_TOOL not in tools:
        return f"{none} There are: {', '.join(sorted(tools))}."
    alike = difflib.get_close_matches(name[:MAX_NAME_CHARS], tools, n=2)
    return "\n".join(
        [f"{none} {FIND_TOOLS} finds those there are.", *(render_tool(tools[one]) for one in alike)]
    )


def _explain_refusal(reason: str, tool: Tool, tools: Mapping[str, Tool]) -> str:
    """What was wrong; where tools are found by words, also how this one is called: it may not stand in the
    prompt.
    """
    if USE_TOOL in tools:
        return f"{reason}\n{render_tool(tool)}"
    return reason


def _clean_name(name: str) -> str:
    return break_control_tokens(" ".join(to_sendable(name).split()))[:MAX_NAME_CHARS] or "unknown"
