"""Checks the tool calls of a reply: repairs name and JSON where that is surely meant, else refuses. Pure.

tools.arguments knows what a tool's arguments must be; the texts of refusals are written for the model.
"""

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bot.agent.notices import REPEATED_CALL
from bot.agent.sanitize import break_control_tokens, to_sendable
from bot.agent.tool_search import FIND_TOOLS, USE_TOOL, render_tool
from bot.domain import RefusalReason, ToolCall, ToolResult
from tools.base import Tool, ToolError

# Without a bound of our own the depth of the stack would decide, and a replayed turn could go another way.
MAX_DEPTH = 32
MAX_REPEATS = 2  # times the same call may run in one turn
UNREADABLE_ARGUMENTS = "The arguments of {} could not be read. Call it again, with each argument once."
MAX_NAME_CHARS = 64  # characters that a refusal repeats of a name nobody offered

_PREFIXES = re.compile(r"(?:(?:call|tool|functions?|default_api)\s*[:.][: ]*)*", re.IGNORECASE)


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
        self, checked_calls: Iterable[CheckedCall | ToolResult]
    ) -> tuple[CheckedCall | ToolResult, ...]:
        """The calls of a reply; repeats in it, and more than MAX_REPEATS in the turn, are refused."""
        calls_of_reply: set[tuple[str, str]] = set()
        judged: list[CheckedCall | ToolResult] = []
        for checked in checked_calls:
            if isinstance(checked, ToolResult):
                judged.append(checked)
                continue
            call = (checked.call.name, checked.call.arguments)
            if call in calls_of_reply or self._counts[call] >= MAX_REPEATS:
                judged.append(refuse_call(checked.call, "repeat", REPEATED_CALL))
                continue
            calls_of_reply.add(call)
            self._counts[call] += 1
            judged.append(checked)
        return tuple(judged)


def read_json(text: str) -> Any:
    """Read standard JSON; of a key given twice the last value counts. Raises ValueError for anything else."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError("nested too deeply")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    items: Collection[object] = ()
    if isinstance(value, dict):
        items = value.values()
    elif isinstance(value, list):
        items = value
    if levels == 0:
        return bool(items)
    return any(_is_deeper(item, levels - 1) for item in items if isinstance(item, dict | list))


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse_number(text)
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_parse_finite)


def write_json(value: object) -> str:
    """JSON that is the same bytes for the same value, without characters that a protocol would refuse."""
    return to_sendable(json.dumps(value, ensure_ascii=False, allow_nan=False))


def check_call(call: ToolCall, tools: Mapping[str, Tool]) -> CheckedCall | ToolResult:
    """The call ready to run, or its refusal as the result the model will read.

    `tools` are all that may be called. A call of `use_tool` becomes the call of the tool it names.
    """
    from tools.arguments import check_arguments  # loads jsonschema, which no first poll should wait for

    inner_call = _unwrap_use_tool(call, tools)
    call = inner_call or call
    arguments = _parse_arguments(call.arguments)
    tool = tools.get(_match_tool_name(call.name, tools))
    if tool is None or (inner_call and tool.name == USE_TOOL):
        return refuse_call(call, "no_tool", _explain_unknown_tool(call.name, tools))
    call = ToolCall(call.id, tool.name, call.arguments)
    unreadable = UNREADABLE_ARGUMENTS.format(tool.name)
    if arguments is None:
        return refuse_call(call, "arguments", _explain_refusal(unreadable, tool, tools))
    try:
        checked = check_arguments(tool, arguments)
        return CheckedCall(ToolCall(call.id, tool.name, write_json(_drop_defaults(tool, checked))), checked)
    except ToolError as error:
        return refuse_call(call, "arguments", _explain_refusal(str(error), tool, tools))
    except Exception:  # noqa: BLE001 schemas come from anywhere and values hold anything
        return refuse_call(call, "arguments", _explain_refusal(unreadable, tool, tools))


def refuse_call(call: ToolCall, refusal: RefusalReason, text: str) -> ToolResult:
    """The result of a call that will not run; the call gets a form that every template can render."""
    arguments = _parse_arguments(call.arguments) or {}
    call = ToolCall(call.id, _clean_name(call.name), write_json(arguments))
    return ToolResult(call, break_control_tokens(to_sendable(text)), "refused", refusal=refusal)


def _parse_arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a call, also where the object was sent as a JSON string; None: they cannot be read."""
    if not text.strip():
        return {}
    try:
        arguments = read_json(text)
        if isinstance(arguments, str):
            arguments = read_json(arguments)
    except ValueError:
        return None
    if isinstance(arguments, dict):
        return arguments
    return None


def _unwrap_use_tool(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall | None:
    """The call that `use_tool` asks for; None: it asks for none.

    The inner arguments may be an object, JSON, or stand beside the name.
    """
    if USE_TOOL not in tools or _match_tool_name(call.name, tools) != USE_TOOL:
        return None
    arguments = _parse_arguments(call.arguments)
    if arguments is None or not isinstance(name := arguments.pop("name", None), str):
        return None
    inner_arguments = arguments.get("arguments", arguments)
    if inner_arguments is None:
        inner_arguments = {}
    if not isinstance(inner_arguments, str):
        inner_arguments = write_json(inner_arguments)
    return ToolCall(call.id, name, inner_arguments)


def _drop_defaults(tool: Tool, checked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that repeat a default, which would cost tokens at every further step."""
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
    bare_name = name.strip().strip("`'\":").strip()
    bare_name = _PREFIXES.sub("", bare_name, count=1)
    alike = [tool_name for tool_name in tools if tool_name.lower() == bare_name.lower().replace("-", "_")]
    if len(alike) == 1:
        return alike[0]
    return name


def _explain_unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    reason = f"There is no tool called {_clean_name(name)}."
    if USE_TOOL not in tools:
        return f"{reason} There are: {', '.join(sorted(tools))}."
    alike = difflib.get_close_matches(name[:MAX_NAME_CHARS], tools, n=2)
    lines = [f"{reason} {FIND_TOOLS} finds those there are."]
    lines += [render_tool(tools[tool_name]) for tool_name in alike]
    return "\n".join(lines)


def _explain_refusal(reason: str, tool: Tool, tools: Mapping[str, Tool]) -> str:
    """The reason, and how the tool is called if tools are searchable: it may not stand in the prompt then."""
    if USE_TOOL in tools:
        return f"{reason}\n{render_tool(tool)}"
    return reason


def _clean_name(name: str) -> str:
    line = " ".join(to_sendable(name[: 2 * MAX_NAME_CHARS]).split())
    return break_control_tokens(line)[:MAX_NAME_CHARS] or "unknown"
