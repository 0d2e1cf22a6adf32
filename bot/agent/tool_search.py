"""Many tools: which of them stand in a prompt, and how the model finds and uses the others. Pure.

Where all of them would take too much of every prompt, a few stand in it, beside `find_tools` and `use_tool`:
so the prompt's front stays as it is, whatever is found. What `use_tool` names runs as itself: calls.py sees
through it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from bot.agent import history
from bot.agent.tool_matching import features as wording
from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.agent.tool_matching.ranking import rank_tools
from tools.base import Tool, ToolContext, ToolError
from tools.registry import render_definitions

FIND_TOOLS = "find_tools"
USE_TOOL = "use_tool"
META_TOOL_NAMES = frozenset({FIND_TOOLS, USE_TOOL})

MAX_FOUND_TOOLS = 5  # tools that a search gives
MAX_RELEVANT_TOOLS = 8  # tools at most that stand in a prompt because its first words fit them
MIN_RELATIVE_SCORE = 0.4  # of the best tool's worth: one that has less does not stand in a prompt for it
MAX_RESULT_CHARS = 8000  # characters of what a search gives
MAX_TOOL_CHARS = 4000  # and of one tool in it

NO_MATCH = "No tool has these words. Others may find one; if none does, answer without."
NOT_RUN_DIRECTLY = "use_tool runs nothing by itself."

_FIND_TOOLS_DESCRIPTION = (
    "Find more tools, by what they do. Use it whenever none of your own tools does what is needed."
)
_FIND_TOOLS_SCHEMA = {
    "type": "object",
    "properties": {
        "words": {"type": "string", "description": "What the tool should do, in a few English words."}
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


class SearchableTools:
    """All tools of somebody in a chat, to be found by words. Never changes; what is asked of it is worked out
    once.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in tools})

    @cached_property
    def tool_index(self) -> ToolIndex:
        """These tools as messages are held against them."""
        return build_index(self.tools.values())

    @cached_property
    def meta_tools(self) -> tuple[Tool, Tool]:
        """`find_tools` and `use_tool` of this shelf."""

        async def look(arguments: Mapping[str, Any], context: ToolContext) -> str:
            return render_found_tools(self.search(str(arguments["words"])))

        find = Tool(
            FIND_TOOLS,
            _FIND_TOOLS_DESCRIPTION,
            _FIND_TOOLS_SCHEMA,
            look,
            timeout=10,
            repeatable=True,
            thinking="never",
        )
        return find, Tool(USE_TOOL, _USE_TOOL_DESCRIPTION, _USE_TOOL_SCHEMA, _refuse_direct_run)

    @cached_property
    def prompt_chars(self) -> Mapping[str, int]:
        """Characters that each tool takes of a prompt, the doors as well."""
        shown = render_definitions((*self.tools.values(), *self.meta_tools))
        return {one["function"]["name"]: len(str(one)) for one in shown}

    def search(self, query: str, limit: int = MAX_FOUND_TOOLS) -> list[Tool]:
        """The tools that fit these words best, the best first."""
        return [
            self.tools[name]
            for name, _ in rank_tools(wording.extract_features(query), self.tool_index, limit)
        ]

    def can_fit(self, max_tokens: int) -> bool:
        """Whether all of them together take so many tokens of a prompt at most."""
        return sum(self.prompt_chars[name] for name in self.tools) // history.BYTES_PER_TOKEN <= max_tokens


def pick_tools(
    searchable: SearchableTools, texts: Sequence[str], recent_tools: Iterable[str], max_tokens: int
) -> tuple[str, ...]:
    """Names of the tools that stand in a prompt: all, if they take `budget` tokens at most.

    Else the doors, and as far as there is room the house's own, those used of late, the newest first, and
    those that fit the `texts` of the messages that the prompt is made for. The same for the same; in order of
    their names.
    """
    if searchable.can_fit(max_tokens):
        return tuple(sorted(searchable.tools))
    own = [name for name, tool in searchable.tools.items() if not tool.source]
    used = [name for name in recent_tools if name in searchable.tools]
    room = max_tokens * history.BYTES_PER_TOKEN - sum(
        searchable.prompt_chars[name] for name in META_TOOL_NAMES
    )
    chosen = set(META_TOOL_NAMES)
    for name in dict.fromkeys((*own, *used, *_find_relevant(searchable, texts))):
        if searchable.prompt_chars[name] <= room:
            chosen.add(name)
            room -= searchable.prompt_chars[name]
    return tuple(sorted(chosen))


def _find_relevant(searchable: SearchableTools, texts: Sequence[str]) -> list[str]:
    found = rank_tools(wording.extract_features("\n".join(texts)), searchable.tool_index, MAX_RELEVANT_TOOLS)
    return [name for name, worth in found if worth >= MIN_RELATIVE_SCORE * found[0][1]]


def render_found_tools(tools: Sequence[Tool]) -> str:
    """What a search tells the model: how each tool is called; of those that there is no room for, the names
    only.
    """
    told = []
    left_out = list[str]()
    room = MAX_RESULT_CHARS
    for tool in tools:
        text = render_tool(tool)
        if len(text) <= room:
            told.append(text)
            room -= len(text)
        else:
            left_out.append(tool.name)
    if not tools:
        return NO_MATCH
    if left_out:
        told.append(f"Search for these by name to read how they are called: {', '.join(left_out)}.")
    return "\n\n".join([*told, f"Run one with {USE_TOOL}: its name, and its arguments as an object."])


def render_tool(tool: Tool) -> str:
    """A tool as text: its name, what it does, and what it takes, as its definition in a prompt would say."""
    shown = render_definitions([tool])[0]["function"]
    takes = {
        key: shown["parameters"][key] for key in ("properties", "required") if key in shown["parameters"]
    }
    text = f"{tool.name}: {shown['description']}\narguments: {json.dumps(takes, ensure_ascii=False)}"
    if len(text) <= MAX_TOOL_CHARS:
        return text
    return f"{text[:MAX_TOOL_CHARS]}…"


async def _refuse_direct_run(arguments: Mapping[str, Any], context: ToolContext) -> str:
    raise ToolError(NOT_RUN_DIRECTLY)
