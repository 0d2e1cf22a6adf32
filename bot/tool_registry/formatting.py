"""Texts about tools for admins, the same in a chat and on the machine. Pure.

Names and descriptions are written by strangers: characters that are invisible or that turn the direction of
writing are spelled out.
"""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from bot.db.tools.call_log import ToolCallRecord
from bot.db.tools.sources import Source, SourceKind
from bot.tool_registry.add_source import AddSourceResult
from bot.tool_registry.admin_actions import PendingChange
from bot.tool_registry.grants import EVERYONE, Grantee, list_grantees
from bot.tool_registry.secret_scanner import mask_secrets
from bot.tool_registry.source_actions import ChangedTools, PendingSource
from bot.tool_registry.tool_info import ToolInfo, derive_told_schema
from bot.usage.plain_text import escape_for_terminal
from bot.usage.report import format_utc
from tools.base import NEVER_ASK, Rule

SOURCE_KINDS = {
    "file": "a file of TOOLS_DIR",
    "openapi": "OpenAPI",
    "endpoint": "one endpoint",
    "mcp_http": "an MCP server",
    "mcp_stdio": "an MCP server on the machine",
}
NO_VALUE = "–"
NEW_CONVERSATION_HINT = " A conversation that has begun keeps the tools it has: /new begins one with it."
"""Follows the confirmation of a grant."""
MAX_LISTED_TOOLS = 5  # tools that a change names; of more it says how many
SHARED_WARNING = (
    " All who use {names} share one connection: its account, and what it keeps from call to call. "
    "Grant it only to people who may see each other's."
)
"""Follows the confirmation of a grant of an MCP server's tools."""
_SHARED_KINDS = {"mcp_http", "mcp_stdio"}
MAX_ARGUMENT_CHARS = 200  # of a call's arguments in a list
_STATE_TEXTS = {
    "on": "on",
    "off": "off",
    "new": "waits to be accepted",
    "changed": "suspended: it has changed",
    "flagged": "suspended: its words are flagged",
    "source off": "off with its source",
    "gone": "gone: its source does not give it any more",
}
_RULE_TEXTS = {"never": "never asks", "once": "asks once a chat", "always": "asks each time"}

NameLookup = Callable[[int], str]
"""Returns the name of a person or a chat by number."""


def format_state(info: ToolInfo) -> str:
    """Format the state of a tool."""
    if info.state == "in trouble":
        trouble = info.source.trouble if info.source else None
        return f"not available: {escape_for_terminal(trouble or 'unknown why')}"
    return _STATE_TEXTS[info.state]


def format_tool_line(info: ToolInfo, lookup_name: NameLookup = str) -> str:
    """Format a tool as one line of a list."""
    fields = [
        escape_for_terminal(info.name),
        format_state(info),
        format_grantees(info, lookup_name),
        f"{info.prompt_tokens} tokens",
    ]
    rule = find_effective_rule(info)
    if rule is not None and rule.ask != "never":
        fields.append(format_rule(rule))
    return " · ".join(fields)


def format_grantees(info: ToolInfo, lookup_name: NameLookup = str) -> str:
    """Format who may use a tool."""
    return ", ".join(format_grantee(grantee, lookup_name) for grantee in list_grantees(info))


def format_grantee(grantee: Grantee, lookup_name: NameLookup = str) -> str:
    """Format who a grant is for."""
    if grantee.kind == "person":
        return lookup_name(grantee.number)
    if grantee.kind == "chat":
        return f"chat {grantee.number}"
    if grantee == EVERYONE:
        return "everyone"
    return "admins"


def format_rule(rule: Rule) -> str:
    """Format whether calls of a tool ask first, and whom."""
    if rule.only_reads:
        return "never asks: it only reads"
    if rule.ask == "never":
        return _RULE_TEXTS["never"]
    approver = "an admin" if rule.who == "admins" else "whoever it is for"
    text = f"{_RULE_TEXTS[rule.ask]}, {approver}"
    if rule.when is not None:
        condition = escape_for_terminal(json.dumps(rule.when, ensure_ascii=False))
        text += f", if its arguments fit {condition}"
    return text


