"""What admins do about tools that are registered: enable, disable, remove, accept, set a rule. One set of
acts behind the chat, the command line and the web page.

Each works inside the caller's transaction, with its audit row and a bumped revision; texts are the caller's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bot.db import revisions
from bot.db.engine import Transaction
from bot.db.tools import audit, grants, sources, tools
from bot.db.tools.audit import By
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.errors import ChangeRefused, NeedsConfirming
from bot.tool_registry.tool_info import Card, Own, card, cost, rule_of
from tools.base import Rule, definition_hash, definition_of, hash_of


@dataclass(frozen=True, slots=True)
class Act:
    """One act at work: who does it, when, in which transaction; `own` are the house's own tools."""

    tx: Transaction
    by: By
    now: float
    own: Own

    async def note(
        self, what: str, subject: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """Write the change down, and have a running gateway notice it."""
        await audit.note(self.tx, self.by, what, subject, change=(before, after), now=self.now)
        await revisions.bump(self.tx, revisions.TOOLS)


@dataclass(frozen=True, slots=True)
class Difference:
    """A definition that waits for an admin, beside the one accepted last (None: there was none).

    `hash` is the fingerprint of the one that waits; `flags` is why its words want a second look.
    """

    tool: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    hash: str
    flags: tuple[str, ...]

    @property
    def costs(self) -> tuple[int, int]:
        """Tokens of a prompt, estimated: before and after."""
        return cost(self.before) if self.before else 0, cost(self.after)


async def enable(act: Act, name: str, *, enabled: bool) -> str:
    """Have a tool, or else a source of this name, work or rest; returns what it was, "tool" or "source"."""
    what = "enabled" if enabled else "disabled"
    source = await sources.find(act.tx, name)
    if source is not None and not await _is_tool(act, name):
        if source.enabled != enabled:
            await sources.enable(act.tx, name, enabled=enabled)
            await act.note(what, f"source {name}", {"enabled": source.enabled}, {"enabled": enabled})
        return "source"
    stored = await row(act, name)
    if stored.enabled != enabled:
        await tools.put(act.tx, replace(stored, enabled=enabled, changed_at=act.now))
        await act.note(what, f"tool {name}", {"enabled": stored.enabled}, {"enabled": enabled})
    return "tool"


async def remove(act: Act, name: str) -> tuple[str, ...]:
    """Remove a source of this name with all its tools, or else one tool; returns the names of the tools that
    go.

    Raises ChangeRefused for what can only be disabled: the house's own, and what a server or a file would
    bring back.
    """
    source = await sources.find(act.tx, name)
    if source is not None:
        if source.kind == "file" and source.trouble is None:
            raise ChangeRefused(
                f"{name} stands in TOOLS_DIR: delete it there, then reload; or disable it here."
            )
        mine = tuple(one.name for one in await tools.all_of(act.tx) if one.source == name)
        await tools.remove(act.tx, list(mine))
        await sources.remove(act.tx, name)
        await act.note("removed", f"source {name}", {**shown(source), "tools": list(mine)}, None)
        return mine
    found = await card(act.tx, act.own, name)
    if not found.is_removable:
        raise ChangeRefused(f"{name} cannot be removed alone; it can be disabled.")
    if found.source is not None and "routes" in found.source.options:
        routes = [one for one in found.source.options["routes"] if one["name"] != name]
        await sources.put(act.tx, replace(found.source, options={**found.source.options, "routes": routes}))
    await tools.remove(act.tx, [name])
    await act.note("removed", f"tool {name}", dict(found.told), None)
    return (name,)


async def difference(act: Act, name: str) -> Difference:
    """What waits for an admin about a tool. Raises ChangeRefused if nothing does."""
    found = await card(act.tx, act.own, name)
    if found.pending is None and found.flagged is None:
        raise ChangeRefused(f"Nothing about {name} waits to be accepted.")
    after = found.pending if found.pending is not None else found.definition
    return Difference(name, found.definition or None, after, hash_of(after), flags_of(after))


async def accept(act: Act, name: str, *, seen: str, confirmed: bool = False) -> None:
    """Accept the definition that waits, as far as it is the one that was `seen` (the hash of its Difference).

    What was granted of the tool before holds for the new definition. Raises NeedsConfirming if its words are
    flagged.
    """
    waits = await difference(act, name)
    if waits.hash != seen:
        raise ChangeRefused(f"{name} has changed again since it was shown. Look at it anew.")
    if waits.flags and not confirmed:
        raise NeedsConfirming(f"The words of {name} want a second look.", sentences(waits.flags))
    stored = await row(act, name)
    accepted = replace(
        stored, definition=waits.after, hash=waits.hash, pending=None, flagged=None, changed_at=act.now
    )
    await tools.put(act.tx, accepted)
    await grants.carry(act.tx, name, waits.hash, before=stored.hash)
    await act.note("accepted", f"tool {name}", waits.before, waits.after)


async def rule(act: Act, name: str, wanted: Rule | None) -> Card:
    """Set whether calls of a tool ask first; None: as the tool itself says."""
    stored = await row(act, name)
    if wanted is None:
        after = None
    else:
        after = {key: value for key, value in asdict(wanted).items() if value is not None}
    if wanted is not None and after is not None and rule_of(after) != wanted:
        raise ChangeRefused("This rule cannot be kept.")
    if stored.rule != after:
        await tools.put(act.tx, replace(stored, rule=after, changed_at=act.now))
        await act.note("set a rule", f"tool {name}", stored.rule, after)
    return await card(act.tx, act.own, name)


async def row(act: Act, name: str) -> StoredTool:
    """The row of a tool; of the house's own one that is only written once something is set. Raises
    ChangeRefused.
    """
    stored = await tools.find(act.tx, name)
    if stored is not None:
        return stored
    if name not in act.own:
        raise ChangeRefused(f"There is no tool called {name[:80]}.")
    own = act.own[name]
    return StoredTool(name, "", definition_of(own), definition_hash(own), changed_at=act.now)


async def _is_tool(act: Act, name: str) -> bool:
    return name in act.own or await tools.find(act.tx, name) is not None


def flags_of(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Why the words of a definition want a second look; often nothing."""
    from tools.safety import (
        injection as wary,  # its lists of words are not wanted by a house without strangers
    )

    return wary.flags(
        f"{definition.get('name', '')}\n{definition.get('description', '')}\n{_words(definition)}"
    )


def sentences(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Flags as sentences."""
    return tuple(f"{one[:1].upper()}{one[1:]}." for one in flags)


def _words(definition: Mapping[str, Any]) -> str:
    """All texts of a schema, a line each."""
    waiting: list[Any] = [definition.get("input_schema", {})]
    found: list[str] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one
    return "\n".join(found)


def shown(source: Source) -> dict[str, Any]:
    """A source as the audit and admins see it; secrets stand in it by name only."""
    return {"kind": source.kind, "address": source.address}
