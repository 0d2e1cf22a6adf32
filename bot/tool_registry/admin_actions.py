"""What admins do about registered tools: enable, disable, remove, accept, set a rule or a
reduction.

One set of actions behind the chat, the command line and the web page.

Each runs inside the caller's transaction, with its audit row and a bumped revision; texts are the caller's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bot.db import revisions
from bot.db.tools import audit, grants, secrets, sources, tools
from bot.db.tools.audit import Actor
from bot.db.tools.sources import Source, SourceKind
from bot.db.tools.tools import StoredTool
from bot.db.transaction import Transaction
from bot.errors import ChangeRefused, NeedsConfirming
from bot.tool_registry.service_access import list_access_lines, read_access
from bot.tool_registry.tool_info import BuiltinTools, ToolInfo, build_rule, estimate_tokens, load_tool_info
from tools.base import Rule, definition_of, hash_definition, hash_tool
from tools.reduction.expressions import ReductionRefused, check_expression
from tools.safety.injection import find_injection_warnings


@dataclass(frozen=True, slots=True)
class AdminAction:
    """The context of one action: transaction, actor, time (epoch seconds), and the built-in tools."""

    tx: Transaction
    actor: Actor
    now: float
    builtin_tools: BuiltinTools

    async def record_change(
        self, event: str, subject: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """Write the audit row, and bump the revision so that a running gateway notices the change."""
        await audit.record(self.tx, self.actor, event, subject, change=(before, after), now=self.now)
        await revisions.bump(self.tx, revisions.TOOLS)


async def begin_action(tx: Transaction, actor: Actor, now: float, builtin_tools: BuiltinTools) -> AdminAction:
    """Begin a change of tools or sources; nobody else changes any before `tx` ends."""
    await tools.lock(tx)
    return AdminAction(tx, actor, now, builtin_tools)


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A definition that waits for an admin, and the one accepted last (`before`; None: there was none).

    `hash` is that of all that an admin is shown of `after`; `flags` are the reasons why its words want a
    second look. `source_kind` is that of its source.
    """

    tool_name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    hash: str
    flags: tuple[str, ...]
    source_kind: SourceKind | None = None

    @property
    def prompt_tokens(self) -> tuple[int, int]:
        """Estimated tokens of a prompt, before and after."""
        tokens_before = estimate_tokens(self.before, self.source_kind) if self.before else 0
        return tokens_before, estimate_tokens(self.after, self.source_kind)


async def set_enabled(action: AdminAction, name: str, *, enabled: bool) -> str:
    """Enable or disable a tool, or else a source of this name; returns what it was, "tool" or "source"."""
    event = "enabled" if enabled else "disabled"
    if await is_source(action, name):
        source = await get_source(action, name)
        if source.enabled != enabled:
            await sources.set_enabled(action.tx, name, enabled=enabled)
            await action.record_change(
                event, f"source {name}", {"enabled": source.enabled}, {"enabled": enabled}
            )
        return "source"
    stored = await get_stored_tool(action, name)
    if stored.enabled != enabled:
        await tools.put(action.tx, replace(stored, enabled=enabled, changed_at=action.now))
        await action.record_change(event, f"tool {name}", {"enabled": stored.enabled}, {"enabled": enabled})
    return "tool"


