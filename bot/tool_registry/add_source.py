"""Adds what was offered: a source with its tools, whose words an admin has seen, in one transaction with its
audit row.

Tools whose words are flagged are kept suspended until they are accepted a second time; names are never taken
over.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.agent.tool_search import DOORS
from bot.db.tools import sources, tools
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import Act, flags_of, shown
from bot.tool_registry.previews import Offer
from bot.tool_registry.tool_info import cost
from tools.base import Tool, definition_hash, definition_of


@dataclass(frozen=True, slots=True)
class Added:
    """What was added: names of tools that admins may use now, of those that wait with why, and what they
    cost.
    """

    source: str
    ready: tuple[str, ...]
    waiting: tuple[tuple[str, str], ...]
    cost: int


async def add(act: Act, offer: Offer, picked: Collection[str] | None = None) -> Added:
    """Add a source and its tools; of those not `picked` (None: all are) the source keeps what it needs to
    give them later, and they rest. Raises ChangeRefused when a name is taken or nothing of this name is
    offered.
    """
    name = offer.source.name
    if await sources.find(act.tx, name) is not None:
        raise ChangeRefused(f"There is a source {name} already. Remove it first, or take another name.")
    chosen = _chosen(offer.tools, picked)
    await _free(act, offer.tools, name)
    await sources.put(act.tx, replace(offer.source, added_by=act.by.person, added_at=act.now))
    rows = [_row(act, tool, enabled=tool in chosen) for tool in offer.tools]
    return await _kept(act, offer.source, "added", rows)


async def pick(act: Act, offer: Offer) -> Added:
    """Add to a source what is new in it; what it gives already stays as it was accepted. Raises
    ChangeRefused.
    """
    before = await sources.find(act.tx, offer.source.name)
    if before is None:
        raise ChangeRefused(f"There is no source {offer.source.name} any more.")
    known = {one.name for one in await tools.all_of(act.tx)}
    await _free(act, offer.tools, before.name)
    await sources.put(act.tx, replace(before, options=offer.source.options))
    return await _kept(
        act, before, "picked from", [_row(act, tool) for tool in offer.tools if tool.name not in known]
    )


async def choose(act: Act, name: str, place: int) -> Source:
    """Tick an operation of a document, by its place in the list, or take the tick away; nothing is added by
    it.
    """
    source = await document(act, name)
    chosen = set(source.options.get("chosen", ())) ^ {place}
    ticked = replace(source, options={**source.options, "chosen": sorted(chosen)})
    await sources.put(act.tx, ticked)
    return ticked


async def confirm(act: Act, name: str, hosts: Collection[str]) -> Source:
    """An admin has read that a document's calls go to these hosts, and agrees."""
    source = await document(act, name)
    before = list(source.options.get("hosts", ()))
    after = [*before, *(one for one in hosts if one not in before)]
    if after != before:
        source = replace(source, options={**source.options, "hosts": after})
        await sources.put(act.tx, source)
        await act.note("confirmed hosts", f"source {name}", {"hosts": before}, {"hosts": after})
    return source


async def document(act: Act, name: str) -> Source:
    """The source of this name, which is a document to pick from. Raises ChangeRefused."""
    source = await sources.find(act.tx, name)
    if source is None or source.kind != "openapi":
        raise ChangeRefused(f"There is no document called {name[:60]}.")
    return source


async def _kept(act: Act, source: Source, what: str, rows: Sequence[StoredTool]) -> Added:
    for row in rows:
        await tools.put(act.tx, row)
    ready = tuple(row.name for row in rows if row.enabled and row.pending is None)
    waiting = tuple((row.name, row.flagged or "") for row in rows if row.enabled and row.pending is not None)
    after: dict[str, Any] = shown(source) | {"tools": list(ready)}
    if waiting:
        after["suspended"] = [name for name, _ in waiting]
    await act.note(what, f"source {source.name}", None, after)
    return Added(source.name, ready, waiting, sum(cost(row.definition) for row in rows if row.name in ready))


def _row(act: Act, tool: Tool, *, enabled: bool = True) -> StoredTool:
    """How a tool is kept: as accepted, or if its words are flagged as waiting for a second look."""
    definition = definition_of(tool)
    flags = flags_of(definition_of(tool))
    row = StoredTool(
        tool.name, tool.source, definition, definition_hash(tool), enabled=enabled, changed_at=act.now
    )
    if flags:
        return replace(row, definition={}, hash="", pending=definition, flagged="; ".join(flags))
    return row


def _chosen(offered: Sequence[Tool], picked: Collection[str] | None) -> list[Tool]:
    names = {tool.name for tool in offered}
    unknown = sorted(set(picked or ()) - names)
    if unknown:
        raise ChangeRefused(
            f"No tool called {unknown[0][:60]} is offered. There are: {', '.join(sorted(names))[:400]}."
        )
    return [tool for tool in offered if picked is None or tool.name in picked]


async def _free(act: Act, offered: Sequence[Tool], source: str) -> None:
    """Refuse names that other tools have: whoever was granted one shall not get another."""
    known = {one.name: one.source for one in await tools.all_of(act.tx)}
    for tool in offered:
        is_own = tool.name in act.own or tool.name in DOORS
        holder = "the house" if is_own else known.get(tool.name, source)
        if holder != source:
            raise ChangeRefused(
                f"There is a tool {tool.name} already, of {holder or 'the house'}. Take another name."
            )
