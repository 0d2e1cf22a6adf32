"""The tools of one turn: what the model is told of them, and a way to run one in which nothing can go wrong
unnoticed.

Owns the time limit and the bound on a result; every failure becomes a result the model can read.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from bot.agent.prompt import data_block
from bot.agent.sanitize import neutralise, sendable
from bot.agent.tool_matching.index import Offer, index
from bot.agent.tool_search import Shelf
from bot.domain import Image, ResultOutcome, ToolCall, ToolResult
from tools.base import Found, Picture, See, Tool, ToolContext, ToolError, find
from tools.registry import definitions

KEPT = 200_000  # characters of a result that are kept to be read on
TOLD = frozenset({"ok", "error"})  # outcomes whose words are the tool's

log = logging.getLogger(__name__)


class Toolbox:
    """Some tools, `offered` together by name, and all the `tools` that may be called: those of a shelf as
    well.

    `definitions` are the same bytes for the same tools, whatever their order; `size` is how many characters
    they are.
    """

    def __init__(self, offered: Iterable[Tool], shelf: Shelf | None = None) -> None:
        shown = {tool.name: tool for tool in offered}
        self.offered = tuple(shown)
        self.tools: Mapping[str, Tool] = MappingProxyType({**shelf.tools, **shown} if shelf else shown)
        self.definitions: tuple[Mapping[str, Any], ...] = tuple(definitions(shown.values()))
        self.size = sum(len(str(one)) for one in self.definitions)
        self._shelf = shelf

    def joined(self, called: Iterable[Tool]) -> "Toolbox":
        """The same to the model, but these may be called besides."""
        other = copy(self)
        other.tools = MappingProxyType({**self.tools, **{tool.name: tool for tool in called}})
        return other

    @cached_property
    def offer(self) -> Offer:
        """All tools as messages are held against them."""
        if self._shelf:
            return self._shelf.offer
        return index(self.tools.values())

    async def run(self, call: ToolCall, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run a call whose arguments were checked. Raises KeyError for none of `tools`, else only
        CancelledError.
        """
        tool = self.tools[call.name]
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                found = await find(tool, arguments, context)
                images, text = await _seen(found, context.see)
            return replace(_result(tool, call, text, "ok"), images=images)
        except ToolError as error:
            return _result(tool, call, str(error), "error")
        except (Exception, SystemExit) as error:  # noqa: BLE001 a tool may raise anything, and the turn goes on
            if limit.expired():
                why = f"{tool.name} took longer than {tool.timeout:g} s and was stopped."
                return _result(tool, call, why, "timeout")
            fields = {"action": "tool.failed", "tool": tool.name, "error": type(error).__name__}
            log.warning("a tool failed unexpectedly", extra=fields)
            return _result(tool, call, f"{tool.name} failed unexpectedly.", "error")


async def _seen(found: Found, see: See | None) -> tuple[tuple[Image, ...], str]:
    """The pictures of a result as the model gets them, and its text, which begins with what became of them:
    its end may be cut.
    """
    images = []
    said = []
    for one in found.images:
        try:
            fit = await (see or _blind)(one)
        except ToolError as why:
            said.append(f"[a picture was left out: {why}]")
        else:
            images.append(Image(fit.media_type, fit.data))
    if images:
        said.append("[a picture follows]" if len(images) == 1 else f"[{len(images)} pictures follow]")
    return tuple(images), "\n".join(filter(None, [*said, found.text]))


async def _blind(picture: Picture) -> Picture:
    raise ToolError("pictures are not shown here")


def _result(tool: Tool, call: ToolCall, text: str, outcome: ResultOutcome) -> ToolResult:
    text = neutralise(sendable(text)).strip() or "(nothing)"
    size = len(text)
    whole = text[:KEPT] if len(text) > tool.length else None
    return ToolResult(call, told(tool, text, size) if outcome in TOLD else text, outcome, whole, size)


def told(tool: Tool, text: str, size: int | None, number: int | None = None) -> str:
    """A result as the model reads it: bounded, and marked as data where strangers wrote it. `size` characters
    came; `number` is the one by which `read_more` goes on.
    """
    shown = text[: tool.length]
    if tool.outside:
        marked = data_block(f"result of {tool.name}", shown)
    else:
        marked = shown
    left_out = (size or len(text)) - len(shown)
    if left_out <= 0:
        return marked
    if number is None:
        more = ""
    else:
        more = f"; read_more with number {number} and start {len(shown)} goes on"
    return f"{marked}\n[… {left_out} characters left out{more}]"