async def remove_source_or_tool(action: AdminAction, name: str) -> tuple[str, ...]:
    """Remove a source with all its tools, or else one tool; return the names of the removed tools.

    Raises ChangeRefused for what can only be disabled: a built-in tool, and one that a server or a file would
    bring back.
    """
    source = await sources.find(action.tx, name)
    if source is not None:
        if source.kind == "file" and source.trouble is None:
            raise ChangeRefused(
                "{name} is a file in TOOLS_DIR: delete it there and reload, or disable it here.", name=name
            )
        names = tuple(row.name for row in await tools.list_all(action.tx) if row.source == name)
        await tools.remove(action.tx, list(names))
        await sources.remove(action.tx, name)
        await secrets.remove_sign_ins(action.tx, name)
        await action.record_change(
            "removed", f"source {name}", {**to_audit_record(source), "tools": list(names)}, None
        )
        return names
    info = await load_tool_info(action.tx, action.builtin_tools, name)
    if not info.is_removable:
        raise ChangeRefused("{name} can't be removed on its own, but you can disable it.", name=name)
    if info.source is not None and "routes" in info.source.options:
        routes = [route for route in info.source.options["routes"] if route["name"] != name]
        await sources.put(action.tx, info.source.with_options(routes=routes).with_reduction(name, ""))
    await tools.remove(action.tx, [name])
    await action.record_change("removed", f"tool {name}", dict(info.effective_definition), None)
    return (name,)


async def get_pending_change(action: AdminAction, name: str) -> PendingChange:
    """Return the definition of a tool that waits for an admin. Raises ChangeRefused if there is none."""
    info = await load_tool_info(action.tx, action.builtin_tools, name)
    if info.pending is None and info.flagged is None:
        raise ChangeRefused("There's nothing to accept for {name}.", name=name)
    after = info.pending if info.pending is not None else info.definition
    shown_hash = hash_definition(after, with_sends=True)
    return PendingChange(
        name, info.definition or None, after, shown_hash, find_flags(after), info.source_kind
    )


async def accept_change(action: AdminAction, name: str, *, seen_hash: str, confirmed: bool = False) -> None:
    """Accept the pending definition if it is the one with this hash, which the admin has seen.

    Grants of the tool hold for the new definition. Raises ChangeRefused if it has changed again, and
    NeedsConfirming if its words are flagged.
    """
    change = await get_pending_change(action, name)
    if change.hash != seen_hash:
        raise ChangeRefused("{name} has changed again since you saw it. Please look again.", name=name)
    if change.flags and not confirmed:
        raise NeedsConfirming(
            "Please read the description of {name} closely.", name=name, reasons=format_flags(change.flags)
        )
    stored = await get_stored_tool(action, name)
    new_hash = hash_definition(change.after)
    accepted = replace(
        stored, definition=change.after, hash=new_hash, pending=None, flagged=None, changed_at=action.now
    )
    await tools.put(action.tx, accepted)
    await grants.rebind(action.tx, name, new_hash, old_hash=stored.hash)
    await action.record_change("accepted", f"tool {name}", change.before, change.after)


async def set_rule(action: AdminAction, name: str, new_rule: Rule | None) -> ToolInfo:
    """Set whether calls of a tool ask first; None: as the tool itself says."""
    stored = await get_stored_tool(action, name)
    after = None
    if new_rule is not None:
        after = _to_record(stored, new_rule)
        if build_rule(after, stored.hash) != new_rule:
            raise ChangeRefused("This rule can't be stored.")
    if stored.rule != after:
        await tools.put(action.tx, replace(stored, rule=after, changed_at=action.now))
        await action.record_change("set a rule", f"tool {name}", stored.rule, after)
    return await load_tool_info(action.tx, action.builtin_tools, name)


async def set_reduction(action: AdminAction, name: str, expression: str) -> ToolInfo:
    """Set the JMESPath of what the model reads of a tool's results; `default`: all of them.

    Raises ChangeRefused.
    """
    info = await load_tool_info(action.tx, action.builtin_tools, name)
    if info.source is None:
        raise ChangeRefused("{name} is built in: its results are short as they are.", name=name)
    after = parse_reduction(expression)
    if after == info.reduction:
        return info
    await sources.put(action.tx, info.source.with_reduction(name, after))
    await action.record_change(
        "set a reduction", f"tool {name}", {"reduction": info.reduction}, {"reduction": after}
    )
    return await load_tool_info(action.tx, action.builtin_tools, name)


