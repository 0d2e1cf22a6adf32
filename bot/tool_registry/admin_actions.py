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
from bot.db.tools.audit import Actor
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.errors import ChangeRefused, NeedsConfirming
from bot.tool_registry.tool_info import BuiltinTools, ToolInfo, build_rule, estimate_tokens, load_tool_info
from tools.base import Rule, definition_of, hash_definition, hash_tool


@dataclass(frozen=True, slots=True)
class AdminAction:
    """One act at work: who does it, when, in which transaction; `own` are the house's own tools."""

    tx: Transaction
    actor: Actor
    now: float
    builtin_tools: BuiltinTools

    async def record_change(
        self, event: str, subject: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """Write the change down, and have a running gateway notice it."""
        await audit.record(self.tx, self.actor, event, subject, change=(before, after), now=self.now)
        await revisions.bump(self.tx, revisions.TOOLS)


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A definition that waits for an admin, beside the one accepted last (None: there was none).

    `hash` is the fingerprint of the one that waits; `flags` is why its words want a second look.
    """

    tool_name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    hash: str
    flags: tuple[str, ...]

    @property
    def prompt_tokens(self) -> tuple[int, int]:
        """Tokens of a prompt, estimated: before and after."""
        return estimate_tokens(self.before) if self.before else 0, estimate_tokens(self.after)


async def set_enabled(action: AdminAction, name: str, *, enabled: bool) -> str:
    """Have a tool, or else a source of this name, work or rest; returns what it was, "tool" or "source"."""
    what = "enabled" if enabled else "disabled"
    source = await sources.find(action.tx, name)
    if source is not None and not await _is_tool(action, name):
        if source.enabled != enabled:
            await sources.set_enabled(action.tx, name, enabled=enabled)
            await action.record_change(
                what, f"source {name}", {"enabled": source.enabled}, {"enabled": enabled}
            )
        return "source"
    stored = await get_stored_tool(action, name)
    if stored.enabled != enabled:
        await tools.put(action.tx, replace(stored, enabled=enabled, changed_at=action.now))
        await action.record_change(what, f"tool {name}", {"enabled": stored.enabled}, {"enabled": enabled})
    return "tool"


async def remove_source_or_tool(action: AdminAction, name: str) -> tuple[str, ...]:
    """Remove a source of this name with all its tools, or else one tool; returns the names of the tools that
    go.

    Raises ChangeRefused for what can only be disabled: the house's own, and what a server or a file would
    bring back.
    """
    source = await sources.find(action.tx, name)
    if source is not None:
        if source.kind == "file" and source.trouble is None:
            raise ChangeRefused(
                f"{name} stands in TOOLS_DIR: delete it there, then reload; or disable it here."
            )
        mine = tuple(one.name for one in await tools.list_all(action.tx) if one.source == name)
        await tools.remove(action.tx, list(mine))
        await sources.remove(action.tx, name)
        await action.record_change(
            "removed", f"source {name}", {**to_audit_record(source), "tools": list(mine)}, None
        )
        return mine
    found = await load_tool_info(action.tx, action.builtin_tools, name)
    if not found.is_removable:
        raise ChangeRefused(f"{name} cannot be removed alone; it can be disabled.")
    if found.source is not None and "routes" in found.source.options:
        routes = [one for one in found.source.options["routes"] if one["name"] != name]
        await sources.put(
            action.tx, replace(found.source, options={**found.source.options, "routes": routes})
        )
    await tools.remove(action.tx, [name])
    await action.record_change("removed", f"tool {name}", dict(found.effective_definition), None)
    return (name,)


async def get_pending_change(action: AdminAction, name: str) -> PendingChange:
    """What waits for an admin about a tool. Raises ChangeRefused if nothing does."""
    found = await load_tool_info(action.tx, action.builtin_tools, name)
    if found.pending is None and found.flagged is None:
        raise ChangeRefused(f"Nothing about {name} waits to be accepted.")
    after = found.pending if found.pending is not None else found.definition
    return PendingChange(name, found.definition or None, after, hash_definition(after), find_flags(after))


async def accept_change(action: AdminAction, name: str, *, seen_hash: str, confirmed: bool = False) -> None:
    """Accept the definition that waits, as far as it is the one that was `seen` (the hash of its Difference).

    What was granted of the tool before holds for the new definition. Raises NeedsConfirming if its words are
    flagged.
    """
    waits = await get_pending_change(action, name)
    if waits.hash != seen_hash:
        raise ChangeRefused(f"{name} has changed again since it was shown. Look at it anew.")
    if waits.flags and not confirmed:
        raise NeedsConfirming(f"The words of {name} want a second look.", format_flags(waits.flags))
    stored = await get_stored_tool(action, name)
    accepted = replace(
        stored, definition=waits.after, hash=waits.hash, pending=None, flagged=None, changed_at=action.now
    )
    await tools.put(action.tx, accepted)
    await grants.rebind(action.tx, name, waits.hash, old_hash=stored.hash)
    await action.record_change("accepted", f"tool {name}", waits.before, waits.after)


async def set_rule(action: AdminAction, name: str, new_rule: Rule | None) -> ToolInfo:
    """Set whether calls of a tool ask first; None: as the tool itself says."""
    stored = await get_stored_tool(action, name)
    if new_rule is None:
        after = None
    else:
        after = {key: value for key, value in asdict(new_rule).items() if value is not None}
    if new_rule is not None and after is not None and build_rule(after) != new_rule:
        raise ChangeRefused("This rule cannot be kept.")
    if stored.rule != after:
        await tools.put(action.tx, replace(stored, rule=after, changed_at=action.now))
        await action.record_change("set a rule", f"tool {name}", stored.rule, after)
    return await load_tool_info(action.tx, action.builtin_tools, name)


async def get_stored_tool(action: AdminAction, name: str) -> StoredTool:
    """The row of a tool; of the house's own one that is only written once something is set. Raises
    ChangeRefused.
    """
    stored = await tools.find(action.tx, name)
    if stored is not None:
        return stored
    if name not in action.builtin_tools:
        raise ChangeRefused(f"There is no tool called {name[:80]}.")
    own = action.builtin_tools[name]
    return StoredTool(name, "", definition_of(own), hash_tool(own), changed_at=action.now)


async def _is_tool(action: AdminAction, name: str) -> bool:
    return name in action.builtin_tools or await tools.find(action.tx, name) is not None


def find_flags(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Why the words of a definition want a second look; often nothing."""
    from tools.safety import (
        injection as wary,  # its lists of words are not wanted by a house without strangers
    )

    return wary.find_injection_warnings(
        f"{definition.get('name', '')}\n{definition.get('description', '')}\n{_collect_texts(definition)}"
    )


def format_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Flags as sentences."""
    return tuple(f"{one[:1].upper()}{one[1:]}." for one in flags)


def _collect_texts(definition: Mapping[str, Any]) -> str:
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


def to_audit_record(source: Source) -> dict[str, Any]:
    """A source as the audit and admins see it; secrets stand in it by name only."""
    return {"kind": source.kind, "address": source.address}
