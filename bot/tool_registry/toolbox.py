"""The tools of one turn: what the model sees of them, and how a call of one runs.

Owns the time limit and the bound on a result; every failure becomes a result that the model can read.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from bot.agent.prompt import build_data_block
from bot.agent.sanitize import break_control_tokens, to_sendable
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.agent.tool_search import SearchableTools
from bot.domain import Image, OutgoingFile, ResultOutcome, ToolCall, ToolResult
from tools.base import File, Found, Picture, PictureFitter, Tool, ToolContext, ToolError, run_tool
from tools.builtin.ask import ask
from tools.failures import describe_failure
from tools.registry import measure_definition, render_definitions

MAX_KEPT_CHARS = 200_000  # characters of a result that are stored for read_more
UNDELIVERED = "[pictures and files of this tool are not sent to the person until an admin allows it]"
TOOL_OUTCOMES = frozenset({"ok", "error"})  # outcomes whose text is the tool's

TakeFiles = Callable[[Sequence[File]], tuple[tuple[OutgoingFile, ...], list[str]]]
"""Takes files for the person: returns those that will be sent, and what the model reads of them all."""


class Toolbox:
    """The tools of a turn.

    offered_names: those in the prompt.
    tools: all that may be called, by name, the searchable ones included.
    definitions: of those in the prompt; the same bytes for the same tools, whatever their order.
    size_chars: length of the definitions in characters.
    """

    def __init__(self, offered_tools: Iterable[Tool], searchable: SearchableTools | None = None) -> None:
        offered = {tool.name: tool for tool in offered_tools}
        self.offered_names = tuple(offered)
        self.tools: Mapping[str, Tool] = MappingProxyType(
            {**searchable.tools, **offered} if searchable else offered
        )
        self.definitions: tuple[Mapping[str, Any], ...] = tuple(render_definitions(offered.values()))
        self.size_chars = sum(map(measure_definition, self.definitions))
        self._searchable = searchable

    def with_callable(self, callable_tools: Iterable[Tool]) -> "Toolbox":
        """A toolbox that looks the same to the model, in which these may be called as well."""
        toolbox = copy(self)
        toolbox.tools = MappingProxyType({**self.tools, **{tool.name: tool for tool in callable_tools}})
        return toolbox

    @cached_property
    def tool_index(self) -> ToolIndex:
        """All tools, indexed so that messages can be matched against them.

        Without the one that asks back: that a message has words of it says nothing of work to be done.
        """
        if self._searchable:
            return self._searchable.tool_index
        return build_index(tool for tool in self.tools.values() if tool.name != ask.name)

    async def run(
        self,
        call: ToolCall,
        arguments: Mapping[str, Any],
        context: ToolContext,
        take_files: TakeFiles | None = None,
    ) -> ToolResult:
        """Run a call whose arguments were checked. Without `take_files`, no file is sent to anybody.

        Raises KeyError for a tool that is not in `tools`, and CancelledError, but nothing else.
        """
        tool = self.tools[call.name]
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                output = await run_tool(tool, arguments, replace(context, delivers=tool.delivers))
                images, image_lines = await _prepare_images(output, context.see)
            files, file_lines = (take_files or _refuse_files)(output.files)
            # First what became of pictures and files, because the end of a text may be cut.
            if output.has_undelivered:
                file_lines.append(UNDELIVERED)
            text = "\n".join(filter(None, [*image_lines, *file_lines, output.text]))
            return replace(_build_result(tool, call, text, "ok"), images=images, files=files)
        except ToolError as error:
            return _build_result(tool, call, str(error), "error")
        except (Exception, SystemExit) as error:  # noqa: BLE001 a tool may raise anything; the turn continues
            if limit.expired():
                reason = f"{tool.name} took longer than {tool.timeout:g} s and was stopped."
                return _build_result(tool, call, reason, "timeout")
            result = _build_result(tool, call, f"{tool.name} failed unexpectedly.", "error")
            return replace(result, failure=describe_failure(error))


async def _prepare_images(output: Found, see: PictureFitter | None) -> tuple[tuple[Image, ...], list[str]]:
    """The pictures of a result as the model gets them, and what it reads of what happened to them."""
    images = []
    lines = []
    for picture in output.images:
        try:
            fitted = await (see or _refuse_image)(picture)
        except ToolError as error:
            lines.append(f"[a picture was left out: {error}]")
        else:
            images.append(Image(fitted.media_type, fitted.data))
    if len(images) == 1:
        lines.append("[a picture follows]")
    elif images:
        lines.append(f"[{len(images)} pictures follow]")
    return tuple(images), lines


async def _refuse_image(picture: Picture) -> Picture:
    raise ToolError("pictures are not shown here")


def _refuse_files(files: Sequence[File]) -> tuple[tuple[OutgoingFile, ...], list[str]]:
    return (), ["[files are not sent from here]"] if files else []


def _build_result(tool: Tool, call: ToolCall, text: str, outcome: ResultOutcome) -> ToolResult:
    left_out_chars = max(0, len(text) - MAX_KEPT_CHARS)  # cut first: to clean 2 MB takes 0.2 s
    text = break_control_tokens(to_sendable(text[:MAX_KEPT_CHARS])).strip() or "(nothing)"
    size_chars = len(text) + left_out_chars
    kept_text = text[:MAX_KEPT_CHARS] if size_chars > tool.length else None
    if outcome in TOOL_OUTCOMES:
        text = render_result(tool, text, size_chars)
    return ToolResult(call, text, outcome, kept_text, size_chars)


def render_result(tool: Tool, text: str, full_length: int | None, number: int | None = None) -> str:
    """A result as the model reads it: bounded, and marked as data where strangers wrote it.

    `full_length` is that of the result in characters, None if `text` is all of it; `number` is the one by
    which `read_more` continues, None if it cannot.
    """
    excerpt = text[: tool.length]
    if tool.outside:
        marked = build_data_block(f"result of {tool.name}", excerpt)
    else:
        marked = excerpt
    left_out = (full_length or len(text)) - len(excerpt)
    if left_out <= 0:
        return marked
    more = ""
    if number is not None:
        more = f"; read_more with number {number} and start {len(excerpt)} goes on"
    return f"{marked}\n[… {left_out} characters left out{more}]"