def parse_reduction(text: str) -> str:
    """Return an expression as it is kept; empty for `default`. Raises ChangeRefused."""
    expression = text.strip()
    if expression.lower() == "default":
        return ""
    try:
        check_expression(expression)
    except ReductionRefused as refused:
        raise ChangeRefused(
            "This isn't valid JMESPath: {reason}. Example: {example}. Or default: the whole result.",
            reason=str(refused),
            example="results[:6].{title: title, url: url}",
        ) from None
    return expression


async def set_delivery(action: AdminAction, name: str, *, delivers: bool) -> ToolInfo:
    """Set whether a tool sends the person the files that its service returns. Raises ChangeRefused."""
    info = await load_tool_info(action.tx, action.builtin_tools, name)
    if not info.is_of_service:
        raise ChangeRefused("{name} is a function on the server: it sends what it returns.", name=name)
    if info.delivers != delivers:
        stored = await get_stored_tool(action, name)
        await tools.put(action.tx, replace(stored, delivers=delivers, changed_at=action.now))
        before = {"delivers": info.delivers}
        await action.record_change("set delivery", f"tool {name}", before, {"delivers": delivers})
    return await load_tool_info(action.tx, action.builtin_tools, name)


def _to_record(stored: StoredTool, rule: Rule) -> dict[str, Any]:
    """A rule as it is stored. That a tool only reads holds for its definition. Raises ChangeRefused."""
    fields = {key: value for key, value in asdict(rule).items() if value is not None and key != "only_reads"}
    if not rule.only_reads:
        return fields
    if not stored.source:
        raise ChangeRefused("{name} is built in: what it changes is known.", name=stored.name)
    if not stored.hash:
        raise ChangeRefused("{name} is waiting for approval; look at it first.", name=stored.name)
    return {**fields, "only_reads": stored.hash}


async def get_stored_tool(action: AdminAction, name: str) -> StoredTool:
    """Return a tool's row, or a new one for a built-in tool that has none yet. Raises ChangeRefused."""
    stored = await tools.find(action.tx, name)
    if stored is not None:
        return stored
    if name not in action.builtin_tools:
        raise ChangeRefused("There is no tool called {name}.", name=name[:80])
    builtin = action.builtin_tools[name]
    return StoredTool(name, "", definition_of(builtin), hash_tool(builtin), changed_at=action.now)


async def get_source(action: AdminAction, name: str) -> Source:
    """Return the source of this name. Raises ChangeRefused."""
    source = await sources.find(action.tx, name)
    if source is None:
        raise ChangeRefused(
            "There is no source {name}; /tools shows the source of each tool.", name=name[:60]
        )
    return source


async def is_source(action: AdminAction, name: str) -> bool:
    """Tell whether a name is that of a source, and of no tool."""
    if name in action.builtin_tools or await tools.find(action.tx, name) is not None:
        return False
    return await sources.find(action.tx, name) is not None


def find_flags(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why the words of a definition want a second look; often nothing."""
    name = definition.get("name", "")
    description = definition.get("description", "")
    return find_injection_warnings(f"{name}\n{description}\n{_collect_texts(definition)}")


def format_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags as sentences."""
    return tuple(f"{flag[:1].upper()}{flag[1:]}." for flag in flags)


def _collect_texts(definition: Mapping[str, Any]) -> str:
    """All texts of a definition's schema, a line each; what is referred to again and again stands once."""
    pending: list[Any] = [definition.get("input_schema", {})]
    texts: list[str] = []
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, Mapping):
            pending += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            pending += value
    return "\n".join(dict.fromkeys(texts))


def to_audit_record(source: Source) -> dict[str, Any]:
    """Describe a source for the audit and for admins; secrets appear in it by name only."""
    record: dict[str, Any] = {"kind": source.kind, "address": source.address}
    lines = list_access_lines(read_access(source.options))
    if lines:
        record["access"] = lines
    return record
