"""Which tools there are now: what sources give, held against what admins have accepted, enabled and ruled.
Pure.

A definition that nobody has accepted waits for an admin, and its tool rests until then. The house's own tools
and a new tool of a file are the machine's own and wait for nobody.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from bot.agent.tool_search import META_TOOL_NAMES
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.tool_registry.tool_info import build_rule
from tools.base import Tool, ToolContext, ToolError, ToolFunction, definition_of, hash_tool

MAX_TROUBLE_CHARS = 1000  # characters of what is noted about a source


@dataclass(frozen=True, slots=True)
class SourceTools:
    """What a source gives now; `trouble` says why it gives nothing, or not all."""

    source: Source
    tools: tuple[Tool, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class RegistryState:
    """The tools that can be used, by name, and those that rest: known, but disabled, suspended or gone for
    now.

    `rows` are to be written down, `forgotten` are rows to be deleted, `troubles` noted of their sources;
    `waiting` wait for an admin since just now.
    """

    tools: Mapping[str, Tool]
    unavailable_tools: Mapping[str, Tool]
    rows_to_store: tuple[StoredTool, ...] = ()
    trouble_changes: Mapping[str, str | None] = field(default_factory=dict)
    newly_pending: tuple[StoredTool, ...] = ()
    names_to_delete: tuple[str, ...] = ()


def assemble(
    builtin_tools: Iterable[Tool],
    source_tools: Sequence[SourceTools],
    stored_tools: Iterable[StoredTool],
    *,
    now: float,
) -> RegistryState:
    """Put the tools together; `stored` are all rows."""
    work = _RegistryBuilder({one.name: one for one in stored_tools}, now)
    for tool in sorted(builtin_tools, key=lambda tool: tool.name):
        work.add_builtin(tool)
    rightful = _assign_owners(source_tools, work.stored_tools)
    for supply in source_tools:
        work.add_source(supply, rightful)
    work.add_missing({supply.source.name: supply for supply in source_tools})
    return RegistryState(
        dict(sorted(work.tools.items())),
        work.unavailable_tools,
        tuple(work.rows_to_store),
        work.find_trouble_changes(source_tools),
        tuple(work.newly_pending),
        tuple(work.names_to_delete),
    )


def format_unavailable(name: str) -> str:
    """What the model reads when a tool rests, or is not there any more."""
    return f"{name} is not available any more. Say so, and go on without it."


def build_missing_tool(name: str) -> Tool:
    """In the place of a tool that a turn has called and nobody knows any more."""
    anything = {"type": "object", "properties": {}, "additionalProperties": True}
    return Tool(name, "It is not there any more.", anything, _build_unavailable_function(name))


def _assign_owners(
    source_tools: Sequence[SourceTools], stored_tools: Mapping[str, StoredTool]
) -> dict[str, str]:
    """By name of a tool the source it may come from, where several give it: the one it came from so far."""
    givers: dict[str, list[str]] = defaultdict(list)
    for supply in source_tools:
        for tool in supply.tools:
            givers[tool.name].append(supply.source.name)
    known = {name: row.source for name, row in stored_tools.items()}
    return {name: known[name] if known.get(name) in places else places[0] for name, places in givers.items()}


class _RegistryBuilder:
    def __init__(self, stored_tools: Mapping[str, StoredTool], now: float) -> None:
        self.stored_tools = stored_tools
        self.tools: dict[str, Tool] = {}
        self.unavailable_tools: dict[str, Tool] = {}
        self.rows_to_store: list[StoredTool] = []
        self.newly_pending: list[StoredTool] = []
        self.names_to_delete: list[str] = []
        self._owners = dict.fromkeys(META_TOOL_NAMES, "the house")
        self._name_conflicts: dict[str, list[str]] = defaultdict(list)
        self._now = now

    def add_builtin(self, tool: Tool) -> None:
        self._owners[tool.name] = "the house"
        self._place_tool(tool, self.stored_tools.get(tool.name))

    def add_source(self, source_tools: SourceTools, owners: Mapping[str, str]) -> None:
        here = source_tools.source.name
        for tool in source_tools.tools:
            other = self._owners.get(tool.name)
            if other is None and owners[tool.name] != here:
                other = owners[tool.name]
            if other is not None:
                self._name_conflicts[here].append(
                    f"{tool.name} is left out: {other} and {here} both have a tool of that name"
                )
                continue
            self._owners[tool.name] = here
            row = self._update_row(tool, source_tools.source)
            self._place_tool(tool, row if source_tools.source.enabled else replace(row, enabled=False))

    def add_missing(self, source_tools_by_name: Mapping[str, SourceTools]) -> None:
        """What was accepted once and nobody gives now: prompts that began with it go on naming it. What
        nobody has accepted, or set anything of, is forgotten: else a server that lists other names each time
        would fill the house.
        """
        for name, row in self.stored_tools.items():
            if name in self._owners or row.source not in source_tools_by_name:
                continue
            if row.definition:
                self.unavailable_tools[name] = _build_unavailable_tool(row)
            elif row.enabled and row.rule is None and source_tools_by_name[row.source].trouble is None:
                self.names_to_delete.append(name)

    def find_trouble_changes(self, source_tools: Sequence[SourceTools]) -> dict[str, str | None]:
        """What is to be noted of sources, where it is other than what was noted last."""
        now = {one.source.name: self._describe_trouble(one) for one in source_tools}
        return {
            one.source.name: now[one.source.name]
            for one in source_tools
            if now[one.source.name] != one.source.trouble
        }

    def _describe_trouble(self, source_tools: SourceTools) -> str | None:
        said = [source_tools.trouble] if source_tools.trouble else []
        return "; ".join([*said, *self._name_conflicts[source_tools.source.name]])[:MAX_TROUBLE_CHARS] or None

    def _place_tool(self, tool: Tool, row: StoredTool | None) -> None:
        if row is not None and row.rule is not None:
            tool = replace(tool, rule=build_rule(row.rule))
        if row is None or (row.enabled and not row.is_suspended):
            self.tools[tool.name] = tool
        elif row.pending is None:
            self.unavailable_tools[tool.name] = replace(tool, function=_build_unavailable_function(tool.name))
        elif row.definition:  # of a definition that nobody has accepted no prompt ever tells
            self.unavailable_tools[tool.name] = _build_unavailable_tool(row)

    def _update_row(self, tool: Tool, source: Source) -> StoredTool:
        """The row of a tool as it stands now; noted if it is other than the one stored."""
        definition = json.loads(json.dumps(definition_of(tool)))
        hash = hash_tool(tool)
        before = self.stored_tools.get(tool.name)
        if before is None or not before.source:
            after = StoredTool(tool.name, source.name, definition, hash, changed_at=self._now)
            if source.kind != "file":
                after = replace(
                    after, definition={}, hash="", pending=definition, flagged=_describe_flags(definition)
                )
        elif before.hash == hash:
            # What was flagged before it changed and came back may never have been looked at.
            if before.pending is None:
                flagged = before.flagged
            else:
                flagged = _describe_flags(definition)
            after = replace(before, source=source.name, pending=None, flagged=flagged)
        elif before.pending is not None and dict(before.pending) == definition:
            after = before
        else:
            flags = _describe_flags(definition)
            after = replace(
                before, source=source.name, pending=definition, flagged=flags, changed_at=self._now
            )
        if after != before:
            self.rows_to_store.append(after)
            if after.pending is not None:
                self.newly_pending.append(after)
        return after


def _describe_flags(definition: Mapping[str, Any]) -> str | None:
    from bot.tool_registry.admin_actions import (
        find_flags,  # its lists of words are not wanted by a house without strangers
    )

    return "; ".join(find_flags(definition)) or None


def _build_unavailable_tool(row: StoredTool) -> Tool:
    """A tool that rests, as it was accepted: what was accepted is its words, not what runs behind them."""
    told = {key: row.definition[key] for key in ("name", "description", "input_schema")}
    return Tool(
        **told,
        function=_build_unavailable_function(row.name),
        source=row.source,
        told=row.definition.get("told"),
    )


def _build_unavailable_function(name: str) -> ToolFunction:
    """What a call of a tool finds that prompts still name and that cannot be used."""

    async def rest(arguments: Mapping[str, Any], context: ToolContext) -> NoReturn:
        raise ToolError(format_unavailable(name))

    return rest
