"""What is said of tools to admins, the same in a chat and on the machine. Pure.

Names and descriptions are written by strangers: what nobody sees or what turns the direction of writing is
spelled out.
"""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bot.db.tools.call_log import ToolCallRecord
from bot.db.tools.sources import Source
from bot.tool_registry.add_source import AddSourceResult
from bot.tool_registry.admin_actions import PendingChange
from bot.tool_registry.grant_actions import EVERYONE, Grantee, list_grantees
from bot.tool_registry.secret_scanner import mask_secrets
from bot.tool_registry.tool_info import ToolInfo
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
"""What is said behind a grant."""
MAX_ARGUMENT_CHARS = 200  # characters of a call's arguments in a list
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
"""What a person or a chat is called."""


def format_state(info: ToolInfo) -> str:
    """How a tool stands."""
    if info.state == "in trouble":
        trouble = info.source.trouble if info.source else None
        return f"not available: {escape_for_terminal(trouble or 'unknown why')}"
    return _STATE_TEXTS[info.state]


def format_tool_line(info: ToolInfo, lookup_name: NameLookup = str) -> str:
    """A tool in one line of a list."""
    by = info.rule or _find_default_rule(info)
    does = f" · {format_rule(by)}" if by is not None and by.ask != "never" else ""
    return f"{escape_for_terminal(info.name)} · {format_state(info)} · {format_grantees(info, lookup_name)} · {info.prompt_tokens} tokens{does}"


def format_grantees(info: ToolInfo, lookup_name: NameLookup = str) -> str:
    """Who may use a tool."""
    return ", ".join(format_grantee(one, lookup_name) for one in list_grantees(info))


def format_grantee(grantee: Grantee, lookup_name: NameLookup = str) -> str:
    """Whom a grant is for."""
    if grantee.kind == "person":
        return lookup_name(grantee.number)
    if grantee.kind == "chat":
        return f"chat {grantee.number}"
    if grantee == EVERYONE:
        return "everyone"
    return "admins"


def format_rule(rule: Rule) -> str:
    """Whether calls of a tool ask first."""
    if rule.ask == "never":
        return _RULE_TEXTS["never"]
    if rule.when is None:
        when = ""
    else:
        when = f", if its arguments fit {escape_for_terminal(json.dumps(rule.when, ensure_ascii=False))}"
    return f"{_RULE_TEXTS[rule.ask]}, {'an admin' if rule.who == 'admins' else 'whoever it is for'}{when}"


def format_effective_rule(info: ToolInfo) -> str:
    """The same of a tool as it stands, with the reason where nobody has set it."""
    if info.rule is not None:
        return format_rule(info.rule)
    by = _find_default_rule(info)
    if by is None:
        return "asks as its file says"
    return (
        f"{format_rule(by)} (by itself, since it changes {'nothing' if by.ask == 'never' else 'something'})"
    )


def _find_default_rule(info: ToolInfo) -> Rule | None:
    """The rule of a tool nobody has ruled: of a service by what it changes; None: only its file tells."""
    if info.source is None or info.source.kind == "file":
        return info.rule
    if info.effective_definition.get("changes"):
        return Rule("always")
    return NEVER_ASK


def format_tool(info: ToolInfo, lookup_name: NameLookup = str) -> Iterator[str]:
    """All there is to know about a tool, a line each."""
    yield f"{escape_for_terminal(info.name)}: {format_state(info)}"
    if info.source is None:
        yield "From: the house's own"
    else:
        yield f"From: {escape_for_terminal(info.source.name)}, {SOURCE_KINDS[info.source.kind]}, {escape_for_terminal(info.source.address)}"
    yield f"May use it: {format_grantees(info, lookup_name)}"
    yield f"Rule: {format_effective_rule(info)}{' (set by an admin)' if info.is_set else ''}"
    yield f"Costs: {info.prompt_tokens} tokens of every prompt that offers it, estimated"
    if info.flagged is not None:
        yield f"Flagged: {escape_for_terminal(info.flagged)}"
    yield from format_definition(info.effective_definition)


def format_source_line(source: Source) -> str:
    """A source in one line of a list."""
    stands = "on" if source.enabled else "off"
    trouble = f": {escape_for_terminal(source.trouble)}" if source.trouble else ""
    return f"{escape_for_terminal(source.name)} · {SOURCE_KINDS[source.kind]} · {escape_for_terminal(source.address)} · {stands}{trouble}"


