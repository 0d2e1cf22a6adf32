"""Decides whether a tool call runs, needs approval or is denied. Pure.

The tool's rule decides, and what the turn has read: text of strangers can mislead the model, so what the
model may do after reading it is bounded here.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jsonschema import Draft202012Validator
from referencing import Registry

from bot.agent.prompt import has_data_block, is_notes_message
from bot.agent.urls import extract_host, is_url_in_texts, is_url_prefix_in_text
from bot.domain import Message, ToolResult
from tools.base import Tool

ANY_ARGUMENTS = "*"
"""The binding of an allowance that covers any arguments."""

_TOOL_OUTCOMES = frozenset({"ok", "error"})  # of all other outcomes the gateway wrote the text

ASKED_BY_RULE = "This tool always asks first."
ASKED_BY_ARGUMENTS = "With such arguments this tool asks first."
ASKED_ONCE = "This tool asks once in a chat."
ASKED_AFTER_OUTSIDE_TEXT = "Text from outside came into this answer, and could have told me to do this."
URL_NOT_KNOWN = (
    "This address was not opened: since text from outside came into this answer, only addresses that the "
    "person wrote or that stood in that text are opened, letter by letter. Ask the person for it if it is "
    "needed."
)


@dataclass(frozen=True, slots=True)
class AllowCall:
    """It runs; `approval_id` is the answer that allowed it, None if nobody was asked."""

    approval_id: int | None = None


@dataclass(frozen=True, slots=True)
class RequireApproval:
    """A user is asked first. `binding` is what an "Allow here" would cover; None: there is no such answer."""

    reason: str
    approver: Literal["asker", "admins"]
    binding: str | None


@dataclass(frozen=True, slots=True)
class DenyCall:
    """It does not run; `reason` is written for the model."""

    reason: str


CallVerdict = AllowCall | RequireApproval | DenyCall


@dataclass(slots=True)
class TaintState:
    """What a turn has read so far.

    is_tainted: whether text of strangers is among it.
    texts: texts whose URLs may be opened.
    results: result texts whose URLs may be opened, each with the arguments of its call: a URL that the result
        only repeats from them does not count.
    """

    is_tainted: bool = False
    texts: list[str] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)

    def add_result(self, tool: Tool | None, result: ToolResult) -> None:
        """Count a result in; that of a tool no longer known (None) may be text of strangers."""
        is_outside = result.outcome in _TOOL_OUTCOMES and (tool is None or tool.outside)
        # The gateway's own error texts only repeat what the model sent.
        if is_outside or result.outcome == "ok":
            self.results.append((result.text, _strip_opened_url(tool, result.call.arguments)))
        self.is_tainted |= is_outside


def build_taint_state(
    prompt: Iterable[Message], user_messages: Iterable[Message], *, continues_answer: bool = False
) -> TaintState:
    """What a turn has read before its first call: its `prompt`, of which `user_messages` are its own.

    Text of strangers in earlier turns does not taint: those were answered, unless the turn continues such an
    answer. Notes never taint: what strangers had put there was approved.
    """
    messages_read = [message for message in prompt if message.role in {"user", "tool"}]
    tainting = user_messages
    if continues_answer:
        tainting = [message for message in messages_read if not is_notes_message(message.text)]
    is_tainted = any(message.images or has_data_block(message.text) for message in tainting)
    return TaintState(is_tainted, [message.text for message in messages_read])


def assess(tool: Tool, arguments: Mapping[str, Any], taint: TaintState) -> CallVerdict:
    """The verdict on a call whose arguments were checked, if nobody has allowed it before."""
    if taint.is_tainted and not _may_open(tool, arguments, taint):
        return DenyCall(URL_NOT_KNOWN)
    if taint.is_tainted and tool.changes:
        return RequireApproval(ASKED_AFTER_OUTSIDE_TEXT, tool.rule.who, None)
    if tool.rule.ask == "never" or not _rule_applies(tool.rule.when, arguments):
        return AllowCall()
    if tool.rule.ask == "once":
        return RequireApproval(ASKED_ONCE, tool.rule.who, ANY_ARGUMENTS)
    reason = ASKED_BY_RULE if tool.rule.when is None else ASKED_BY_ARGUMENTS
    return RequireApproval(reason, tool.rule.who, compute_binding(tool, arguments))


def compute_binding(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What an allowance of such a call covers: the host it opens, or exactly these arguments, as a hash."""
    if tool.opens is not None:
        url = arguments.get(tool.opens)
        host = extract_host(url) if isinstance(url, str) else None
        if host is not None:
            return host
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def _may_open(tool: Tool, arguments: Mapping[str, Any], taint: TaintState) -> bool:
    if tool.opens is None or (opened := arguments.get(tool.opens)) is None:
        return True
    urls = opened if isinstance(opened, list) else [opened]
    return all(isinstance(url, str) and _is_known_url(url, taint) for url in urls)


def _is_known_url(url: str, taint: TaintState) -> bool:
    """Whether the URL comes from elsewhere than the model, whose own is what a result repeats of its call."""
    return is_url_in_texts(url, taint.texts) or any(
        is_url_in_texts(url, [text]) and not is_url_prefix_in_text(url, arguments)
        for text, arguments in taint.results
    )


def _strip_opened_url(tool: Tool | None, arguments: str) -> str:
    """The arguments of a call without the URL that it was allowed to open."""
    if tool is None or tool.opens is None:
        return arguments
    return json.dumps({key: value for key, value in json.loads(arguments).items() if key != tool.opens})


def _rule_applies(condition: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> bool:
    """Whether the rule covers such arguments; where that cannot be decided, it does."""
    if condition is None:
        return True
    try:
        # With a registry of its own it fetches nothing, whatever the schema refers to.
        return bool(Draft202012Validator(condition, registry=Registry()).is_valid(dict(arguments)))
    except Exception:  # noqa: BLE001 a schema that an admin wrote may be anything; asking is safe
        return True
