"""What is said of tools to admins, the same in a chat and on the machine. Pure.

Names and descriptions are written by strangers: what nobody sees or what turns the direction of writing is
spelled out.
"""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bot.db.tools.call_log import Called
from bot.db.tools.sources import Source
from bot.tool_registry.add_source import Added
from bot.tool_registry.admin_actions import Difference
from bot.tool_registry.grant_actions import EVERYONE, Holder, holders
from bot.tool_registry.secret_scanner import masked
from bot.tool_registry.tool_info import Card
from bot.usage.plain_text import plain
from bot.usage.report import moment
from tools.base import NEVER, Rule

KINDS = {
    "file": "a file of TOOLS_DIR",
    "openapi": "OpenAPI",
    "endpoint": "one endpoint",
    "mcp_http": "an MCP server",
    "mcp_stdio": "an MCP server on the machine",
}
NOT_YET = "–"
FROM_WHEN = " A conversation that has begun keeps the tools it has: /new begins one with it."
"""What is said behind a grant."""
ARGUMENTS = 200  # characters of a call's arguments in a list
_STATES = {
    "on": "on",
    "off": "off",
    "new": "waits to be accepted",
    "changed": "suspended: it has changed",
    "flagged": "suspended: its words are flagged",
    "source off": "off with its source",
    "gone": "gone: its source does not give it any more",
}
_ASKS = {"never": "never asks", "once": "asks once a chat", "always": "asks each time"}

Name = Callable[[int], str]
"""What a person or a chat is called."""


def state(card: Card) -> str:
    """How a tool stands."""
    if card.state == "in trouble":
        trouble = card.source.trouble if card.source else None
        return f"not available: {plain(trouble or 'unknown why')}"
    return _STATES[card.state]


def brief(card: Card, name: Name = str) -> str:
    """A tool in one line of a list."""
    by = card.rule or _by_itself(card)
    does = f" · {rule(by)}" if by is not None and by.ask != "never" else ""
    return f"{plain(card.name)} · {state(card)} · {whom(card, name)} · {card.cost} tokens{does}"


def whom(card: Card, name: Name = str) -> str:
    """Who may use a tool."""
    return ", ".join(holder(one, name) for one in holders(card))


def holder(one: Holder, name: Name = str) -> str:
    """Whom a grant is for."""
    if one.whom == "person":
        return name(one.number)
    if one.whom == "chat":
        return f"chat {one.number}"
    if one == EVERYONE:
        return "everyone"
    return "admins"


def rule(one: Rule) -> str:
    """Whether calls of a tool ask first."""
    if one.ask == "never":
        return _ASKS["never"]
    if one.when is None:
        when = ""
    else:
        when = f", if its arguments fit {plain(json.dumps(one.when, ensure_ascii=False))}"
    return f"{_ASKS[one.ask]}, {'an admin' if one.who == 'admins' else 'whoever it is for'}{when}"


def asks(card: Card) -> str:
    """The same of a tool as it stands, with the reason where nobody has set it."""
    if card.rule is not None:
        return rule(card.rule)
    by = _by_itself(card)
    if by is None:
        return "asks as its file says"
    return f"{rule(by)} (by itself, since it changes {'nothing' if by.ask == 'never' else 'something'})"


def _by_itself(card: Card) -> Rule | None:
    """The rule of a tool nobody has ruled: of a service by what it changes; None: only its file tells."""
    if card.source is None or card.source.kind == "file":
        return card.rule
    if card.told.get("changes"):
        return Rule("always")
    return NEVER


def shown(card: Card, name: Name = str) -> Iterator[str]:
    """All there is to know about a tool, a line each."""
    yield f"{plain(card.name)}: {state(card)}"
    if card.source is None:
        yield "From: the house's own"
    else:
        yield f"From: {plain(card.source.name)}, {KINDS[card.source.kind]}, {plain(card.source.address)}"
    yield f"May use it: {whom(card, name)}"
    yield f"Rule: {asks(card)}{' (set by an admin)' if card.is_set else ''}"
    yield f"Costs: {card.cost} tokens of every prompt that offers it, estimated"
    if card.flagged is not None:
        yield f"Flagged: {plain(card.flagged)}"
    yield from definition(card.told)