def format_effective_rule(info: ToolInfo) -> str:
    """Format the rule a tool has now, with the reason where nobody has set it."""
    if info.rule is not None:
        return format_rule(info.rule)
    rule = find_effective_rule(info)
    if rule is None:
        return "asks as its file says"
    effect = "nothing" if rule.ask == "never" else "something"
    return f"{format_rule(rule)} (by itself, since it changes {effect})"


def find_effective_rule(info: ToolInfo) -> Rule | None:
    """Return the rule that holds for a tool; None if nobody has set one and only the tool's file knows.

    A tool of a service asks if it changes something.
    """
    if info.rule is not None or info.source is None or info.source.kind == "file":
        return info.rule
    if info.effective_definition.get("changes"):
        return Rule("always")
    return NEVER_ASK


def format_tool(
    info: ToolInfo, lookup_name: NameLookup = str, *, show_checked: bool = False
) -> Iterator[str]:
    """Yield everything about a tool, a line each; its arguments as the model reads them, or as checked."""
    yield f"{escape_for_terminal(info.name)}: {format_state(info)}"
    if info.source is None:
        yield "From: built in"
    else:
        name = escape_for_terminal(info.source.name)
        address = escape_for_terminal(info.source.address)
        yield f"From: {name}, {SOURCE_KINDS[info.source.kind]}, {address}"
    yield f"May use it: {format_grantees(info, lookup_name)}"
    set_by = " (set by an admin)" if info.is_set else ""
    yield f"Rule: {format_effective_rule(info)}{set_by}"
    yield f"Costs: {info.prompt_tokens} tokens of every prompt that offers it, estimated"
    if info.flagged is not None:
        yield f"Flagged: {escape_for_terminal(info.flagged)}"
    yield from format_definition(info.effective_definition, info.source_kind, show_checked=show_checked)


def format_waiting_tools(infos: Iterable[ToolInfo], command: str) -> Iterator[str]:
    """Yield for each source how many of its tools wait for an admin; `command` shows and accepts them."""
    counts = Counter(
        info.source.name for info in infos if info.source and info.state in ("new", "changed", "flagged")
    )
    for name, count in sorted(counts.items()):
        waiting = "1 tool waits" if count == 1 else f"{count} tools wait"
        source = escape_for_terminal(name)
        yield f"Of {source} {waiting} until you accept: {command} {source}"


def format_grant_hint(infos: Iterable[ToolInfo]) -> str:
    """Return what an admin should know who has granted these tools."""
    sources = [info.source for info in infos if info.source and info.source.kind in _SHARED_KINDS]
    shared = {source.name for source in sources if "personal" not in source.options}
    if not shared:
        return NEW_CONVERSATION_HINT
    names = ", ".join(sorted(shared))
    return f"{NEW_CONVERSATION_HINT}{SHARED_WARNING.format(names=names)}"


def format_changed_tools(name: str, result: ChangedTools, format_effect: Callable[[ToolInfo], str]) -> str:
    """Say what holds for the tools that were changed, a line each thing that holds, and why others stay."""
    effects: dict[str, list[str]] = {}
    for info in result.changed:
        effects.setdefault(format_effect(info), []).append(info.name)
    lines = []
    for effect, names in effects.items():
        subject = ", ".join(names)
        if len(names) > MAX_LISTED_TOOLS:
            subject = f"{len(names)} tools of {name}"
        lines.append(f"{escape_for_terminal(subject)}{effect}.")
    lines += result.refusals.values()
    return "\n".join(lines)


def format_pending_source(pending: PendingSource) -> Iterator[str]:
    """Yield all that waits of a source, and which of it has to be accepted by itself."""
    for change in pending.changes:
        yield from format_pending_change(change)
        yield ""
    for name in pending.flagged:
        yield f"{escape_for_terminal(name)} wants a second look, so it is not accepted with the others."


def format_source_line(source: Source) -> str:
    """Format a source as one line of a list."""
    name = escape_for_terminal(source.name)
    address = escape_for_terminal(source.address)
    line = f"{name} · {SOURCE_KINDS[source.kind]} · {address} · {_format_enabled(source)}"
    if source.trouble:
        line += f": {escape_for_terminal(source.trouble)}"
    return line


def _format_enabled(source: Source) -> str:
    return "on" if source.enabled else "off"


