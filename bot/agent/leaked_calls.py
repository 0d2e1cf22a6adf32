"""Tool calls that leaked into the text of a reply, as `call:name{key:value}` or `call:name(key=value)`. Pure.

Reads the model's own notation of values: strings between `<|"|>` or quotes, numbers, words, lists and
objects.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.agent.tool_calls import read_json

OPENING = re.compile(r"(?<!\w):?call:(?:call:){0,3}:?([\w.-]{1,64})\s{0,3}([{(])", re.IGNORECASE)
DEPTH = 8

_BETWEEN = re.compile(r"(?:\s|,|<tool_call\|>|<\|tool_call>|<\|tool_response>|<turn\|>)*")
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'<\|"\|>(.*?)<\|"\|>', re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_KEY = re.compile(r"[\w.-]{1,64}")
_WORD = re.compile(r"[^,{}()\[\]<>\"']+")
_CLOSING = {"{": "}", "(": ")", "[": "]"}


class _Unreadable(Exception):
    """What stands here is no value of the notation."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A call found in text: where it stands, whom it names, what it holds. `arguments` None: it cannot be
    read.
    """

    start: int
    end: int
    name: str
    arguments: dict[str, Any] | None
    own_line: bool


def find(text: str, names: Sequence[str]) -> tuple[Leak, ...]:
    """All leaked calls, in order. With round brackets only calls of `names` count: prose may hold the others."""
    known = {name.lower() for name in names}
    found: list[Leak] = []
    position = 0
    while opening := OPENING.search(text, position):
        position = opening.end()
        if opening[2] == "(" and opening[1].lower() not in known:
            continue
        line = text[text.rfind("\n", 0, opening.start()) + 1 : opening.start()]
        arguments, end = _arguments(text, opening.end() - 1)
        found.append(Leak(opening.start(), end, opening[1], arguments, line.strip() in {"", "<|tool_call>"}))
        position = end
    return tuple(found)


def asked(text: str, leaks: Sequence[Leak]) -> tuple[Leak, ...]:
    """The leaks that surely ask for something: each on a line of its own, and nothing but calls up to the
    end.
    """
    wanted: list[Leak] = []
    border = len(text)
    for leak in reversed(leaks):
        between = _BETWEEN.match(text, leak.end)
        if between is None or between.end() < border:
            break
        wanted.insert(0, leak)
        border = leak.start
    if wanted and wanted[0].own_line:
        return tuple(wanted)
    return ()


def without(text: str, leaks: Sequence[Leak]) -> str:
    """The text with these leaks cut out."""
    for leak in reversed(leaks):
        text = text[: leak.start] + text[leak.end :]
    return text


def _arguments(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """What stands between the brackets that open at `start`, and where it ends; if unclear, nothing up to the
    end.
    """
    try:
        return _pairs(text, start, 0)
    except (_Unreadable, ValueError, IndexError):
        return None, len(text)


def _pairs(text: str, start: int, depth: int) -> tuple[dict[str, Any], int]:
    closing = _CLOSING[text[start]]
    at = _skip(text, start + 1)
    pairs: dict[str, Any] = {}
    while text[at] != closing:
        key, at = _key(text, at)
        at = _skip(text, at)
        if text[at] not in ":=":
            raise _Unreadable
        pairs[key], at = _value(text, _skip(text, at + 1), depth)
        at = _after(text, at, closing)
    return pairs, at + 1


def _items(text: str, start: int, depth: int) -> tuple[list[Any], int]:
    at = _skip(text, start + 1)
    items: list[Any] = []
    while text[at] != "]":
        item, at = _value(text, at, depth)
        items.append(item)
        at = _after(text, at, "]")
    return items, at + 1


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > DEPTH:
        raise _Unreadable
    if text[at] == "{":
        return _pairs(text, at, depth + 1)
    if text[at] == "[":
        return _items(text, at, depth + 1)
    string = _string(text, at)
    if string is not None:
        return string
    word = _WORD.match(text, at)
    if word is None:
        raise _Unreadable
    return _read(word[0].strip()), word.end()


def _string(text: str, at: int) -> tuple[str, int] | None:
    if marked := _STRING.match(text, at):
        return marked[1], marked.end()
    if quoted := _QUOTED.match(text, at):
        inner = quoted[0][1:-1]
        return (str(read_json(quoted[0])) if quoted[0][0] == '"' else inner), quoted.end()
    return None


def _key(text: str, at: int) -> tuple[str, int]:
    string = _string(text, at)
    if string is not None:
        return string
    key = _KEY.match(text, at)
    if key is None:
        raise _Unreadable
    return key[0], key.end()


def _read(word: str) -> Any:
    try:
        return read_json(word)
    except ValueError:
        return word


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _after(text: str, at: int, closing: str) -> int:
    at = _skip(text, at)
    if text[at] == ",":
        return _skip(text, at + 1)
    if text[at] != closing:
        raise _Unreadable
    return at
