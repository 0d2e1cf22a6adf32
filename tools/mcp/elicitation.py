"""Elicitation: what a server asks in the middle of a call, as questions to the person, and their answers.

A form becomes one question a field; a link is shown, never opened. A server may ask for no secrets, and only
a few times. All its words are a stranger's.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import httpx

from tools.base import AskPerson, ToolAnswer, ToolError, ToolQuestion
from tools.net.policy import NetworkPolicy, port_of
from tools.safety.plain_text import to_plain_line

MAX_QUESTIONS = 8  # of one call, fields and repeated ones included
MAX_MESSAGE_CHARS = 1000
MAX_LABEL_CHARS = 60
MAX_CHOICES = 12
MAX_ATTEMPTS = 3  # to type one answer
YES, NO = "Yes", "No"
SKIP = "Leave it out"

_SECRET_PATTERN = re.compile(
    r"pass(?:word|wd|phrase|code|wort)|\bpin\b|secret|token|credential|api.?key|private.?key|\bcvv?c?\b"
    r"|card.?number|\botp\b|one.time.code|seed.phrase|contrase|mot de passe|kennwort|парол",
    re.IGNORECASE,
)
_LOOKALIKE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})
_PLAIN_LINK = re.compile(rf"https://[!-\[\]-~]{{1,{MAX_MESSAGE_CHARS}}}")  # no blank, no backslash
_DECLINE = "decline"  # what the button beside the choices says

Action = Literal["accept", "decline", "cancel"]
Value = str | int | float | bool | list[str] | None  # as in the SDK; no form gives a list


@dataclass(frozen=True, slots=True)
class ElicitAnswer:
    """The answer for a server; `content` is by field, for an accepted form."""

    action: Action
    content: dict[str, Value] | None = None


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a form: `choices` by what is shown; `kind` is that of JSON Schema."""

    name: str
    label: str
    kind: str
    choices: Mapping[str, Value]
    is_required: bool
    schema: Mapping[str, Any]


class ElicitationRefused(Exception):
    """The question must not be put; the text says why, for an admin."""


class Elicitation:
    """The questions of one call of `server_name`, put to a person one after the other by `ask`."""

    def __init__(self, server_name: str, ask: AskPerson | None, policy: NetworkPolicy) -> None:
        self._server_name = server_name
        self._ask = ask
        self._policy = policy
        self._asked = 0

    async def answer_form(self, message: str, schema: Mapping[str, Any]) -> ElicitAnswer:
        """Ask for the fields of a form."""
        if self._ask is None:
            return ElicitAnswer("decline")
        try:
            fields = parse_form(message, schema)
        except ElicitationRefused as refused:
            return await self._refuse(str(refused))
        if not fields:
            answer = await self._put(to_plain_line(message, MAX_MESSAGE_CHARS), (YES,))
            return ElicitAnswer("accept", {}) if answer.text == YES else _give_up(answer)
        content: dict[str, Value] = {}
        for field in fields:
            answer = await self._ask_field(message, field)
            if answer.text is None:
                return _give_up(answer)
            if answer.text != SKIP or field.is_required:
                content[field.name] = _parse_value(field, answer.text)
        return ElicitAnswer("accept", content)

    async def answer_link(self, message: str, link: str) -> ElicitAnswer:
        """Show a link that the person may open themselves."""
        if self._ask is None:
            return ElicitAnswer("decline")
        try:
            host = await self._check_link(link)
        except (ToolError, ElicitationRefused) as refused:
            return await self._refuse(str(refused))
        text = f"{to_plain_line(message, MAX_MESSAGE_CHARS)}\nIt wants you to open a page at {host}:\n{link}"
        answer = await self._put(text, (YES,))
        return ElicitAnswer("accept") if answer.text == YES else _give_up(answer)

    async def _check_link(self, link: str) -> str:
        try:
            url = httpx.URL(link)
        except (httpx.InvalidURL, UnicodeError):
            raise ElicitationRefused("it wanted to show a link that cannot be read") from None
        if url.scheme != "https" or url.userinfo or not _PLAIN_LINK.fullmatch(link):
            raise ElicitationRefused("it wanted to show a link that is no plain https address")
        host = url.raw_host.decode()  # not decoded to letters that look like others
        await self._policy.resolve_allowed(host.strip("[]"), port_of(url))
        return host

    async def _ask_field(self, message: str, field: _Field) -> ToolAnswer:
        """Ask for one field until the answer fits, a few times."""
        choices = tuple(field.choices)
        if not field.is_required:
            choices = (*choices, SKIP)
        text = f"{to_plain_line(message, MAX_MESSAGE_CHARS)}\n{field.label}"
        for _ in range(MAX_ATTEMPTS):
            answer = await self._put(text, choices, is_typed=not field.choices)
            if answer.text is None or answer.text in choices:
                return answer
            problem = _find_problem(field, answer.text)
            if problem is None:
                return answer
            text = f"{problem}\n{field.label}"
        return ToolAnswer()

    async def _put(self, text: str, choices: tuple[str, ...], *, is_typed: bool = False) -> ToolAnswer:
        assert self._ask is not None
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            await self._refuse("it asked too many questions in one call")
            return ToolAnswer()
        return await self._ask(ToolQuestion(self._server_name, text, choices, is_typed=is_typed))

    async def _refuse(self, reason: str) -> ElicitAnswer:
        assert self._ask is not None
        if self._asked <= MAX_QUESTIONS + 1:  # and is reported once
            self._asked = max(self._asked, MAX_QUESTIONS + 1) + 1
            await self._ask(ToolQuestion(self._server_name, "", refusal=reason.rstrip(".")))
        return ElicitAnswer("cancel")


