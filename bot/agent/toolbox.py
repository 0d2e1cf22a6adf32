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

from bot.agent.prompt import build_data_block
from bot.agent.sanitize import break_control_tokens, to_sendable
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.agent.tool_search import SearchableTools
from bot.domain import Image, ResultOutcome, ToolCall, ToolResult
from tools.base import Found, Picture, PictureFitter, Tool, ToolContext, ToolError, run_tool
from tools.registry import render_definitions

MAX_KEPT_CHARS = 200_000  # characters of a result that are kept to be read on
TOOL_OUTCOMES = frozenset({"ok", "error"})  # outcomes whose words are the tool's

log = logging.getLogger(__name__)


class Toolbox:
    """Some tools, `offered` together by name, and all the `tools` that may be called: those of a shelf as
    well.

    `definitions` are the same bytes for the same tools, whatever their order; `size` is how many characters
    they are.
    """

    def __init__(self, offered_tools: Iterable[Tool], searchable: SearchableTools | None = None) -> None:
        shown = {tool.name: tool for tool in offered_tools}
        self.offered_names = tuple(shown)
        self.tools: Mapping[str, Tool] = MappingProxyType(
            {**searchable.tools, **shown} if searchable else shown
        )
        self.definitions: tuple[Mapping[str, Any], ...] = tuple(render_definitions(shown.values()))
        self.size_chars = sum(len(str(one)) for one in self.definitions)
        self._searchable = searchable

    def with_callable(self, callable_tools: Iterable[Tool]) -> "Toolbox":
        """The same to the model, but these may be called besides."""
        other = copy(self)
        other.tools = MappingProxyType({**self.tools, **{tool.name: tool for tool in callable_tools}})
        return other

    @cached_property
    def tool_index(self) -> ToolIndex:
        """All tools as messages are held against them."""
        if self._searchable:
            return self._searchable.tool_index
        return build_index(self.tools.values())

    async def run(self, call: ToolCall, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run a call whose arguments were checked. Raises KeyError for none of `tools`, else only
        CancelledError.
        """
        tool = self.tools[call.name]
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                found = await run_tool(tool, arguments, context)
                images, text = await _prepare_images(found, context.see)
            return replace(_build_result(tool, call, text, "ok"), images=images)
        except ToolError as error:
            return _build_result(tool, call, str(error), "error")
        except (Exception, SystemExit) as error:  # noqa: BLE001 a tool may raise anything, and the turn goes on
            if limit.expired():
                why = f"{tool.name} took longer than {tool.timeout:g} s and was stopped."
                return _build_result(tool, call, why, "timeout")
            fields = {"action": "tool.failed", "tool": tool.name, "error": type(error).__name__}
            log.warning("a tool failed unexpectedly", extra=fields)
            return _build_result(tool, call, f"{tool.name} failed unexpectedly.", "error")


async def _prepare_images(output: Found, see: PictureFitter | None) -> tuple[tuple[Image, ...], str]:
    """The pictures of a result as the model gets them, and its text, which begins with what became of them:
    its end may be cut.
    """
    images = []
    said = []
    for one in output.images:
        try:
            fit = await (see or _refuse_image)(one)
        except ToolError as why:
            said.append(f"[a picture was left out: {why}]")
        else:
            images.append(Image(fit.media_type, fit.data))
    if images:
        said.append("[a picture follows]" if len(images) == 1 else f"[{len(images)} pictures follow]")
    return tuple(images), "\n".join(filter(None, [*said, output.text]))


async def _refuse_image(picture: Picture) -> Picture:
    raise ToolError("pictures are not shown here")


def _build_result(tool: Tool, call: ToolCall, text: str, outcome: ResultOutcome) -> ToolResult:
    text = break_control_tokens(to_sendable(text)).strip() or "(nothing)"
    size = len(text)
    whole = text[:MAX_KEPT_CHARS] if len(text) > tool.length else None
    return ToolResult(
        call, render_result(tool, text, size) if outcome in TOOL_OUTCOMES else text, outcome, whole, size
    )


def render_result(tool: Tool, text: str, full_length: int | None, number: int | None = None) -> str:
    """A result as the model reads it: bounded, and marked as data where strangers wrote it. `size` characters
    came; `number` is the one by which `read_more` goes on.
    """
    shown = text[: tool.length]
    if tool.outside:
        marked = build_data_block(f"result of {tool.name}", shown)
    else:
        marked = shown
    left_out = (full_length or len(text)) - len(shown)
    if left_out <= 0:
        return marked
    if number is None:
        more = ""
    else:
        more = f"; read_more with number {number} and start {len(shown)} goes on"
    return f"{marked}\n[… {left_out} characters left out{more}]"
