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
from bot.tool_registry.grants import Grantee, describe_grantee, list_grantees
from bot.tool_registry.secret_scanner import mask_secrets
from bot.tool_registry.source_actions import ChangedTools, PendingSource
from bot.tool_registry.tool_info import ToolInfo, derive_told_schema
from bot.translations.formats import format_number, format_series, format_unit
from bot.translations.translator import Translator, translatable
from bot.usage.local_times import format_utc
from bot.usage.plain_text import escape_for_terminal
from bot.usage.refusals import describe_tool_outcome
from tools.base import NEVER_ASK, Rule
from tools.safety.plain_text import cut_text

SOURCE_KINDS = {
    "file": translatable("a file of TOOLS_DIR"),
    "openapi": "OpenAPI",
    "endpoint": translatable("one endpoint"),
    "mcp_http": translatable("an MCP server"),
    "mcp_stdio": translatable("a local MCP server"),
}
NO_VALUE = "–"
NEW_CONVERSATION_HINT = translatable(
    "A conversation keeps the tools it started with; /new starts one with this tool."
)
"""Follows the confirmation of a grant."""
MAX_LISTED_TOOLS = 5  # tools that a change names; of more it says how many
SHARED_WARNING = translatable(
    "Everyone who uses {names} shares one connection: its account, and what it keeps between calls. Grant "
    "it only to people who may see each other's data."
)
"""Follows the confirmation of a grant of an MCP server's tools."""
_SHARED_KINDS = {"mcp_http", "mcp_stdio"}
MAX_ARGUMENT_CHARS = 200  # of a call's arguments in a list
_STATE_TEXTS = {
    "on": translatable("on"),
    "off": translatable("off"),
    "new": translatable("waiting for approval"),
    "changed": translatable("suspended until an admin accepts its changes"),
    "flagged": translatable("suspended: its description is flagged"),
    "source off": translatable("off, like its source"),
    "gone": translatable("gone: its source no longer offers it"),
}
_RULE_TEXTS = {
    ("once", "asker"): translatable("asks the person once per chat"),
    ("once", "admins"): translatable("asks an admin once per chat"),
    ("always", "asker"): translatable("asks the person each time"),
    ("always", "admins"): translatable("asks an admin each time"),
}

NameLookup = Callable[[int], str]
"""Returns the name of a person or a chat by number."""


def format_state(translate: Translator, info: ToolInfo) -> str:
    """Format the state of a tool."""
    if info.state != "in trouble":
        return translate(_STATE_TEXTS[info.state])
    if info.source and info.source.trouble:
        return translate("not available: {trouble}", trouble=escape_for_terminal(info.source.trouble))
    return translate("not available, for an unknown reason")


def format_tool_line(translate: Translator, info: ToolInfo, lookup_name: NameLookup = str) -> str:
    """Format a tool as one line of a list."""
    fields = [
        escape_for_terminal(info.name),
        format_state(translate, info),
        format_grantees(translate, info, lookup_name),
        translate.plural("{count} token", "{count} tokens", info.prompt_tokens),
    ]
    rule = find_effective_rule(info)
    if rule is not None and rule.ask != "never":
        fields.append(format_rule(translate, rule))
    if info.delivers:
        fields.append(format_delivery(translate, info))
    return " · ".join(fields)


def format_grantees(translate: Translator, info: ToolInfo, lookup_name: NameLookup = str) -> str:
    """Format who may use a tool."""
    names = (format_grantee(translate, grantee, lookup_name) for grantee in list_grantees(info))
    return format_series(translate, names)


def format_grantee(translate: Translator, grantee: Grantee, lookup_name: NameLookup = str) -> str:
    """Format who a grant is for."""
    if grantee.kind == "person":
        return lookup_name(grantee.number)
    return describe_grantee(translate, grantee)


def format_rule(translate: Translator, rule: Rule) -> str:
    """Format whether calls of a tool ask first, and whom."""
    if rule.only_reads:
        return translate("never asks: it only reads")
    if rule.ask == "never":
        return translate("never asks")
    text = translate(_RULE_TEXTS[rule.ask, rule.who])
    if rule.when is None:
        return text
    condition = escape_for_terminal(json.dumps(rule.when, ensure_ascii=False))
    return translate("{rule}, if its arguments fit {condition}", rule=text, condition=condition)


def format_delivery(translate: Translator, info: ToolInfo) -> str:
    """Format whether a tool sends people the pictures and files that its service returns."""
    if info.delivers:
        return translate("sends pictures and files")
    return translate("doesn't send pictures or files")


def format_trust(translate: Translator, source: Source) -> str:
    """Format whether a source's results count as text from outside, and what that means."""
    if source.is_trusted:
        return translate(
            "its results are trusted: I neither ask nor hold back addresses because of them, so whoever "
            "writes them can tell me what to do"
        )
    return translate("its results are text from outside: after reading them, I ask before I change anything")


