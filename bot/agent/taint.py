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

ANY = "*"
"""The binding of an allowance for whatever arguments."""

_WORDS_OF_OTHERS = frozenset({"ok", "error"})  # outcomes; of all others the words are the house's

BY_RULE = "This tool always asks first."
BY_ARGUMENTS = "With such arguments this tool asks first."
ONCE = "This tool asks once in a chat."
OUTSIDE = "Text from outside came into this answer, and could have told me to do this."
NOT_GIVEN = (
    "This address was not opened: since text from outside came into this answer, only addresses that the person wrote "
    "or that stood in that text are opened, letter by letter. Ask the person for it if it is needed."
)


@dataclass(frozen=True, slots=True)
class Run:
    """It runs; `approval` is the answer that let it, if somebody was asked."""

    approval: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A person is asked first. `binding` is what an "Allow here" would hold for; None: there is no such
    answer.
    """

    why: str
    who: Literal["asker", "admins"]
    binding: str | None


@dataclass(frozen=True, slots=True)
class Refuse:
    """It does not run; `why` is written for the model."""

    why: str


Verdict = Run | Ask | Refuse


@dataclass(slots=True)
class Reading:
    """What a turn has read so far: `outside`, whether words of strangers are in it, and the `texts` addresses
    may stand in; so they may in `results`, each beside the arguments of its call, which it may only repeat.
    """

    outside: bool = False
    texts: list[str] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)

    def read(self, tool: Tool | None, result: ToolResult) -> None:
        """A result came; one of a tool that is not known any more may be anybody's words."""
        is_outside = result.outcome in _WORDS_OF_OTHERS and (tool is None or tool.outside)
        if is_outside or result.outcome == "ok":  # what the house says was wrong names what the model sent
            self.results.append((result.text, _given(tool, result.call.arguments)))
        self.outside |= is_outside


def begin(prompt: Iterable[Message], user: Iterable[Message], *, goes_on: bool = False) -> Reading:
    """What a turn has read before its first call: its `prompt`, in which `user` are its own messages.

    Words of strangers in earlier turns are no reason to ask: they have been answered; unless the answer
    `goes_on`. Notes never are: what strangers had put there was agreed to.
    """
    read = [message for message in prompt if message.role in {"user", "tool"}]
    begun_with = user
    if goes_on:
        begun_with = [one for one in read if not prompting.holds_notes(one.text)]
    outside = any(message.images or prompting.holds_data(message.text) for message in begun_with)
    return Reading(outside, [message.text for message in read])


def judge(tool: Tool, arguments: Mapping[str, Any], reading: Reading) -> Verdict:
    """What becomes of a call whose arguments were checked, if nobody has allowed it before."""
    if reading.outside and not _may_open(tool, arguments, reading):
        return Refuse(NOT_GIVEN)
    if reading.outside and tool.changes:
        return Ask(OUTSIDE, tool.rule.who, None)
    if tool.rule.ask == "never" or not _fits(tool.rule.when, arguments):
        return Run()
    if tool.rule.ask == "once":
        return Ask(ONCE, tool.rule.who, ANY)
    why = BY_RULE if tool.rule.when is None else BY_ARGUMENTS
    return Ask(why, tool.rule.who, bound_to(tool, arguments))


def bound_to(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What an allowance of such a call holds for: the host it opens, or these very arguments, as a hash."""
    opened = arguments.get(tool.opens) if tool.opens is not None else None
    host = addresses.host_of(opened) if isinstance(opened, str) else None
    if host is not None:
        return host
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def _may_open(tool: Tool, arguments: Mapping[str, Any], reading: Reading) -> bool:
    if tool.opens is None or (opened := arguments.get(tool.opens)) is None:
        return True
    several = opened if isinstance(opened, list) else [opened]
    return all(isinstance(one, str) and _is_given(one, reading) for one in several)


def _is_given(address: str, reading: Reading) -> bool:
    """Whether somebody else than the model gave the address: what a result repeats of its call is the model's
    own.
    """
    return addresses.stands_in(address, reading.texts) or any(
        addresses.stands_in(address, [text]) and not addresses.is_begun_in(address, given)
        for text, given in reading.results
    )


def _given(tool: Tool | None, arguments: str) -> str:
    """The arguments of a call without the address it was let open."""
    if tool is None or tool.opens is None:
        return arguments
    return json.dumps({key: value for key, value in json.loads(arguments).items() if key != tool.opens})


def _fits(when: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> bool:
    """Whether the rule is about such arguments; where that cannot be told, it is."""
    if when is None:
        return True
    try:
        # With a registry of its own it fetches nothing, whatever the schema refers to.
        return bool(Draft202012Validator(when, registry=Registry()).is_valid(dict(arguments)))
    except Exception:  # noqa: BLE001 a schema that an admin wrote may be anything; the careful way is to ask
        return True
