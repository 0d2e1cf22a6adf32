"""Which tools there are now: what sources give, compared with what admins have accepted and set.

A definition that nobody has accepted waits for an admin, and its tool is suspended until then. Built-in tools
and a new tool of a file are the machine's own and wait for nobody. Pure.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from bot.agent.tool_search import META_TOOL_NAMES
from bot.db.tools.sources import Source, SourceKind
from bot.db.tools.tools import StoredTool
from bot.tool_registry.admin_actions import find_flags
from bot.tool_registry.tool_info import build_rule, choose_told_schema
from tools.base import Tool, ToolContext, ToolError, ToolFunction, definition_of, hash_definition, hash_tool

MAX_TROUBLE_CHARS = 1000  # of the trouble stored with a source


@dataclass(frozen=True, slots=True)
class SourceTools:
    """What a source gives now; `trouble` says why it gives nothing, or not everything."""

    source: Source
    tools: tuple[Tool, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class RegistryState:
    """The tools that can be used, by name, and known ones that are disabled, suspended or gone for now.

    `rows_to_store` are new or changed rows, `names_to_delete` those of rows to delete, `trouble_changes` are
    by source; `newly_pending` wait for an admin since just now.
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
    """Put the tools together; `stored_tools` are all rows."""
    builder = _RegistryBuilder({row.name: row for row in stored_tools}, now)
    for tool in sorted(builtin_tools, key=lambda tool: tool.name):
        builder.add_builtin(tool)
    owners = _assign_owners(source_tools, builder.stored_tools)
    for source in source_tools:
        builder.add_source(source, owners)
    builder.add_missing({source.source.name: source for source in source_tools})
    return RegistryState(
        dict(sorted(builder.tools.items())),
        builder.unavailable_tools,
        tuple(builder.rows_to_store),
        builder.find_trouble_changes(source_tools),
        tuple(builder.newly_pending),
        tuple(builder.names_to_delete),
    )


def format_unavailable(name: str) -> str:
    """Return what the model reads when a tool is disabled or suspended, or does not exist any more."""
    return f"{name} is not available any more. Say so, and go on without it."


def build_missing_tool(name: str) -> Tool:
    """Build a stand-in for a tool that a turn has called and that does not exist any more."""
    any_arguments = {"type": "object", "properties": {}, "additionalProperties": True}
    return Tool(name, "It is not there any more.", any_arguments, _build_unavailable_function(name))


def _assign_owners(
    source_tools: Sequence[SourceTools], stored_tools: Mapping[str, StoredTool]
) -> dict[str, str]:
    """The source that each tool may come from: of several that give it, the one it came from so far."""
    owners: dict[str, str] = {}
    for source in source_tools:
        name = source.source.name
        for tool in source.tools:
            row = stored_tools.get(tool.name)
            if tool.name not in owners or (row is not None and row.source == name):
                owners[tool.name] = name
    return owners