def _give_up(answer: ToolAnswer) -> ElicitAnswer:
    return ElicitAnswer("decline" if answer.has_declined else "cancel")


def parse_form(message: str, schema: Mapping[str, Any]) -> list[_Field]:
    """The fields of a form. Raises ElicitationRefused for one that must not be put."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) > MAX_QUESTIONS:
        raise ElicitationRefused("it asked with a form that cannot be shown")
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    fields = [_parse_field(str(name), field, name in names) for name, field in properties.items()]
    _refuse_secrets(to_plain_line(message, MAX_MESSAGE_CHARS), fields)
    return fields


def _parse_field(name: str, schema: object, is_required: bool) -> _Field:
    if not isinstance(schema, Mapping):
        raise ElicitationRefused("it asked with a form that cannot be shown")
    kind = schema.get("type", "string")
    if not isinstance(kind, str) or kind not in {"string", "integer", "number", "boolean"}:
        raise ElicitationRefused(f"it asked for a kind of value that cannot be given here ({kind!s:.20})")
    title = to_plain_line(str(schema.get("title") or name), MAX_LABEL_CHARS)
    description = to_plain_line(str(schema.get("description") or ""), MAX_MESSAGE_CHARS)
    label = f"{title}: {description}" if description else f"{title}?"
    return _Field(name, label, kind, _list_choices(kind, schema), is_required, schema)


def _list_choices(kind: str, schema: Mapping[str, Any]) -> dict[str, Value]:
    """What can be tapped, with the values it stands for."""
    if kind == "boolean":
        return {YES: True, NO: False}
    values: Any = schema.get("enum") or []
    labels: Any = schema.get("enumNames") or values
    if titled := schema.get("oneOf"):
        options = [option for option in titled if isinstance(option, Mapping)]
        values = [option.get("const") for option in options]
        labels = [option.get("title") or option.get("const") for option in options]
    if not isinstance(values, list) or not isinstance(labels, list) or len(labels) != len(values):
        raise ElicitationRefused("it asked with a form that cannot be shown")
    if len(values) > MAX_CHOICES:
        raise ElicitationRefused(f"it asked to choose among {len(values)}, which are too many for buttons")
    choices = {
        to_plain_line(str(label), MAX_LABEL_CHARS): value for label, value in zip(labels, values, strict=True)
    }
    own_labels = {label.casefold() for label in choices} & {"", SKIP.casefold(), _DECLINE}
    if own_labels or len(choices) < len(values):
        raise ElicitationRefused("it asked to choose among buttons that cannot be told apart")
    return choices


def _refuse_secrets(message: str, fields: list[_Field]) -> None:
    """Refuse to ask for a secret: what is typed in a chat stays in it, and goes to the server as it is."""
    for field in fields:
        name = to_plain_line(field.name, MAX_LABEL_CHARS)
        format = to_plain_line(str(field.schema.get("format")), MAX_LABEL_CHARS)
        if field.kind == "boolean" or field.choices:
            continue
        words = _strip_styles(f"{name} {format} {field.label} {message}").replace("_", " ")
        if _SECRET_PATTERN.search(words) or any(map(_mixes_scripts, words.split())):
            raise ElicitationRefused("it asked for what looks like a password or another secret")


def _strip_styles(text: str) -> str:
    """The text in plain letters: no fullwidth or styled ones, no accents."""
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")


def _mixes_scripts(word: str) -> bool:
    """Whether letters of several scripts that look alike make up one word."""
    if word.isascii():
        return False
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word if letter.isalpha()}
    return len(scripts & _LOOKALIKE_SCRIPTS) > 1


def _find_problem(field: _Field, text: str) -> str | None:
    """Why a typed answer does not fit."""
    if field.choices:
        return "Please tap one of the buttons."
    if field.kind == "string":
        return _find_length_problem(field, text) or _find_format_problem(field, text)
    value = _parse_number(field.kind, text)
    if value is None:
        return "That is no whole number." if field.kind == "integer" else "That is no number."
    lowest, highest = field.schema.get("minimum"), field.schema.get("maximum")
    if isinstance(lowest, int | float) and value < lowest:
        return f"It has to be at least {lowest:g}."
    if isinstance(highest, int | float) and value > highest:
        return f"It may be at most {highest:g}."
    return None


def _find_length_problem(field: _Field, text: str) -> str | None:
    shortest, longest = field.schema.get("minLength"), field.schema.get("maxLength")
    if isinstance(shortest, int) and len(text) < shortest:
        return f"It has to have at least {shortest} characters."
    if isinstance(longest, int) and len(text) > longest:
        return f"It may have at most {longest} characters."
    return None


def _find_format_problem(field: _Field, text: str) -> str | None:
    match field.schema.get("format"):
        case "email" if not re.fullmatch(r"[^@\s]+@[^@\s]+", text):
            return "That is no e-mail address."
        case "date" if not re.fullmatch(r"\d{4}-\d\d-\d\d", text) or not _is_moment(text):
            return "That is no date. Write it like 2026-12-31."
        case "date-time" if not _is_moment(text):
            return "That is no date with a time. Write it like 2026-12-31T18:30."
    return None


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _parse_value(field: _Field, text: str) -> Value:
    if text in field.choices:
        return field.choices[text]
    if field.kind == "string":
        return text
    return _parse_number(field.kind, text)


def _parse_number(kind: str, text: str) -> float | int | None:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,15}(?:[.,][0-9]{1,15})?\s*", text):
        return None
    number = float(text.replace(",", "."))
    if kind == "number":
        return number
    return int(number) if number.is_integer() else None