def format_effective_rule(translate: Translator, info: ToolInfo) -> str:
    """Format the rule a tool has now, with the reason where nobody has set it."""
    if info.rule is not None:
        text = format_rule(translate, info.rule)
        if info.rule != NEVER_ASK or not info.effective_definition.get("changes"):
            return text
        uncovered = translate("I still ask after other text from outside, and for new addresses")
        return f"{text}; {uncovered}"
    rule = find_effective_rule(info)
    if rule is None:
        return translate("asks as set in its file")
    if rule.ask == "never":
        return translate("never asks (by itself, since it changes nothing)")
    text = format_rule(translate, rule)
    return translate("{rule} (by itself, since it changes something)", rule=text)


def format_reduction(translate: Translator, info: ToolInfo) -> str:
    """Format what the model reads of a tool's results."""
    if not info.reduction:
        return translate("the model reads its whole result")
    expression = escape_for_terminal(info.reduction)
    return translate("the model reads this part of its result: {expression}", expression=expression)


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
    translate: Translator, info: ToolInfo, lookup_name: NameLookup = str, *, show_checked: bool = False
) -> Iterator[str]:
    """Yield everything about a tool, a line each; its arguments as the model reads them, or as checked."""
    yield f"{escape_for_terminal(info.name)}: {format_state(translate, info)}"
    if info.source is None:
        yield translate("From: built in")
    else:
        name = escape_for_terminal(info.source.name)
        address = escape_for_terminal(info.source.address)
        kind = translate(SOURCE_KINDS[info.source.kind])
        yield translate("From: {source}", source=format_series(translate, (name, kind, address)))
    if info.source is not None and info.source.is_trusted:
        yield translate("Results: {trust}", trust=format_trust(translate, info.source))
    yield translate("May use it: {people}", people=format_grantees(translate, info, lookup_name))
    rule = format_effective_rule(translate, info)
    if info.is_set:
        yield translate("Rule: {rule} (set by an admin)", rule=rule)
    else:
        yield translate("Rule: {rule}", rule=rule)
    if info.reduction:
        expression = escape_for_terminal(info.reduction)
        yield translate(
            "The model reads this part of its result: {expression} (set by an admin)", expression=expression
        )
    if info.is_of_service:
        yield translate("Files: {delivery}", delivery=format_delivery(translate, info))
    yield translate.plural(
        "Costs: about {count} token in each request that offers it",
        "Costs: about {count} tokens in each request that offers it",
        info.prompt_tokens,
    )
    if info.flagged is not None:
        yield translate("Flagged: {reason}", reason=escape_for_terminal(info.flagged))
    definition = info.effective_definition
    yield from format_definition(translate, definition, info.source_kind, show_checked=show_checked)


def format_waiting_tools(translate: Translator, infos: Iterable[ToolInfo], command: str) -> Iterator[str]:
    """Yield for each source how many of its tools wait for an admin; `command` shows and accepts them."""
    counts = Counter(
        info.source.name for info in infos if info.source and info.state in ("new", "changed", "flagged")
    )
    for name, count in sorted(counts.items()):
        source = escape_for_terminal(name)
        yield translate.plural(
            "{count} tool of {source} is waiting for approval: {command}",
            "{count} tools of {source} are waiting for approval: {command}",
            count,
            source=source,
            command=f"{command} {source}",
        )


def format_grant_hint(translate: Translator, infos: Iterable[ToolInfo]) -> str:
    """Return what an admin should know who has granted these tools."""
    sources = [info.source for info in infos if info.source and info.source.kind in _SHARED_KINDS]
    shared = {source.name for source in sources if "personal" not in source.options}
    hint = f" {translate(NEW_CONVERSATION_HINT)}"
    if not shared:
        return hint
    warning = translate(SHARED_WARNING, names=format_series(translate, sorted(shared)))
    return f"{hint} {warning}"


def format_changed_tools(
    translate: Translator, name: str, result: ChangedTools, format_effect: Callable[[ToolInfo], str]
) -> str:
    """Say what holds for the tools that were changed, a line each thing that holds, and why others stay."""
    effects: dict[str, list[str]] = {}
    for info in result.changed:
        effects.setdefault(format_effect(info), []).append(info.name)
    lines = []
    for effect, names in effects.items():
        subject = format_series(translate, names)
        if len(names) > MAX_LISTED_TOOLS:
            count = len(names)
            subject = translate.plural(
                "{count} tool of {source}", "{count} tools of {source}", count, source=name
            )
        lines.append(f"{escape_for_terminal(subject)}{effect}.")
    lines += (refused.explain(translate) for refused in result.refusals.values())
    return "\n".join(lines)


def format_pending_source(translate: Translator, pending: PendingSource) -> Iterator[str]:
    """Yield all that waits of a source, and which of it has to be accepted by itself."""
    for change in pending.changes:
        yield from format_pending_change(translate, change)
        yield ""
    for name in pending.flagged:
        yield translate(
            "{name} needs a closer look, so it isn't accepted with the others.",
            name=escape_for_terminal(name),
        )


def format_source_line(translate: Translator, source: Source) -> str:
    """Format a source as one line of a list."""
    name = escape_for_terminal(source.name)
    address = escape_for_terminal(source.address)
    line = (
        f"{name} · {translate(SOURCE_KINDS[source.kind])} · {address} · {format_enabled(translate, source)}"
    )
    if source.trouble:
        line += f": {escape_for_terminal(source.trouble)}"
    return line