class _RegistryBuilder:
    def __init__(self, stored_tools: Mapping[str, StoredTool], now: float) -> None:
        self.stored_tools = stored_tools
        self.tools: dict[str, Tool] = {}
        self.unavailable_tools: dict[str, Tool] = {}
        self.rows_to_store: list[StoredTool] = []
        self.newly_pending: list[StoredTool] = []
        self.names_to_delete: list[str] = []
        self._owners = dict.fromkeys(META_TOOL_NAMES, "the gateway")
        self._name_conflicts: dict[str, list[str]] = defaultdict(list)
        self._now = now

    def add_builtin(self, tool: Tool) -> None:
        self._owners[tool.name] = "the gateway"
        self._place_tool(tool, self.stored_tools.get(tool.name))

    def add_source(self, source_tools: SourceTools, owners: Mapping[str, str]) -> None:
        name = source_tools.source.name
        for tool in source_tools.tools:
            owner = self._owners.get(tool.name)
            if owner is None and owners[tool.name] != name:
                owner = owners[tool.name]
            if owner is not None:
                self._name_conflicts[name].append(
                    f"{tool.name} is left out: {owner} and {name} both have a tool of that name"
                )
                continue
            self._owners[tool.name] = name
            row = self._update_row(tool, source_tools.source)
            if not source_tools.source.enabled:
                row = replace(row, enabled=False)
            if reduction := source_tools.source.get_reduction(tool.name):
                tool = replace(tool, reduction=reduction)
            if source_tools.source.is_trusted:
                tool = replace(tool, trusted=True)
            self._place_tool(tool, row, source_tools.source.kind)

    def add_missing(self, source_tools_by_name: Mapping[str, SourceTools]) -> None:
        """Handle tools with a row that no source gives now.

        Prompts that began with one that was accepted still name it. A row that nobody has accepted, or set
        anything of, is deleted: else a server that lists other names each time would fill the database.
        """
        for name, row in self.stored_tools.items():
            if name in self._owners or row.source not in source_tools_by_name:
                continue
            given = source_tools_by_name[row.source]
            if row.definition:
                self.unavailable_tools[name] = _build_unavailable_tool(row, given.source.kind)
            elif row.enabled and row.rule is None and given.trouble is None:
                self.names_to_delete.append(name)

    def find_trouble_changes(self, source_tools: Sequence[SourceTools]) -> dict[str, str | None]:
        """The troubles of sources where they differ from the stored ones."""
        changes: dict[str, str | None] = {}
        for source in source_tools:
            trouble = self._describe_trouble(source)
            if trouble != source.source.trouble:
                changes[source.source.name] = trouble
        return changes

    def _describe_trouble(self, source_tools: SourceTools) -> str | None:
        troubles = [*self._name_conflicts[source_tools.source.name]]
        if source_tools.trouble:
            troubles.insert(0, source_tools.trouble)
        return "; ".join(troubles)[:MAX_TROUBLE_CHARS] or None

    def _place_tool(self, tool: Tool, row: StoredTool | None, source_kind: SourceKind | None = None) -> None:
        if row is not None and row.rule is not None:
            tool = replace(tool, rule=build_rule(row.rule, hash_tool(tool)) or tool.rule)
        if row is not None and row.delivers != tool.delivers:
            tool = replace(tool, delivers=row.delivers)
        if row is None or (row.enabled and not row.is_suspended):
            self.tools[tool.name] = tool
        elif row.pending is None:
            self.unavailable_tools[tool.name] = replace(tool, function=_build_unavailable_function(tool.name))
        elif row.definition:  # no prompt ever names a definition that nobody has accepted
            self.unavailable_tools[tool.name] = _build_unavailable_tool(row, source_kind)

    def _update_row(self, tool: Tool, source: Source) -> StoredTool:
        """The row of a tool as it stands now; to be stored if it differs from the stored one."""
        definition = json.loads(json.dumps(definition_of(tool)))
        hash = hash_tool(tool)
        before = self.stored_tools.get(tool.name)
        if before is None or not before.source:
            after = StoredTool(tool.name, source.name, definition, hash, changed_at=self._now)
            if source.kind != "file":
                after = replace(
                    after, definition={}, hash="", pending=definition, flagged=_describe_flags(definition)
                )
        elif before.hash == hash and _has_same_sends(before.definition, definition):
            # What was flagged before it changed and came back may never have been looked at.
            flagged = before.flagged if before.pending is None else _describe_flags(definition)
            after = replace(before, source=source.name, definition=definition, pending=None, flagged=flagged)
        elif before.pending is not None and _is_same_definition(before.pending, definition):
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


def _has_same_sends(stored: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Whether values go where they went; of a definition that was stored before this was known, they do."""
    return "sends" not in stored or stored["sends"] == current.get("sends")


def _is_same_definition(stored: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    return hash_definition(stored) == hash_definition(current) and _has_same_sends(stored, current)


def _describe_flags(definition: Mapping[str, Any]) -> str | None:
    return "; ".join(find_flags(definition)) or None


def _build_unavailable_tool(row: StoredTool, source_kind: SourceKind | None) -> Tool:
    """A suspended tool as it was accepted: an admin accepts its words, not the function behind them."""
    words = {key: row.definition[key] for key in ("name", "description", "input_schema")}
    return Tool(
        **words,
        function=_build_unavailable_function(row.name),
        source=row.source,
        told=choose_told_schema(words["input_schema"], source_kind),
    )


def _build_unavailable_function(name: str) -> ToolFunction:
    """The function of a tool that prompts still name and that cannot be used."""

    async def raise_unavailable(arguments: Mapping[str, Any], context: ToolContext) -> NoReturn:
        raise ToolError(format_unavailable(name))

    return raise_unavailable
