"""Markdown as its parser sees it: events with the place in the source they come from, and edits of that
source.

Pure, and the only place that calls the parser: with the options of telegramify-markdown, so that both read
the same.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pyromark
from telegramify_markdown.converter import STANDARD_OPTIONS

_RAW = ("Code", "InlineMath", "DisplayMath", "InlineHtml", "Html")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


class Event(NamedTuple):
    """One event of the parser, with its range in UTF-8 bytes of the source.

    `name` is Start, End, or what a leaf is (Text, Code, InlineMath, InlineHtml, …); `kind` what starts or
    ends (Link, Table, CodeBlock, …), else empty; `value` the text of a leaf or the details of what starts.
    """

    name: str
    kind: str
    value: Any
    start: int
    end: int

    def opens(self, *kinds: str) -> bool:
        """Whether a construct of one of these kinds begins here."""
        return self.kind in kinds and self.name == "Start"

    def closes(self, *kinds: str) -> bool:
        """Whether a construct of one of these kinds ends here."""
        return self.kind in kinds and self.name == "End"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes `start` to `end` of a source by `text`."""

    start: int
    end: int
    text: str


def parse(source: str) -> tuple[Event, ...]:
    """The events of a document in order; never raises on text that UTF-8 can hold."""
    return tuple(_event(payload, where["start"], where["end"]) for payload, where in _read(source))


def _read(source: str) -> Iterator[tuple[Any, Any]]:
    return pyromark.events_with_range(source, options=STANDARD_OPTIONS)


def _event(payload: Any, start: int, end: int) -> Event:
    if type(payload) is str:
        return Event(payload, "", None, start, end)
    ((name, value),) = payload.items()
    if name not in ("Start", "End"):
        return Event(name, "", value, start, end)
    if type(value) is str:
        return Event(name, value, None, start, end)
    ((kind, details),) = value.items()
    return Event(name, kind, details, start, end)


def is_line_break(event: Event) -> bool:
    """Whether this is `<br>`, the only way to break a line within a table."""
    return event.name == "InlineHtml" and _BREAK.fullmatch(event.value) is not None


def edited(source: str, edits: Iterable[Edit]) -> str:
    """The source after all edits; they must not overlap."""
    raw = source.encode()
    parts: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += (raw[at : edit.start], edit.text.encode())
        at = edit.end
    return b"".join((*parts, raw[at:])).decode()


def verbatim(events: Iterable[Event]) -> list[tuple[int, int]]:
    """Where a backslash would be shown instead of escaping: code, math, autolinks and raw HTML, as ranges in
    order.
    """
    return sorted((event.start, event.end) for event in events if event.name in _RAW or _is_raw_start(event))


def _is_raw_start(event: Event) -> bool:
    if event.opens("Link"):
        return event.value["link_type"] in ("Autolink", "Email")
    return event.opens("CodeBlock")


def outside(length: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of 0 to `length` lies in none of the ordered ranges."""
    gaps: list[tuple[int, int]] = []
    at = 0
    for start, end in ranges:
        if start > at:
            gaps.append((at, start))
        at = max(at, end)
    if at < length:
        gaps.append((at, length))
    return gaps


def blocks(source: str) -> list[str]:
    """The document's outermost blocks, each with the blank lines after it; together they are the document.

    What the parser keeps for itself (definitions of links) is a block too.
    """
    raw = source.encode()
    borders = {0, len(raw)}
    end = 0
    for start, stop in (*_outermost(source), (len(raw), len(raw))):
        first = raw.rfind(b"\n", 0, start) + 1 if start < len(raw) else start
        kept = raw[end:first]
        if kept.strip():
            borders.add(end + kept.rfind(b"\n", 0, len(kept) - len(kept.lstrip())) + 1)
        borders.add(first)
        end = stop
    return [raw[start:end].decode() for start, end in pairwise(sorted(borders))]


def _outermost(source: str) -> Iterator[tuple[int, int]]:
    depth = 0
    for payload, where in _read(source):
        if "Start" in payload or payload == "Rule":
            if depth == 0:
                yield where["start"], where["end"]
            depth += payload != "Rule"
        elif "End" in payload:
            depth -= 1
