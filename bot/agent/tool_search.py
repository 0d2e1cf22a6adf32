"""Many tools: which of them stand in a prompt, and how the model finds and uses the others. Pure.

Where all of them would take too much of every prompt, a few stand in it, beside `find_tools` and `use_tool`:
so the prompt's front stays as it is, whatever is found. The tool that `use_tool` names runs as itself:
tool_calls.py unwraps such a call.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from bot.agent.history import BYTES_PER_TOKEN
from bot.agent.tool_matching.features import extract_features, extract_search_features
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.agent.tool_matching.ranking import rank_tools
from tools.base import Tool, ToolContext, ToolError
from tools.registry import measure_definition, render_definitions
from tools.schemas.notation import write_arguments

FIND_TOOLS = "find_tools"
USE_TOOL = "use_tool"
META_TOOL_NAMES = frozenset({FIND_TOOLS, USE_TOOL})

MAX_FOUND_TOOLS = 5  # tools that a search gives
MAX_RELEVANT_TOOLS = 8  # tools that a prompt gets because its first messages match them
MIN_RELATIVE_SCORE = 0.4  # of the best tool's score; tools below are not put into a prompt
MAX_RIVALS = 20  # tools among which words do not decide
RIVAL_SCORE = 0.8  # of the best tool's score: where no other has that, words decide
MAX_NAMED_TOOLS = 15  # tools that a search names; after the first MAX_FOUND_TOOLS, by name only
MAX_RESULT_CHARS = 1700  # characters of a search result: at most 600 tokens, names take the most
MAX_SUMMARY_CHARS = 160  # characters of a description in a search result
MAX_SOURCES_CHARS = 300  # characters that the names of sources take in the description of find_tools

NO_MATCH = "No tool has these words. Others may find one; if none does, answer without."
HOW_TO_USE = f"Run one with {USE_TOOL}: its name, and its arguments as an object."
NOT_RUN_DIRECTLY = "use_tool runs nothing by itself."

_FIND_TOOLS_DESCRIPTION = (
    "Find more tools, by what they do. Use it whenever none of your own tools does what is needed."
)
_FIND_TOOLS_SCHEMA = {
    "type": "object",
    "properties": {
        "words": {
            "type": "string",
            "description": "What the tool should do, in a few English words; or names of tools.",
        }
    },
    "required": ["words"],
}
_USE_TOOL_DESCRIPTION = "Run a tool that find_tools has found."
_USE_TOOL_SCHEMA = {
    "type": "object",
    "properties": {
        "arguments": {
            "type": "object",
            "description": "The arguments of that tool, as find_tools told them.",
        },
        "name": {"type": "string", "description": "Name of that tool."},
    },
    "required": ["arguments", "name"],
}


_PARAGRAPH_BREAK = "\n\n"
_NAME_BORDER = re.compile(r"[\s,;]+")


class SearchableTools:
    """All tools of a user in a chat, to be searched by words. Immutable; derived values are computed once."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in tools})

    @cached_property
    def tool_index(self) -> ToolIndex:
        """These tools, indexed so that messages can be matched against them."""
        return build_index(self.tools.values())

    @cached_property
    def meta_tools(self) -> tuple[Tool, Tool]:
        """`find_tools` over these tools, and `use_tool`."""

        async def find(arguments: Mapping[str, Any], context: ToolContext) -> str:
            return self.find(str(arguments["words"]))

        sources = sorted({tool.source for tool in self.tools.values() if tool.source})
        find_tools = Tool(
            FIND_TOOLS,
            _describe_find_tools(sources),
            _FIND_TOOLS_SCHEMA,
            find,
            timeout=10,
            repeatable=True,
            thinking="never",
        )
        use_tool = Tool(USE_TOOL, _USE_TOOL_DESCRIPTION, _USE_TOOL_SCHEMA, _refuse_direct_run)
        return find_tools, use_tool

    @cached_property
    def prompt_chars(self) -> Mapping[str, int]:
        """Characters that each tool takes of a prompt, `find_tools` and `use_tool` included."""
        definitions = render_definitions((*self.tools.values(), *self.meta_tools))
        return {definition["name"]: measure_definition(definition) for definition in definitions}

    def search(self, query: str, limit: int = MAX_FOUND_TOOLS) -> list[Tool]:
        """The tools that match these words best, the best first."""
        ranked = rank_tools(extract_search_features(query), self.tool_index, limit)
        return [self.tools[name] for name, _ in ranked]

    def find_rivals(self, texts: Sequence[str]) -> list[Tool]:
        """The tools that match some messages best, the best first; none where words clearly name one."""
        ranked = rank_tools(extract_features("\n".join(texts)), self.tool_index, MAX_RIVALS)
        if len(ranked) < 2 or ranked[1][1] < RIVAL_SCORE * ranked[0][1]:
            return []
        return [self.tools[name] for name, _ in ranked]

    def find(self, words: str) -> str:
        """What the model reads: of tools named exactly all there is to them, else those that match best."""
        named = [self.tools[name] for name in _NAME_BORDER.split(words) if name in self.tools]
        if named:
            named = named[:MAX_FOUND_TOOLS]
            max_chars = MAX_RESULT_CHARS // len(named) - len(_PARAGRAPH_BREAK)
            return _PARAGRAPH_BREAK.join(render_tool(tool, max_chars) for tool in named)
        return render_found_tools(self.search(words, MAX_NAMED_TOOLS))

    def can_fit(self, max_tokens: int) -> bool:
        """Whether all of them together take at most `max_tokens` of a prompt."""
        return sum(self.prompt_chars[name] for name in self.tools) // BYTES_PER_TOKEN <= max_tokens


