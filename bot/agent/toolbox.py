"""The tools of one turn: what the model is told of them, and a way to run one in which nothing can go wrong unnoticed.

Owns the time limit and the bound on a result; every failure becomes a result the model can read.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from bot.agent.markup import neutralise, sendable
from bot.domain import ResultOutcome, ToolCall, ToolResult
from tools.base import Tool, ToolContext, ToolError, run
from tools.registry import definitions

log = logging.getLogger(__name__)


class Toolbox:
    """Some tools, offered together. `definitions` are the same bytes for the same tools, whatever their order.

    `size` is how many characters they are.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in tools})
        self.definitions: tuple[Mapping[str, Any], ...] = tuple(definitions(self.tools.values()))
        self.size = sum(len(str(one)) for one in self.definitions)

    def only(self, names: Collection[str]) -> "Toolbox":
        """Those of these tools that have one of the names; itself if all of them have."""
        if self.tools.keys() <= set(names):
            return self
        return Toolbox((tool for name, tool in self.tools.items() if name in names))

    async def run(self, call: ToolCall, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run a call whose arguments were checked. Raises KeyError if it was not offered, else only CancelledError."""
        tool = self.tools[call.name]
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                text = await run(tool, arguments, context)
            return _result(tool, call, text, "ok")
        except ToolError as error:
            return _result(tool, call, str(error), "error")
        except Exception as error:  # noqa: BLE001 a tool may raise anything, and the turn goes on
            if limit.expired():
                why = f"{tool.name} took longer than {tool.timeout:g} s and was stopped."
                return _result(tool, call, why, "timeout")
            fields = {"action": "tool.failed", "tool": tool.name, "error": type(error).__name__}
            log.warning("a tool failed unexpectedly", extra=fields)
            return _result(tool, call, f"{tool.name} failed unexpectedly.", "error")


def _result(tool: Tool, call: ToolCall, text: str, outcome: ResultOutcome) -> ToolResult:
    text = neutralise(sendable(text)).strip() or "(nothing)"
    if len(text) > tool.length:
        left_out = len(text) - tool.length
        text = f"{text[: tool.length]}\n[… {left_out} characters left out]"
    return ToolResult(call, text, outcome)
