"""Whether a tool call runs, asks a person first, or is refused: by the tool's rule and by what its turn has
read. Pure.

Text of strangers can hold words that lead the model on; what the model may do then is bounded here, not hoped
for.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jsonschema import Draft202012Validator
from referencing import Registry

from bot.agent import prompt as prompting
from bot.agent import urls as addresses
from bot.domain import Message, ToolResult
from tools.base import Tool

ANY_ARGUMENTS = "*"
"""The binding of an allowance for whatever arguments."""

_TOOL_OUTCOMES = frozenset({"ok", "error"})  # outcomes; of all others the words are the house's

ASKED_BY_RULE = "This tool always asks first."
ASKED_BY_ARGUMENTS = "With such arguments this tool asks first."
ASKED_ONCE = "This tool asks once in a chat."
ASKED_AFTER_OUTSIDE_TEXT = "Text from outside came into this answer, and could have told me to do this."
URL_NOT_KNOWN = (
    "This address was not opened: since text from outside came into this answer, only addresses that the person wrote "
    "or that stood in that text are opened, letter by letter. Ask the person for it if it is needed."
)


@dataclass(frozen=True, slots=True)
class AllowCall:
    """It runs; `approval` is the answer that let it, if somebody was asked."""

    approval_id: int | None = None


@dataclass(frozen=True, slots=True)
class RequireApproval:
    """A person is asked first. `binding` is what an "Allow here" would hold for; None: there is no such
    answer.
    """

    reason: str
    approver: Literal["asker", "admins"]
    binding: str | None


@dataclass(frozen=True, slots=True)
class DenyCall:
    """It does not run; `why` is written for the model."""

    reason: str


CallVerdict = AllowCall | RequireApproval | DenyCall


@dataclass(slots=True)
class TaintState:
    """What a turn has read so far: `outside`, whether words of strangers are in it, and the `texts` addresses
    may stand in; so they may in `results`, each beside the arguments of its call, which it may only repeat.
    """

    is_tainted: bool = False
    texts: list[str] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)

    def add_result(self, tool: Tool | None, result: ToolResult) -> None:
        """A result came; one of a tool that is not known any more may be anybody's words."""
        is_outside = result.outcome in _TOOL_OUTCOMES and (tool is None or tool.outside)
        if is_outside or result.outcome == "ok":  # what the house says was wrong names what the model sent
            self.results.append((result.text, _strip_opened_url(tool, result.call.arguments)))
        self.is_tainted |= is_outside


def build_taint_state(
    prompt: Iterable[Message], user_messages: Iterable[Message], *, continues_answer: bool = False
) -> TaintState:
    """What a turn has read before its first call: its `prompt`, in which `user` are its own messages.

    Words of strangers in earlier turns are no reason to ask: they have been answered; unless the answer
    `goes_on`. Notes never are: what strangers had put there was agreed to.
    """
    read = [message for message in prompt if message.role in {"user", "tool"}]
    begun_with = user_messages
    if continues_answer:
        begun_with = [one for one in read if not prompting.is_notes_message(one.text)]
    outside = any(message.images or prompting.has_data_block(message.text) for message in begun_with)
    return TaintState(outside, [message.text for message in read])


def assess(tool: Tool, arguments: Mapping[str, Any], taint: TaintState) -> CallVerdict:
    """What becomes of a call whose arguments were checked, if nobody has allowed it before."""
    if taint.is_tainted and not _may_open(tool, arguments, taint):
        return DenyCall(URL_NOT_KNOWN)
    if taint.is_tainted and tool.changes:
        return RequireApproval(ASKED_AFTER_OUTSIDE_TEXT, tool.rule.who, None)
    if tool.rule.ask == "never" or not _rule_applies(tool.rule.when, arguments):
        return AllowCall()
    if tool.rule.ask == "once":
        return RequireApproval(ASKED_ONCE, tool.rule.who, ANY_ARGUMENTS)
    why = ASKED_BY_RULE if tool.rule.when is None else ASKED_BY_ARGUMENTS
    return RequireApproval(why, tool.rule.who, compute_binding(tool, arguments))


def compute_binding(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What an allowance of such a call holds for: the host it opens, or these very arguments, as a hash."""
    opened = arguments.get(tool.opens) if tool.opens is not None else None
    host = addresses.extract_host(opened) if isinstance(opened, str) else None
    if host is not None:
        return host
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def _may_open(tool: Tool, arguments: Mapping[str, Any], taint: TaintState) -> bool:
    if tool.opens is None or (opened := arguments.get(tool.opens)) is None:
        return True
    several = opened if isinstance(opened, list) else [opened]
    return all(isinstance(one, str) and _is_known_url(one, taint) for one in several)


def _is_known_url(address: str, taint: TaintState) -> bool:
    """Whether somebody else than the model gave the address: what a result repeats of its call is the model's
    own.
    """
    return addresses.is_url_in_texts(address, taint.texts) or any(
        addresses.is_url_in_texts(address, [text]) and not addresses.is_url_prefix_in_text(address, given)
        for text, given in taint.results
    )


def _strip_opened_url(tool: Tool | None, arguments: str) -> str:
    """The arguments of a call without the address it was let open."""
    if tool is None or tool.opens is None:
        return arguments
    return json.dumps({key: value for key, value in json.loads(arguments).items() if key != tool.opens})


def _rule_applies(condition: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> bool:
    """Whether the rule is about such arguments; where that cannot be told, it is."""
    if condition is None:
        return True
    try:
        # With a registry of its own it fetches nothing, whatever the schema refers to.
        return bool(Draft202012Validator(condition, registry=Registry()).is_valid(dict(arguments)))
    except Exception:  # noqa: BLE001 a schema that an admin wrote may be anything; the careful way is to ask
        return True
