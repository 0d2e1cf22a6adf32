"""Decides whether a tool call runs, needs approval or is denied. Pure.

The tool's rule decides, and what the prompt holds: while text of strangers is in it, more calls need
approval, and unknown URLs are not opened unasked.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from bot.agent.argument_urls import MAX_ADDRESSES, list_addresses
from bot.agent.taint import TaintState
from bot.agent.urls import extract_host
from bot.domain import RefusalReason
from bot.translations.translator import translatable
from tools.base import Tool

ANY_ARGUMENTS = "*"
"""The binding of an allowance that covers any arguments."""

MAX_HOST_CHARS = 100  # of a host that a question names; the whole address stands in its arguments

ASKED_BY_RULE = translatable("This tool always asks first.")
ASKED_BY_ARGUMENTS = translatable("With values like these, this tool asks first.")
ASKED_ONCE = translatable("This tool asks once in each chat.")
ASKED_AFTER_OUTSIDE_TEXT = translatable(
    "For this answer I read text written by others. It may have told me to do this."
)
ASKED_AFTER_EARLIER_TEXT = translatable(
    "Something I read earlier in this chat may have told me to do this. /new starts without it."
)
ASKED_AFTER_MANY = translatable(
    "I've opened several addresses that one text from outside named. My choice could tell its author "
    "something about this chat."
)
NEW_ADDRESS = translatable(
    "The address at {host} is new: you didn't write it, and I haven't read it anywhere here."
)
URL_NOT_KNOWN = (
    "This was not run, for an address in it: since text from outside came into this answer, only addresses "
    "that the person wrote or that stood in that text are opened, letter by letter. Ask the person for it if "
    "it is needed."
)


@dataclass(frozen=True, slots=True)
class AllowCall:
    """It runs."""


@dataclass(frozen=True, slots=True)
class RequireApproval:
    """A user is asked first.

    `reason`: why, a translatable text.
    `binding`: what an "Allow here" would cover; None: there is no such answer.
    `new_host`: of an address that nobody wrote and nothing held that was read.
    `origins`: if text of strangers is the reason, what brought it, see TaintState.
    """

    reason: str
    approver: Literal["asker", "admins"]
    binding: str | None
    new_host: str | None = None
    origins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DenyCall:
    """It does not run; `text` is written for the model."""

    refusal: RefusalReason
    text: str


CallVerdict = AllowCall | RequireApproval | DenyCall


def assess(tool: Tool, arguments: Mapping[str, Any], taint: TaintState) -> CallVerdict:
    """The verdict on a call whose arguments were checked, if nobody has allowed it before.

    What the tool itself has returned counts against addresses only: else a rule would hold for one call.
    """
    if taint.origins:
        changes = tool.changes and not tool.rule.only_reads
        addresses = _list_addresses(tool, arguments)
        new_addresses = _find_new_addresses(addresses, taint)
        if new_addresses and taint.is_turn_tainted and not changes:
            return DenyCall("address", URL_NOT_KNOWN)
        if new_addresses or (changes and taint.origins - {tool.name}):
            reason = ASKED_AFTER_OUTSIDE_TEXT if taint.is_turn_tainted else ASKED_AFTER_EARLIER_TEXT
            host = _find_host(new_addresses)
            return RequireApproval(reason, tool.rule.who, None, host, taint.origins)
        if taint.has_chosen_many([address for address in addresses if isinstance(address, str)]):
            return RequireApproval(ASKED_AFTER_MANY, tool.rule.who, None)
    condition = tool.rule.when
    if tool.rule.ask == "never" or not _is_met(condition, arguments):
        return AllowCall()
    if tool.rule.ask == "once":
        return RequireApproval(ASKED_ONCE, tool.rule.who, ANY_ARGUMENTS)
    reason = ASKED_BY_RULE if condition is None else ASKED_BY_ARGUMENTS
    return RequireApproval(reason, tool.rule.who, compute_binding(tool, arguments))


def _is_met(condition: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> bool:
    if condition is None:
        return True
    from bot.agent.rule_conditions import is_met  # hardly any rule is about arguments

    return is_met(condition, arguments)


def compute_binding(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What an allowance of such a call covers: the host it opens, or exactly these arguments, as a hash."""
    if tool.opens is not None:
        url = arguments.get(tool.opens)
        host = extract_host(url) if isinstance(url, str) else None
        if host is not None:
            return host
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def _find_host(new_addresses: Iterable[object]) -> str | None:
    """The host of the first of these addresses that has one."""
    hosts = (extract_host(address) for address in new_addresses if isinstance(address, str))
    host = next(filter(None, hosts), None)
    return host[:MAX_HOST_CHARS] if host else None


def _list_addresses(tool: Tool, arguments: Mapping[str, Any]) -> list[object]:
    """The addresses that a call could open; of very many, some."""
    if tool.opens is None and not tool.source:
        return []  # what is built in and says that it opens nothing does not
    return list(islice(list_addresses(arguments, tool.opens), MAX_ADDRESSES + 1))


def _find_new_addresses(addresses: list[object], taint: TaintState) -> list[object]:
    """Those that neither a person wrote nor stood in what was read; of very many, all."""
    if len(addresses) > MAX_ADDRESSES:
        return addresses
    return [
        address for address in addresses if not (isinstance(address, str) and taint.knows_address(address))
    ]
