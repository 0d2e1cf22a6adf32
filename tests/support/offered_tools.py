"""The tools that recorded answers were requested with, hand-made replies, and helpers to read verdicts."""

from collections.abc import Mapping
from typing import Any

from bot.agent.reply_parser import ReplyVerdict, ToolCallsReply
from bot.agent.tool_calls import CheckedCall
from bot.domain import CallTimes, Reply, ToolCall, ToolResult, Usage
from tools.base import Tool, ToolContext


async def _run_nothing(arguments: Mapping[str, Any], context: ToolContext) -> str:
    return "done"


def make_tool(name: str, required: tuple[str, ...] = (), **properties: str) -> Tool:
    """A tool that takes these properties, given by their type."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind, "description": key.title()} for key, kind in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name, f"Does {name}", schema, _run_nothing)


WEATHER = make_tool("get_weather", ("city",), city="string", days="integer", metric="boolean", unit="string")
SEND = make_tool("send_message", ("text",), text="string", to="array", opts="object", items="array")
NOARGS = make_tool("noargs")
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (WEATHER, SEND, NOARGS)}
PARIS = [("get_weather", {"city": "Paris"})]


def make_reply(text: str = "", *calls: ToolCall, finish: str | None = "stop", reasoning: str = "") -> Reply:
    """A reply as if it had come from the endpoint."""
    return Reply(text, reasoning, calls, finish, Usage(), CallTimes(0.0))


def make_call(name: str, arguments: str = "{}", id: str = "") -> ToolCall:
    """A call as if it had come from the endpoint."""
    return ToolCall(id or f"chatcmpl-tool-{name}", name, arguments)


def list_checked_calls(verdict: ReplyVerdict) -> list[tuple[str, dict[str, object]]]:
    """The calls of a verdict, all of which may run."""
    assert isinstance(verdict, ToolCallsReply)
    assert all(isinstance(checked, CheckedCall) for checked in verdict.calls)
    return [
        (checked.call.name, checked.arguments)
        for checked in verdict.calls
        if isinstance(checked, CheckedCall)
    ]


def get_refusal(verdict: ReplyVerdict) -> str:
    """The text of the only call of a verdict, which is refused."""
    assert isinstance(verdict, ToolCallsReply)
    (only,) = verdict.calls
    assert isinstance(only, ToolResult)
    assert only.outcome == "refused"
    return only.text