def pick_tools(
    searchable: SearchableTools, texts: Sequence[str], recent_tools: Iterable[str], max_tokens: int
) -> tuple[str, ...]:
    """Names of the tools that stand in a prompt, in alphabetical order: all, if they fit into `max_tokens`.

    Else `find_tools` and `use_tool`, and as far as they fit, in this order: the built-in ones, those used
    recently (the newest first), those that match the `texts` of the messages that the prompt is for.
    Deterministic.
    """
    if searchable.can_fit(max_tokens):
        return tuple(sorted(searchable.tools))
    built_in = [name for name, tool in searchable.tools.items() if not tool.source]
    recent = [name for name in recent_tools if name in searchable.tools]
    relevant = _find_relevant(searchable, texts)
    chosen = set(META_TOOL_NAMES)
    chars_left = max_tokens * BYTES_PER_TOKEN - sum(searchable.prompt_chars[name] for name in chosen)
    for name in dict.fromkeys((*built_in, *recent, *relevant)):
        if searchable.prompt_chars[name] <= chars_left:
            chosen.add(name)
            chars_left -= searchable.prompt_chars[name]
    return tuple(sorted(chosen))


def _find_relevant(searchable: SearchableTools, texts: Sequence[str]) -> list[str]:
    ranked = rank_tools(extract_features("\n".join(texts)), searchable.tool_index, MAX_RELEVANT_TOOLS)
    return [name for name, score in ranked if score >= MIN_RELATIVE_SCORE * ranked[0][1]]


def render_found_tools(tools: Sequence[Tool]) -> str:
    """A search result for the model: how the first tools are called, and the names of the others."""
    if not tools:
        return NO_MATCH
    found = tools[:MAX_FOUND_TOOLS]
    others = ", ".join(tool.name for tool in tools[MAX_FOUND_TOOLS:])
    end = f"{HOW_TO_USE} Search for a tool by its name to read all of its arguments."
    if others:
        end = f"{end} More tools: {others}."
    chars_left = MAX_RESULT_CHARS - len(end) - len(found) * len(_PARAGRAPH_BREAK)
    paragraphs = []
    for number, tool in enumerate(found):
        paragraph = _render_summary(tool, chars_left // (len(found) - number))
        paragraphs.append(paragraph)
        chars_left -= len(paragraph)
    return _PARAGRAPH_BREAK.join([*paragraphs, end])


def _render_summary(tool: Tool, max_chars: int) -> str:
    [function] = render_definitions([tool])
    summary = " ".join(function["description"].split())
    if len(summary) > MAX_SUMMARY_CHARS:
        summary = f"{summary[: MAX_SUMMARY_CHARS - 1]}…"
    head = f"{tool.name}: {summary}\narguments: "
    return head + write_arguments(function["parameters"], max_chars - len(head))


def render_tool(tool: Tool, max_chars: int = MAX_RESULT_CHARS) -> str:
    """A tool as text: its name, description and arguments, as in its definition in a prompt if that fits."""
    [function] = render_definitions([tool])
    parameters = function["parameters"]
    schema = {key: parameters[key] for key in ("properties", "required") if key in parameters}
    text = f"{tool.name}: {function['description']}\narguments: {json.dumps(schema, ensure_ascii=False)}"
    if len(text) <= max_chars:
        return text
    return _render_summary(tool, max_chars)


def _describe_find_tools(sources: Sequence[str]) -> str:
    """With the names of the sources as far as they fit, so that a search can say which one it means."""
    if not sources:
        return _FIND_TOOLS_DESCRIPTION
    names = textwrap.shorten(", ".join(sources), MAX_SOURCES_CHARS, placeholder=" …")
    return f"{_FIND_TOOLS_DESCRIPTION} There are tools of: {names}."


async def _refuse_direct_run(arguments: Mapping[str, Any], context: ToolContext) -> str:
    raise ToolError(NOT_RUN_DIRECTLY)
