"""The tools the recorded answers were asked with, and replies made by hand."""

from collections.abc import Mapping
from typing import Any

from bot.domain import CallTimes, Reply, ToolCall, Usage
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


def reply(text: str = "", *calls: ToolCall, finish: str | None = "stop", reasoning: str = "") -> Reply:
    """A reply as if it had come from the endpoint."""
    return Reply(text, reasoning, calls, finish, Usage(), CallTimes(0.0))


def call(name: str, arguments: str = "{}", id: str = "") -> ToolCall:
    """A call as if it had come from the endpoint."""
    return ToolCall(id or f"chatcmpl-tool-{name}", name, arguments)