def source(one: Source) -> str:
    """A source in one line of a list."""
    stands = "on" if one.enabled else "off"
    trouble = f": {plain(one.trouble)}" if one.trouble else ""
    return f"{plain(one.name)} · {KINDS[one.kind]} · {plain(one.address)} · {stands}{trouble}"


def shown_source(one: Source) -> Iterator[str]:
    """All there is to know about a source, a line each."""
    yield f"{plain(one.name)}: {KINDS[one.kind]}, {'on' if one.enabled else 'off'}"
    yield f"At: {plain(one.address)}"
    if one.trouble:
        yield f"Trouble: {plain(one.trouble)}"
    by = "on the machine" if one.added_by is None else f"by {one.added_by}"
    yield f"Added: {moment(one.added_at)} UTC, {by}"


def called(one: Called, name: Name = str) -> str:
    """A call in one line: when, who, where, what with, how long, how large, and what came of it."""
    when = NOT_YET if one.began_at is None else moment(one.began_at)
    if one.began_at is None or one.ended_at is None:
        took = NOT_YET
    else:
        took = f"{1000 * (one.ended_at - one.began_at):,.0f} ms"
    size = NOT_YET if one.size is None else f"{one.size:,} characters"
    arguments = plain(masked(one.arguments))
    if len(arguments) <= ARGUMENTS:
        arguments = arguments
    else:
        arguments = f"{arguments[:ARGUMENTS]}…"
    asked = "" if one.asked_at is None else f" · asked: {_answer(one, name)}"
    where = f"{name(one.person)} in {one.lane}, turn {one.turn}"
    return f"{when} {plain(one.name)} {arguments} · {where} · {one.outcome or one.state} · {took} · {size}{asked}"


def uncalled(tool: str | None) -> str:
    """That there is no call, or none of one tool."""
    if tool:
        return f"No call of {plain(tool[:64])} yet."
    return "No tool was called yet."


def _answer(one: Called, name: Name) -> str:
    if one.answer is None:
        return "open"
    by = "" if one.answered_by is None else f" by {name(one.answered_by)}"
    if one.asked_at is None or one.answered_at is None:
        waited = ""
    else:
        waited = f" after {one.answered_at - one.asked_at:,.0f} s"
    return f"{one.answer}{by}{waited}"


def added(one: Added) -> Iterator[str]:
    """What was added, and what is to be done about it."""
    if one.ready:
        names = ", ".join(one.ready)
        yield f"Added, for admins until it is granted: {names}. {one.cost} tokens of a prompt, estimated."
    for name, flags in one.waiting:
        yield f"{name} waits, for its words want a second look: {plain(flags)}. Accept it to have it used."
    if not one.ready and not one.waiting:
        yield f"{one.source} has nothing new."


def definition(told: Mapping[str, Any]) -> Iterator[str]:
    """A definition, as far as the model or an admin must know it."""
    marks = {"changes": "changes something", "outside": "brings words of strangers"}
    yield from (f"It {what}." for name, what in marks.items() if told.get(name))
    if told.get("opens"):
        yield f"It opens the address in {plain(str(told['opens']))}."
    yield from _lines(
        {"description": told.get("description", ""), "parameters": told.get("input_schema", {})}
    )


def difference(found: Difference) -> Iterator[str]:
    """What an admin accepts: all of a new definition, of a changed one what went (-) and what came (+)."""
    before, after = found.costs
    yield f"{plain(found.tool)}: {f'{before} → {after}' if found.before else after} tokens of a prompt, estimated"
    yield from (f"Look twice: {plain(flag)}" for flag in found.flags)
    if found.before is None:
        yield from definition(found.after)
        return
    changed = difflib.unified_diff(list(_lines(found.before)), list(_lines(found.after)), n=1, lineterm="")
    told = [line for line in changed if not line.startswith(("---", "+++", "@@"))]
    yield from told or ["It is as it was accepted."]


def _lines(value: Mapping[str, Any]) -> Iterator[str]:
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    return (plain(line) for line in text.split("\n"))