def format_source(source: Source) -> Iterator[str]:
    """All there is to know about a source, a line each."""
    yield f"{escape_for_terminal(source.name)}: {SOURCE_KINDS[source.kind]}, {'on' if source.enabled else 'off'}"
    yield f"At: {escape_for_terminal(source.address)}"
    if source.trouble:
        yield f"Trouble: {escape_for_terminal(source.trouble)}"
    by = "on the machine" if source.added_by is None else f"by {source.added_by}"
    yield f"Added: {format_utc(source.added_at)} UTC, {by}"


def format_call(call: ToolCallRecord, lookup_name: NameLookup = str) -> str:
    """A call in one line: when, who, where, what with, how long, how large, and what came of it."""
    when = NO_VALUE if call.began_at is None else format_utc(call.began_at)
    if call.began_at is None or call.ended_at is None:
        took = NO_VALUE
    else:
        took = f"{1000 * (call.ended_at - call.began_at):,.0f} ms"
    size = NO_VALUE if call.size is None else f"{call.size:,} characters"
    arguments = escape_for_terminal(mask_secrets(call.arguments))
    if len(arguments) <= MAX_ARGUMENT_CHARS:
        arguments = arguments
    else:
        arguments = f"{arguments[:MAX_ARGUMENT_CHARS]}…"
    asked = "" if call.asked_at is None else f" · asked: {_format_answer(call, lookup_name)}"
    where = f"{lookup_name(call.person)} in {call.lane}, turn {call.turn}"
    return f"{when} {escape_for_terminal(call.name)} {arguments} · {where} · {call.outcome or call.state} · {took} · {size}{asked}"


def format_no_calls(tool_name: str | None) -> str:
    """That there is no call, or none of one tool."""
    if tool_name:
        return f"No call of {escape_for_terminal(tool_name[:64])} yet."
    return "No tool was called yet."


def _format_answer(call: ToolCallRecord, lookup_name: NameLookup) -> str:
    if call.answer is None:
        return "open"
    by = "" if call.answered_by is None else f" by {lookup_name(call.answered_by)}"
    if call.asked_at is None or call.answered_at is None:
        waited = ""
    else:
        waited = f" after {call.answered_at - call.asked_at:,.0f} s"
    return f"{call.answer}{by}{waited}"


def format_add_result(result: AddSourceResult) -> Iterator[str]:
    """What was added, and what is to be done about it."""
    if result.ready_names:
        names = ", ".join(result.ready_names)
        yield f"Added, for admins until it is granted: {names}. {result.prompt_tokens} tokens of a prompt, estimated."
    for name, flags in result.suspended:
        yield f"{name} waits, for its words want a second look: {escape_for_terminal(flags)}. Accept it to have it used."
    if not result.ready_names and not result.suspended:
        yield f"{result.source} has nothing new."


def format_definition(definition: Mapping[str, Any]) -> Iterator[str]:
    """A definition, as far as the model or an admin must know it."""
    marks = {"changes": "changes something", "outside": "brings words of strangers"}
    yield from (f"It {what}." for name, what in marks.items() if definition.get(name))
    if definition.get("opens"):
        yield f"It opens the address in {escape_for_terminal(str(definition['opens']))}."
    yield from _format_json(
        {"description": definition.get("description", ""), "parameters": definition.get("input_schema", {})}
    )


def format_pending_change(change: PendingChange) -> Iterator[str]:
    """What an admin accepts: all of a new definition, of a changed one what went (-) and what came (+)."""
    before, after = change.prompt_tokens
    yield f"{escape_for_terminal(change.tool_name)}: {f'{before} → {after}' if change.before else after} tokens of a prompt, estimated"
    yield from (f"Look twice: {escape_for_terminal(flag)}" for flag in change.flags)
    if change.before is None:
        yield from format_definition(change.after)
        return
    changed = difflib.unified_diff(
        list(_format_json(change.before)), list(_format_json(change.after)), n=1, lineterm=""
    )
    told = [line for line in changed if not line.startswith(("---", "+++", "@@"))]
    yield from told or ["It is as it was accepted."]


def _format_json(value: Mapping[str, Any]) -> Iterator[str]:
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    return (escape_for_terminal(line) for line in text.split("\n"))
