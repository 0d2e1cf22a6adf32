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
from bot.agent.tool_matching.index import Offer, index
from bot.agent.tool_matching.ranking import ranked
from tools.base import Tool, ToolContext, ToolError
from tools.registry import definitions

FIND = "find_tools"
USE = "use_tool"
DOORS = frozenset({FIND, USE})

FOUND = 5  # tools that a search gives
RELEVANT = 8  # tools at most that stand in a prompt because its first words fit them
WEAK = 0.4  # of the best tool's worth: one that has less does not stand in a prompt for it
ROOM = 8000  # characters of what a search gives
LONGEST = 4000  # and of one tool in it

NOTHING = "No tool has these words. Others may find one; if none does, answer without."
NOT_ALONE = "use_tool runs nothing by itself."

_FIND = "Find more tools, by what they do. Use it whenever none of your own tools does what is needed."
_FIND_TAKES = {
    "type": "object",
    "properties": {
        "words": {"type": "string", "description": "What the tool should do, in a few English words."}
    },
    "required": ["words"],
}
_USE = "Run a tool that find_tools has found."
_USE_TAKES = {
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


class Shelf:
    """All tools of somebody in a chat, to be found by words. Never changes; what is asked of it is worked out
    once.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in tools})

    @cached_property
    def offer(self) -> Offer:
        """These tools as messages are held against them."""
        return index(self.tools.values())

    @cached_property
    def doors(self) -> tuple[Tool, Tool]:
        """`find_tools` and `use_tool` of this shelf."""

        async def look(arguments: Mapping[str, Any], context: ToolContext) -> str:
            return listed(self.find(str(arguments["words"])))

        find = Tool(FIND, _FIND, _FIND_TAKES, look, timeout=10, repeatable=True, thinking="never")
        return find, Tool(USE, _USE, _USE_TAKES, _not_alone)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Characters that each tool takes of a prompt, the doors as well."""
        shown = definitions((*self.tools.values(), *self.doors))
        return {one["function"]["name"]: len(str(one)) for one in shown}

    def find(self, words: str, most: int = FOUND) -> list[Tool]:
        """The tools that fit these words best, the best first."""
        return [self.tools[name] for name, _ in ranked(wording.read(words), self.offer, most)]

    def fits(self, budget: int) -> bool:
        """Whether all of them together take so many tokens of a prompt at most."""
        return sum(self.sizes[name] for name in self.tools) // history.BYTES_A_TOKEN <= budget


def picked(shelf: Shelf, texts: Sequence[str], recent: Iterable[str], budget: int) -> tuple[str, ...]:
    """Names of the tools that stand in a prompt: all, if they take `budget` tokens at most.

    Else the doors, and as far as there is room the house's own, those used of late, the newest first, and
    those that fit the `texts` of the messages that the prompt is made for. The same for the same; in order of
    their names.
    """
    if shelf.fits(budget):
        return tuple(sorted(shelf.tools))
    own = [name for name, tool in shelf.tools.items() if not tool.source]
    used = [name for name in recent if name in shelf.tools]
    room = budget * history.BYTES_A_TOKEN - sum(shelf.sizes[name] for name in DOORS)
    chosen = set(DOORS)
    for name in dict.fromkeys((*own, *used, *_relevant(shelf, texts))):
        if shelf.sizes[name] <= room:
            chosen.add(name)
            room -= shelf.sizes[name]
    return tuple(sorted(chosen))


def _relevant(shelf: Shelf, texts: Sequence[str]) -> list[str]:
    found = ranked(wording.read("\n".join(texts)), shelf.offer, RELEVANT)
    return [name for name, worth in found if worth >= WEAK * found[0][1]]


def listed(tools: Sequence[Tool]) -> str:
    """What a search tells the model: how each tool is called; of those that there is no room for, the names
    only.
    """
    told = []
    left_out = list[str]()
    room = ROOM
    for tool in tools:
        text = described(tool)
        if len(text) <= room:
            told.append(text)
            room -= len(text)
        else:
            left_out.append(tool.name)
    if not tools:
        return NOTHING
    if left_out:
        told.append(f"Search for these by name to read how they are called: {', '.join(left_out)}.")
    return "\n\n".join([*told, f"Run one with {USE}: its name, and its arguments as an object."])


def described(tool: Tool) -> str:
    """A tool as text: its name, what it does, and what it takes, as its definition in a prompt would say."""
    shown = definitions([tool])[0]["function"]
    takes = {
        key: shown["parameters"][key] for key in ("properties", "required") if key in shown["parameters"]
    }
    text = f"{tool.name}: {shown['description']}\narguments: {json.dumps(takes, ensure_ascii=False)}"
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}…"


async def _not_alone(arguments: Mapping[str, Any], context: ToolContext) -> str:
    raise ToolError(NOT_ALONE)
