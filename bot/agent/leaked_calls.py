"""Tool calls that leaked into the text of a reply, as `call:name{key:value}` or `call:name(key=value)`. Pure.

Reads the model's own notation of values: strings between `<|"|>` or quotes, numbers, bare words, lists and
objects.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.agent.tool_calls import read_json

CALL_OPENING = re.compile(r"(?<!\w):?call:(?:call:){0,3}+:?+([\w.-]{1,64}+)\s{0,3}+([{(])", re.IGNORECASE)
MAX_DEPTH = 8
MAX_LEAKS = 64  # calls of one text; after so many the rest of it counts as one that cannot be read
MAX_READ_CHARS = 8192  # characters, from the first call on, whose arguments are read

_BETWEEN_CALLS = re.compile(r"(?:\s|,|<tool_call\|>|<\|tool_call>|<\|tool_response>|<turn\|>)*")
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'<\|"\|>(.*?)<\|"\|>', re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_KEY = re.compile(r"[\w.-]{1,64}")
_WORD = re.compile(r"[^,{}()\[\]<>\"']+")
_CLOSING = {"{": "}", "(": ")", "[": "]"}


class _Unreadable(Exception):
    """There is no value of the notation at this position."""


@dataclass(frozen=True, slots=True)
class LeakedCall:
    """A call found in text: its position, the name it calls, its arguments (None: they cannot be read)."""

    start: int
    end: int
    name: str
    arguments: dict[str, Any] | None
    is_on_own_line: bool


def find_leaked_calls(text: str, tool_names: Sequence[str]) -> tuple[LeakedCall, ...]:
    """All leaked calls, in order; with round brackets only calls of `tool_names`: others may be prose.

    Runs on the event loop, so what is read is bounded: see MAX_LEAKS and MAX_READ_CHARS.
    """
    lower_names = {name.lower() for name in tool_names}
    leaks: list[LeakedCall] = []
    readable = ""
    position = 0
    while opening := CALL_OPENING.search(text, position):
        position = opening.end()
        if opening[2] == "(" and opening[1].lower() not in lower_names:
            continue
        line = text[text.rfind("\n", 0, opening.start()) + 1 : opening.start()]
        is_on_own_line = line.strip() in {"", "<|tool_call>"}
        if not leaks:
            readable = text[: opening.end() + MAX_READ_CHARS]
        parsed = None
        if len(leaks) < MAX_LEAKS - 1:
            parsed = _parse_arguments(readable, opening.end() - 1)
        arguments, position = parsed or (None, len(text))  # where a call that cannot be read ends is unknown
        leaks.append(LeakedCall(opening.start(), position, opening[1], arguments, is_on_own_line))
    return tuple(leaks)


def select_trailing_calls(text: str, leaks: Sequence[LeakedCall]) -> tuple[LeakedCall, ...]:
    """The leaks that surely are meant as calls: the first on its own line, and nothing but calls after it."""
    trailing: list[LeakedCall] = []
    border = len(text)
    for leak in reversed(leaks):
        between = _BETWEEN_CALLS.match(text, leak.end)
        if between is None or between.end() < border:
            break
        trailing.insert(0, leak)
        border = leak.start
    if trailing and trailing[0].is_on_own_line:
        return tuple(trailing)
    return ()


def remove_calls(text: str, leaks: Sequence[LeakedCall]) -> str:
    """The text with these leaks cut out."""
    for leak in reversed(leaks):
        text = text[: leak.start] + text[leak.end :]
    return text


def _parse_arguments(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """What stands between the brackets that open at `start`, and where it ends; None if that is unclear."""
    try:
        return _parse_pairs(text, start, 0)
    except (_Unreadable, ValueError, IndexError):
        return None


def _parse_pairs(text: str, start: int, depth: int) -> tuple[dict[str, Any], int]:
    closing = _CLOSING[text[start]]
    position = _skip_space(text, start + 1)
    pairs: dict[str, Any] = {}
    while text[position] != closing:
        key, position = _parse_key(text, position)
        position = _skip_space(text, position)
        if text[position] not in ":=":
            raise _Unreadable
        pairs[key], position = _parse_value(text, _skip_space(text, position + 1), depth)
        position = _skip_separator(text, position, closing)
    return pairs, position + 1


def _parse_items(text: str, start: int, depth: int) -> tuple[list[Any], int]:
    position = _skip_space(text, start + 1)
    items: list[Any] = []
    while text[position] != "]":
        item, position = _parse_value(text, position, depth)
        items.append(item)
        position = _skip_separator(text, position, "]")
    return items, position + 1


def _parse_value(text: str, position: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise _Unreadable
    if text[position] == "{":
        return _parse_pairs(text, position, depth + 1)
    if text[position] == "[":
        return _parse_items(text, position, depth + 1)
    string = _parse_string(text, position)
    if string is not None:
        return string
    word = _WORD.match(text, position)
    if word is None:
        raise _Unreadable
    return _parse_word(word[0].strip()), word.end()


def _parse_string(text: str, position: int) -> tuple[str, int] | None:
    if marked := _STRING.match(text, position):
        return marked[1], marked.end()
    quoted = _QUOTED.match(text, position)
    if quoted is None:
        return None
    if quoted[0].startswith('"'):
        return str(read_json(quoted[0])), quoted.end()
    return quoted[0][1:-1], quoted.end()


def _parse_key(text: str, position: int) -> tuple[str, int]:
    string = _parse_string(text, position)
    if string is not None:
        return string
    key = _KEY.match(text, position)
    if key is None:
        raise _Unreadable
    return key[0], key.end()


def _parse_word(word: str) -> Any:
    try:
        return read_json(word)
    except ValueError:
        return word


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None
    return space.end()


def _skip_separator(text: str, position: int, closing: str) -> int:
    position = _skip_space(text, position)
    if text[position] == ",":
        return _skip_space(text, position + 1)
    if text[position] != closing:
        raise _Unreadable
    return position