def format_call(call: ToolCallRecord, lookup_name: NameLookup = str) -> str:
    """Format a call as one line: when, who, where, with what, outcome, how long, how large, who answered."""
    began_at = NO_VALUE if call.began_at is None else format_utc(call.began_at)
    duration = NO_VALUE
    if call.began_at is not None and call.ended_at is not None:
        duration = f"{1000 * (call.ended_at - call.began_at):,.0f} ms"
    size = NO_VALUE if call.size is None else f"{call.size:,} characters"
    arguments = escape_for_terminal(mask_secrets(call.arguments))
    if len(arguments) > MAX_ARGUMENT_CHARS:
        arguments = f"{arguments[:MAX_ARGUMENT_CHARS]}…"
    fields = [
        f"{began_at} {escape_for_terminal(call.name)} {arguments}",
        f"{lookup_name(call.person)} in {call.lane}, turn {call.turn}",
        call.outcome or call.state,
        duration,
        size,
    ]
    if call.asked_at is not None:
        fields.append(f"asked: {_format_answer(call, lookup_name)}")
    return " · ".join(fields)


def format_no_calls(tool_name: str | None) -> str:
    """Say that there is no call, or none of one tool."""
    if tool_name:
        return f"No call of {escape_for_terminal(tool_name[:64])} yet."
    return "No tool was called yet."


def _format_answer(call: ToolCallRecord, lookup_name: NameLookup) -> str:
    if call.answer is None:
        return "open"
    text = call.answer
    if call.answered_by is not None:
        text += f" by {lookup_name(call.answered_by)}"
    if call.asked_at is not None and call.answered_at is not None:
        text += f" after {call.answered_at - call.asked_at:,.0f} s"
    return text


def format_add_result(result: AddSourceResult) -> Iterator[str]:
    """Yield what was added, and what to do about it."""
    if result.ready_names:
        names = ", ".join(result.ready_names)
        tokens = f"{result.prompt_tokens} tokens of a prompt, estimated"
        yield f"Added, for admins until it is granted: {names}. {tokens}."
    for name, flags in result.suspended:
        reasons = escape_for_terminal(flags)
        yield f"{name} waits, for its words want a second look: {reasons}. Accept it to have it used."
    if not result.ready_names and not result.suspended:
        yield f"{result.source} has nothing new."


def format_definition(
    definition: Mapping[str, Any], source_kind: SourceKind | None, *, show_checked: bool = False
) -> Iterator[str]:
    """Yield a definition as the model reads it; `show_checked`: with the schema its arguments must fit."""
    marks = {"changes": "changes something", "outside": "brings words of strangers"}
    yield from (f"It {effect}." for mark, effect in marks.items() if definition.get(mark))
    for name, text in definition.get("fixed", {}).items():
        yield f"It always has {escape_for_terminal(name)} {escape_for_terminal(text)}."
    if definition.get("opens"):
        yield f"It opens the address in {escape_for_terminal(str(definition['opens']))}."
    words = {"description": definition.get("description", "")}
    if show_checked:
        yield from _format_json({**words, "checked": definition.get("input_schema", {})})
    else:
        yield from _format_json({**words, "parameters": derive_told_schema(definition, source_kind)})


def format_pending_change(change: PendingChange) -> Iterator[str]:
    """Yield what an admin accepts: a new definition whole, of a changed one its diff (- and +)."""
    before, after = change.prompt_tokens
    tokens = f"{before} → {after}" if change.before else str(after)
    yield f"{escape_for_terminal(change.tool_name)}: {tokens} tokens of a prompt, estimated"
    yield from (f"Look twice: {escape_for_terminal(flag)}" for flag in change.flags)
    if change.before is None:
        yield from format_definition(change.after, change.source_kind)
        return
    diff = difflib.unified_diff(
        list(_format_json(change.before)), list(_format_json(change.after)), n=1, lineterm=""
    )
    lines = [line for line in diff if not line.startswith(("---", "+++", "@@"))]
    yield from lines or ["It is as it was accepted."]


def _format_json(value: Mapping[str, Any]) -> Iterator[str]:
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    return (escape_for_terminal(line) for line in text.split("\n"))
