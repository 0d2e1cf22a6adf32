"""The tools the recorded answers were asked with, replies made by hand, and what a verdict on them holds."""

from collections.abc import Mapping
from typing import Any

from bot.agent.reply_parser import Calls, Verdict
from bot.agent.tool_calls import Wanted
from bot.domain import CallTimes, Reply, ToolCall, ToolResult, Usage
from tools.base import Tool, ToolContext


async def _done(arguments: Mapping[str, Any], context: ToolContext) -> str:
    return "done"


def offered(name: str, required: tuple[str, ...] = (), **properties: str) -> Tool:
    """A tool that takes these properties, given by their type."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind, "description": key.title()} for key, kind in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name, f"Does {name}", schema, _done)


WEATHER = offered("get_weather", ("city",), city="string", days="integer", metric="boolean", unit="string")
SEND = offered("send_message", ("text",), text="string", to="array", opts="object", items="array")
NOTHING = offered("noargs")
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (WEATHER, SEND, NOTHING)}
PARIS = [("get_weather", {"city": "Paris"})]


def reply(text: str = "", *calls: ToolCall, finish: str | None = "stop", reasoning: str = "") -> Reply:
    """A reply as if it had come from the endpoint."""
    return Reply(text, reasoning, calls, finish, Usage(), CallTimes(0.0))


def call(name: str, arguments: str = "{}", id: str = "") -> ToolCall:
    """A call as if it had come from the endpoint."""
    return ToolCall(id or f"chatcmpl-tool-{name}", name, arguments)


def wanted(verdict: Verdict) -> list[tuple[str, dict[str, object]]]:
    """The calls of a verdict, all of which may run."""
    assert isinstance(verdict, Calls)
    assert all(isinstance(one, Wanted) for one in verdict.calls)
    return [(one.call.name, one.arguments) for one in verdict.calls if isinstance(one, Wanted)]


def refusal(verdict: Verdict) -> str:
    """The words of the only call of a verdict, which is refused."""
    assert isinstance(verdict, Calls)
    (only,) = verdict.calls
    assert isinstance(only, ToolResult)
    assert only.outcome == "refused"
    return only.text
