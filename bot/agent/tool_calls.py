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
from bot.agent.sanitize import neutralise, sendable
from bot.agent.tool_search import FIND, USE, described
from bot.domain import ToolCall, ToolResult
from tools.arguments import check
from tools.base import Tool, ToolError

# Without a bound of our own, the depth of the stack would decide, and a turn played again could go another
# way.
DEPTH = 32
REPEATS = 2  # times the same call may run in one turn
UNREADABLE = "The arguments of {} could not be read. Call it again, with each argument once."
NAME = 64  # characters of a name nobody offered that are told back

_PREFIX = re.compile(r"(?:call|tool|functions?|default_api)\s*[:.]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that may run: repaired, and its arguments checked against the tool's schema."""

    call: ToolCall
    arguments: dict[str, Any]


class Made:
    """The calls of a turn that were let run."""

    def __init__(self) -> None:
        self._made: Counter[tuple[str, str]] = Counter()

    def without_repeats(self, judged: Iterable[Wanted | ToolResult]) -> tuple[Wanted | ToolResult, ...]:
        """The calls of a reply; one made twice in it runs once, and no more than REPEATS times in the turn."""
        here: set[tuple[str, str]] = set()
        kept: list[Wanted | ToolResult] = []
        for one in judged:
            same = (one.call.name, one.call.arguments)
            if isinstance(one, Wanted) and (same in here or self._made[same] >= REPEATS):
                kept.append(refuse(one.call, sentences.REPEATED_CALL))
                continue
            if isinstance(one, Wanted):
                here.add(same)
                self._made[same] += 1
            kept.append(one)
        return tuple(kept)


def read_json(text: str) -> Any:
    """JSON as the standard has it; of a key given twice the last value counts. Raises ValueError for all
    else.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _deeper(value, DEPTH):
        raise ValueError("nested too deeply")
    return value


def _deeper(value: object, levels: int) -> bool:
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return any(levels == 0 or _deeper(item, levels - 1) for item in inner)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    return _no_number(text)


def write_json(value: object) -> str:
    """JSON that is the same bytes for the same value, with nothing in it that a wire would refuse."""
    return sendable(json.dumps(value, ensure_ascii=False, allow_nan=False))


def judge_call(call: ToolCall, tools: Mapping[str, Tool]) -> Wanted | ToolResult:
    """The call ready to run, or its refusal as the result the model will read; `tools` are all that may be
    called.

    Of `use_tool` it is the call of the tool it names.
    """
    inner = _inner(call, tools)
    call = inner or call
    given = _arguments(call.arguments)
    tool = tools.get(_offered(call.name, tools))
    if tool is None or (inner and tool.name == USE):
        return refuse(call, _unknown(call.name, tools))
    call = ToolCall(call.id, tool.name, call.arguments)
    if given is None:
        return refuse(call, _told_again(UNREADABLE.format(tool.name), tool, tools))
    try:
        checked = check(tool, given)
        return Wanted(ToolCall(call.id, tool.name, write_json(_told(tool, checked))), checked)
    except ToolError as error:
        return refuse(call, _told_again(str(error), tool, tools))
    except Exception:  # noqa: BLE001 a schema may come from anywhere and a value hold anything; judging goes on
        return refuse(call, _told_again(UNREADABLE.format(tool.name), tool, tools))


def refuse(call: ToolCall, why: str) -> ToolResult:
    """The result of a call that will not run; the call is kept in a form every template can render."""
    given = _arguments(call.arguments)
    arguments = write_json(given) if given is not None else "{}"
    kept = ToolCall(call.id, _presentable(call.name), arguments)
    return ToolResult(kept, neutralise(sendable(why)), "refused")


def _arguments(text: str) -> dict[str, Any] | None:
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


def _inner(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall | None:
    """The call that `use_tool` asks for, its arguments as an object, as JSON or beside the name; None: it is
    none.
    """
    if USE not in tools or _offered(call.name, tools) != USE:
        return None
    given = _arguments(call.arguments)
    if given is None or not isinstance(name := given.pop("name", None), str):
        return None
    inner = given.get("arguments", given)
    if inner is None:
        inner = {}
    return ToolCall(call.id, name, inner if isinstance(inner, str) else write_json(inner))


def _told(tool: Tool, checked: Mapping[str, Any]) -> dict[str, Any]:
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


def _offered(name: str, tools: Mapping[str, Tool]) -> str:
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


def _unknown(name: str, tools: Mapping[str, Tool]) -> str:
    none = f"There is no tool called {_presentable(name)}."
    if USE not in tools:
        return f"{none} There are: {', '.join(sorted(tools))}."
    alike = difflib.get_close_matches(name[:NAME], tools, n=2)
    return "\n".join([f"{none} {FIND} finds those there are.", *(described(tools[one]) for one in alike)])


def _told_again(why: str, tool: Tool, tools: Mapping[str, Tool]) -> str:
    """What was wrong; where tools are found by words, also how this one is called: it may not stand in the
    prompt.
    """
    if USE in tools:
        return f"{why}\n{described(tool)}"
    return why


def _presentable(name: str) -> str:
    return neutralise(" ".join(sendable(name).split()))[:NAME] or "unknown"