def format_enabled(translate: Translator, source: Source) -> str:
    """Format whether the tools of a source are used."""
    return translate("on") if source.enabled else translate("off")


def format_call(translate: Translator, call: ToolCallRecord, lookup_name: NameLookup = str) -> str:
    """Format a call as one line: when, who, where, with what, outcome, how long, how large, who answered."""
    began_at = NO_VALUE if call.began_at is None else format_utc(call.began_at)
    duration = NO_VALUE
    if call.began_at is not None and call.ended_at is not None:
        duration = format_unit(
            translate, round(1000 * (call.ended_at - call.began_at)), "duration-millisecond"
        )
    size = NO_VALUE
    if call.size is not None:
        size = translate("{count} characters", count=format_number(translate, call.size))
    arguments = cut_text(escape_for_terminal(mask_secrets(call.arguments)), MAX_ARGUMENT_CHARS)
    fields = [
        f"{began_at} {escape_for_terminal(call.name)} {arguments}",
        translate(
            "{name} in {chat}, turn {turn}", name=lookup_name(call.person), chat=call.lane, turn=call.turn
        ),
        describe_tool_outcome(call.outcome or call.state, call.refusal, translate),
        duration,
        size,
    ]
    if call.asked_at is not None:
        fields.append(translate("asked: {answer}", answer=_format_answer(translate, call, lookup_name)))
    return " · ".join(fields)


def format_no_calls(translate: Translator, tool_name: str | None) -> str:
    """Say that there is no call, or none of one tool."""
    if tool_name:
        return translate("{name} hasn't been called yet.", name=escape_for_terminal(tool_name[:64]))
    return translate("No tool has been called yet.")


def _format_answer(translate: Translator, call: ToolCallRecord, lookup_name: NameLookup) -> str:
    if call.answer is None:
        return translate("open")
    text = translate(call.answer)
    if call.answered_by is not None:
        text = translate("{answer} by {name}", answer=text, name=lookup_name(call.answered_by))
    if call.asked_at is not None and call.answered_at is not None:
        seconds = format_number(translate, call.answered_at - call.asked_at)
        text = translate("{answer} after {seconds} s", answer=text, seconds=seconds)
    return text


def format_add_result(translate: Translator, result: AddSourceResult) -> Iterator[str]:
    """Yield what was added, and what to do about it."""
    if result.ready_names:
        names = format_series(translate, result.ready_names)
        yield translate.plural(
            "Added, for admins only until you grant it to others: {names}. Adds about {count} token to "
            "each request.",
            "Added, for admins only until you grant it to others: {names}. Adds about {count} tokens to "
            "each request.",
            result.prompt_tokens,
            names=names,
        )
    for name, flags in result.suspended:
        yield translate(
            "{name} is on hold: please read its description closely ({reasons}). Accept it to switch it on.",
            name=name,
            reasons=escape_for_terminal(flags),
        )
    if not result.ready_names and not result.suspended:
        yield translate("There's nothing new in {source}.", source=result.source)


def format_definition(
    translate: Translator,
    definition: Mapping[str, Any],
    source_kind: SourceKind | None,
    *,
    show_checked: bool = False,
) -> Iterator[str]:
    """Yield a definition as the model reads it; `show_checked`: with the schema its arguments must fit."""
    if definition.get("changes"):
        yield translate("It changes something.")
    if definition.get("outside"):
        yield translate("Its results are text that others wrote.")
    for name, text in definition.get("fixed", {}).items():
        value = f"{escape_for_terminal(name)} {escape_for_terminal(text)}"
        yield translate("Always set: {values}.", values=value)
    if definition.get("opens"):
        yield translate("It opens the address in {name}.", name=escape_for_terminal(str(definition["opens"])))
    words = {"description": definition.get("description", "")}
    if show_checked:
        yield from format_json({**words, "checked": definition.get("input_schema", {})})
    else:
        yield from format_json({**words, "parameters": derive_told_schema(definition, source_kind)})


def format_pending_change(translate: Translator, change: PendingChange) -> Iterator[str]:
    """Yield what an admin accepts: a new definition whole, of a changed one its diff (- and +)."""
    before, after = change.prompt_tokens
    tokens = f"{before} → {after}" if change.before else str(after)
    yield translate(
        "{name}: about {tokens} tokens in each request",
        name=escape_for_terminal(change.tool_name),
        tokens=tokens,
    )
    yield from (
        translate("Look closely: {reason}", reason=escape_for_terminal(flag)) for flag in change.flags
    )
    if change.before is None:
        yield from format_definition(translate, change.after, change.source_kind)
        return
    diff = difflib.unified_diff(
        list(format_json(change.before)), list(format_json(change.after)), n=1, lineterm=""
    )
    lines = [line for line in diff if not line.startswith(("---", "+++", "@@"))]
    yield from lines or [translate("It hasn't changed since it was accepted.")]


def format_json(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield a definition as JSON, line by line."""
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    return (escape_for_terminal(line) for line in text.split("\n"))
