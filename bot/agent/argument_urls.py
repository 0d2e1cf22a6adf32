"""Finds what a tool could open among the arguments of a call, whatever an argument is called. Pure.

Text of strangers may talk a model into carrying what it knows away in an address. Which argument a tool opens
is only what its author says, so every string counts, also in lists and objects, and names of objects:

- a string that begins with a scheme, or is a host with a path or a query, as a whole
- in a longer text, each address with a scheme, and each host with a path or a query
- a bare host where the argument is called like an address
- what is an address only once escapes or line breaks are taken out of it, as a whole

A bare host in a longer text is none: words with a dot between them are too common.
"""

import html
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

MAX_ADDRESSES = 20
"""More in one call are not looked at; the caller takes such a call for one with an unknown address."""

# Programs in browsers and on servers open `https:host` and `https:\\host`, too.
_SCHEME = re.compile(r"(?:https?|wss?|ftps?):(?=\S)|[a-z][a-z0-9+.-]{0,30}:(?=[/\\]{2})", re.IGNORECASE)
# The same without where it begins: to find that, it would look back at 30 characters from each.
_SCHEME_END = re.compile(r"(?:https?|wss?|ftps?):(?=\S)|[a-z][0-9+.-]{0,30}:(?=[/\\]{2})", re.IGNORECASE)
_OUTSIDE_RUN = '\\s<>"“”„«»`'
_CLOSERS = ".,;:!?)]}'’*_~|…"  # what may follow an address in a text
_MAX_CLOSERS = 3  # more could be a message
_LINE_BREAKS = re.compile(r"[\t\r\n]")
_JSON_ESCAPE = re.compile(r"\\(?:u00([0-7][0-9a-f])|(/))", re.IGNORECASE)
_DOT = "[.\u3002\uff0e\uff61]"
_SIGN = rf"(?:[a-z0-9+.-]:(?=\S)|{_DOT}(?:[^\W_]{{2}}|\d)|\[[0-9a-f:.]+\])"  # in each scheme, in each host
_RUN_WITH_SIGN = re.compile(
    rf"(?<![^{_OUTSIDE_RUN}])[^{_OUTSIDE_RUN}]*?{_SIGN}[^{_OUTSIDE_RUN}]*", re.IGNORECASE
)
_HOST = (
    rf"(?:(?:[\w-]{{1,63}}{_DOT}){{1,20}}(?:[^\W\d_]{{2,63}}|xn--[\w-]{{1,59}}){_DOT}?"  # a name
    rf"|\d{{1,3}}(?:{_DOT}\d{{1,3}}){{3}}|\[[0-9a-f:.]+\])"  # or a number
    r"(?::\d{1,5})?"
)
_PATH_MARK = re.compile("[/?#]")
_BARE_HOST = re.compile(_HOST, re.IGNORECASE)
_HOST_AND_PATH = re.compile(rf"(?:[^\s/?#@]{{1,200}}@)?{_HOST}[/\\?#]", re.IGNORECASE)
_HOST_IN_TEXT = re.compile(rf"(?<![\w@.-]){_HOST}[/?#](?=\S*\w)", re.IGNORECASE)
_NAME_WORD = re.compile(r"[a-z]+|[A-Z](?:[A-Z]*(?![a-z])|[a-z]+)")
_ADDRESS_WORD = re.compile(
    r"(?:address|callback|domain|endpoint|feed|homepage|host|hostname|href|link|origin|proxy|server|site|uri"
    r"|url|webhook|website)(?:e?s)?"
)


def list_addresses(arguments: Mapping[str, Any], opened: str | None) -> Iterator[object]:
    """What is or holds an address, in the order of the arguments; some may be found twice.

    `opened` is the argument that the tool says it opens: all that it holds counts.
    """
    for name, value in arguments.items():
        if name == opened:
            yield from _list_opened(value)
        else:
            yield from _list_in_text(name, "")
            yield from _list_in_value(value, name)


def _list_opened(value: object) -> Iterator[object]:
    if isinstance(value, list):
        yield from value
    elif value is not None:
        yield value


def _list_in_value(value: object, name: str) -> Iterator[str]:
    if isinstance(value, str):
        yield from _list_in_text(value, name)
    elif isinstance(value, list):
        for item in value:
            yield from _list_in_value(item, name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _list_in_text(key, "")
            yield from _list_in_value(item, key)


def _list_in_text(text: str, name: str) -> Iterator[str]:
    """The addresses of one string, the value of an argument of this name."""
    text = text.strip().strip("\"'<>")
    pieces = re.split(r"[\s,]+", text)
    is_address = _is_address_name(name)
    if all(_is_address(piece, is_address) for piece in pieces):
        yield from pieces
    elif _is_address(text, is_address):
        yield text
    else:
        yield from _list_inside(text)


def _is_address(text: str, is_address_name: bool) -> bool:
    """Whether a whole string is an address, or begins with one."""
    if _SCHEME.match(text) or text.startswith(("//", "\\\\")) or _HOST_AND_PATH.match(text):
        return True
    return is_address_name and _BARE_HOST.fullmatch(text) is not None


def _list_inside(text: str) -> Iterator[str]:
    """The addresses in a text, or the text if they are hidden in it."""
    rest = []
    end = 0
    for start, stop in _find_spans(text):
        rest.append(text[end:start])
        end = stop
        yield _strip_closers(text[start:stop])
    rest.append(text[end:])
    if _has_hidden_address(" ".join(rest)):
        yield text


def _find_spans(text: str) -> Iterator[tuple[int, int]]:
    for run in _RUN_WITH_SIGN.finditer(text):
        starts = [run.start() + start for start in _find_starts(run[0])]
        yield from itertools.pairwise([*starts, run.end()])


def _find_starts(run: str) -> list[int]:
    """Where addresses begin among characters without a blank: at each scheme, and at a host before them."""
    starts = [match.start() for match in _SCHEME.finditer(run)]
    host = _HOST_IN_TEXT.search(run) if _PATH_MARK.search(run) else None
    if host and host.start() < min(starts, default=len(run)):
        starts.insert(0, host.start())
    return starts


def _strip_closers(address: str) -> str:
    for _ in range(_MAX_CLOSERS):
        if address[-1:] not in _CLOSERS:
            break
        address = address[:-1]
    return address


def _has_hidden_address(text: str) -> bool:
    """Whether a text has one once it is decoded; without line breaks words may look like a host."""
    decoded = {
        unquote(unquote(text)),
        html.unescape(text),
        _JSON_ESCAPE.sub(lambda escape: escape[2] or chr(int(escape[1], 16)), text),
    } - {text}
    if any(_SCHEME_END.search(reading) for reading in {*decoded, _LINE_BREAKS.sub("", text)} - {text}):
        return True
    return any(True for reading in decoded for _ in _find_spans(reading))


def _is_address_name(name: str) -> bool:
    return any(_ADDRESS_WORD.fullmatch(word.lower()) for word in _NAME_WORD.findall(name[:200]))
