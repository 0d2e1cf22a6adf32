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

from bot.agent.tool_search import DOORS
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.tool_registry.tool_info import rule_of
from tools.base import Tool, ToolContext, ToolError, ToolFunction, definition_hash, definition_of

LONGEST = 1000  # characters of what is noted about a source


@dataclass(frozen=True, slots=True)
class Supply:
    """What a source gives now; `trouble` says why it gives nothing, or not all."""

    source: Source
    tools: tuple[Tool, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The tools that can be used, by name, and those that rest: known, but disabled, suspended or gone for
    now.

    `rows` are to be written down, `forgotten` are rows to be deleted, `troubles` noted of their sources;
    `waiting` wait for an admin since just now.
    """

    tools: Mapping[str, Tool]
    resting: Mapping[str, Tool]
    rows: tuple[StoredTool, ...] = ()
    troubles: Mapping[str, str | None] = field(default_factory=dict)
    waiting: tuple[StoredTool, ...] = ()
    forgotten: tuple[str, ...] = ()


def assemble(
    own: Iterable[Tool], supplies: Sequence[Supply], stored: Iterable[StoredTool], *, now: float
) -> Standing:
    """Put the tools together; `stored` are all rows."""
    work = _Assembling({one.name: one for one in stored}, now)
    for tool in sorted(own, key=lambda tool: tool.name):
        work.own(tool)
    rightful = _rightful(supplies, work.stored)
    for supply in supplies:
        work.supplied(supply, rightful)
    work.gone({supply.source.name: supply for supply in supplies})
    return Standing(
        dict(sorted(work.tools.items())),
        work.resting,
        tuple(work.rows),
        work.troubles(supplies),
        tuple(work.waiting),
        tuple(work.forgotten),
    )


def unavailable(name: str) -> str:
    """What the model reads when a tool rests, or is not there any more."""
    return f"{name} is not available any more. Say so, and go on without it."


def gone(name: str) -> Tool:
    """In the place of a tool that a turn has called and nobody knows any more."""
    anything = {"type": "object", "properties": {}, "additionalProperties": True}
    return Tool(name, "It is not there any more.", anything, _resting(name))


def _rightful(supplies: Sequence[Supply], stored: Mapping[str, StoredTool]) -> dict[str, str]:
    """By name of a tool the source it may come from, where several give it: the one it came from so far."""
    givers: dict[str, list[str]] = defaultdict(list)
    for supply in supplies:
        for tool in supply.tools:
            givers[tool.name].append(supply.source.name)
    known = {name: row.source for name, row in stored.items()}
    return {name: known[name] if known.get(name) in places else places[0] for name, places in givers.items()}


class _Assembling:
    def __init__(self, stored: Mapping[str, StoredTool], now: float) -> None:
        self.stored = stored
        self.tools: dict[str, Tool] = {}
        self.resting: dict[str, Tool] = {}
        self.rows: list[StoredTool] = []
        self.waiting: list[StoredTool] = []
        self.forgotten: list[str] = []
        self._places = dict.fromkeys(DOORS, "the house")
        self._left_out: dict[str, list[str]] = defaultdict(list)
        self._now = now

    def own(self, tool: Tool) -> None:
        self._places[tool.name] = "the house"
        self._place(tool, self.stored.get(tool.name))

    def supplied(self, supply: Supply, rightful: Mapping[str, str]) -> None:
        here = supply.source.name
        for tool in supply.tools:
            other = self._places.get(tool.name)
            if other is None and rightful[tool.name] != here:
                other = rightful[tool.name]
            if other is not None:
                self._left_out[here].append(
                    f"{tool.name} is left out: {other} and {here} both have a tool of that name"
                )
                continue
            self._places[tool.name] = here
            row = self._row(tool, supply.source)
            self._place(tool, row if supply.source.enabled else replace(row, enabled=False))

    def gone(self, given: Mapping[str, Supply]) -> None:
        """What was accepted once and nobody gives now: prompts that began with it go on naming it. What
        nobody has accepted, or set anything of, is forgotten: else a server that lists other names each time
        would fill the house.
        """
        for name, row in self.stored.items():
            if name in self._places or row.source not in given:
                continue
            if row.definition:
                self.resting[name] = _as_accepted(row)
            elif row.enabled and row.rule is None and given[row.source].trouble is None:
                self.forgotten.append(name)

    def troubles(self, supplies: Sequence[Supply]) -> dict[str, str | None]:
        """What is to be noted of sources, where it is other than what was noted last."""
        now = {one.source.name: self._trouble(one) for one in supplies}
        return {
            one.source.name: now[one.source.name]
            for one in supplies
            if now[one.source.name] != one.source.trouble
        }

    def _trouble(self, supply: Supply) -> str | None:
        said = [supply.trouble] if supply.trouble else []
        return "; ".join([*said, *self._left_out[supply.source.name]])[:LONGEST] or None

    def _place(self, tool: Tool, row: StoredTool | None) -> None:
        if row is not None and row.rule is not None:
            tool = replace(tool, rule=rule_of(row.rule))
        if row is None or (row.enabled and not row.suspended):
            self.tools[tool.name] = tool
        elif row.pending is None:
            self.resting[tool.name] = replace(tool, function=_resting(tool.name))
        elif row.definition:  # of a definition that nobody has accepted no prompt ever tells
            self.resting[tool.name] = _as_accepted(row)

    def _row(self, tool: Tool, source: Source) -> StoredTool:
        """The row of a tool as it stands now; noted if it is other than the one stored."""
        definition = json.loads(json.dumps(definition_of(tool)))
        hash = definition_hash(tool)
        before = self.stored.get(tool.name)
        if before is None or not before.source:
            after = StoredTool(tool.name, source.name, definition, hash, changed_at=self._now)
            if source.kind != "file":
                after = replace(after, definition={}, hash="", pending=definition, flagged=_flags(definition))
        elif before.hash == hash:
            # What was flagged before it changed and came back may never have been looked at.
            if before.pending is None:
                flagged = before.flagged
            else:
                flagged = _flags(definition)
            after = replace(before, source=source.name, pending=None, flagged=flagged)
        elif before.pending is not None and dict(before.pending) == definition:
            after = before
        else:
            flags = _flags(definition)
            after = replace(
                before, source=source.name, pending=definition, flagged=flags, changed_at=self._now
            )
        if after != before:
            self.rows.append(after)
            if after.pending is not None:
                self.waiting.append(after)
        return after


def _flags(definition: Mapping[str, Any]) -> str | None:
    from bot.tool_registry.admin_actions import (
        flags_of,  # its lists of words are not wanted by a house without strangers
    )

    return "; ".join(flags_of(definition)) or None


def _as_accepted(row: StoredTool) -> Tool:
    """A tool that rests, as it was accepted: what was accepted is its words, not what runs behind them."""
    told = {key: row.definition[key] for key in ("name", "description", "input_schema")}
    return Tool(**told, function=_resting(row.name), source=row.source, told=row.definition.get("told"))


def _resting(name: str) -> ToolFunction:
    """What a call of a tool finds that prompts still name and that cannot be used."""

    async def rest(arguments: Mapping[str, Any], context: ToolContext) -> NoReturn:
        raise ToolError(unavailable(name))

    return rest
