"""Markdown as its parser sees it: events with their range in the source, and edits of that source.

Pure, and the only module that calls the parser: with the options of telegramify-markdown, so that both parse
alike.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple

import pyromark
from telegramify_markdown.converter import STANDARD_OPTIONS

MAX_EVENTS = 20_000
"""Events of one document that are worth their formatting; ordinary Markdown of 64 KB has about 10,000."""

_MIN_EVENTS = 1000  # a small table may have more cells than characters
_MAX_DEPTH = 24  # constructs within each other; people nest lists up to six deep, which is twelve
_RAW_EVENTS = ("Code", "InlineMath", "DisplayMath", "InlineHtml", "Html")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


class MarkdownTooDense(Exception):
    """The text has so many or so deeply nested constructs that formatting it would take too long."""


class MarkdownEvent(NamedTuple):
    """One event of the parser, with its range in UTF-8 bytes of the source.

    `name`: Start, End, or the type of a leaf (Text, Code, InlineMath, InlineHtml, …).
    `kind`: what starts or ends (Link, Table, CodeBlock, …), else empty.
    `value`: the text of a leaf, or the details of what starts.
    """

    name: str
    kind: str
    value: Any
    start: int
    end: int

    def is_start_of(self, *kinds: str) -> bool:
        """Whether a construct of one of these kinds begins here."""
        return self.kind in kinds and self.name == "Start"

    def is_end_of(self, *kinds: str) -> bool:
        """Whether a construct of one of these kinds ends here."""
        return self.kind in kinds and self.name == "End"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes `start` to `end` of a source by `text`."""

    start: int
    end: int
    text: str


def parse_markdown(source: str) -> tuple[MarkdownEvent, ...]:
    """Return the events of a document in order.

    The parser reads any text that UTF-8 can hold in linear time. Raises MarkdownTooDense.
    """
    max_events = _count_max_events(source)
    events: list[MarkdownEvent] = []
    depth = 0
    for payload, place in _read_events(source):
        event = _build_event(payload, place["start"], place["end"])
        depth += (event.name == "Start") - (event.name == "End")
        if len(events) == max_events or depth > _MAX_DEPTH:
            raise MarkdownTooDense
        events.append(event)
    return tuple(events)


def _count_max_events(source: str) -> int:
    """Return how many events to read: no more than Markdown has, except that tables can have n² cells."""
    return min(MAX_EVENTS, _MIN_EVENTS + 4 * len(source))


def _read_events(source: str) -> Iterator[tuple[Any, Any]]:
    return pyromark.events_with_range(source, options=STANDARD_OPTIONS)


def _build_event(payload: Any, start: int, end: int) -> MarkdownEvent:
    if type(payload) is str:
        return MarkdownEvent(payload, "", None, start, end)
    ((name, value),) = payload.items()
    if name not in ("Start", "End"):
        return MarkdownEvent(name, "", value, start, end)
    if type(value) is str:
        return MarkdownEvent(name, value, None, start, end)
    ((kind, details),) = value.items()
    return MarkdownEvent(name, kind, details, start, end)


def is_line_break(event: MarkdownEvent) -> bool:
    """Whether this is `<br>`, the only way to break a line within a table."""
    return event.name == "InlineHtml" and _LINE_BREAK.fullmatch(event.value) is not None


def apply_edits(source: str, edits: Iterable[Edit]) -> str:
    """Return the source after all edits; they must not overlap."""
    raw = source.encode()
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += (raw[position : edit.start], edit.text.encode())
        position = edit.end
    return b"".join((*parts, raw[position:])).decode()


def find_verbatim_ranges(events: Iterable[MarkdownEvent]) -> list[tuple[int, int]]:
    """Return the ranges, in order, where a backslash would be shown: code, math, autolinks and raw HTML."""
    return sorted(
        (event.start, event.end) for event in events if event.name in _RAW_EVENTS or _is_raw_start(event)
    )


def _is_raw_start(event: MarkdownEvent) -> bool:
    if event.is_start_of("Link"):
        return event.value["link_type"] in ("Autolink", "Email")
    return event.is_start_of("CodeBlock")


def find_gaps(length: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of 0 to `length` lies in none of the ordered ranges."""
    gaps: list[tuple[int, int]] = []
    position = 0
    for start, end in ranges:
        if start > position:
            gaps.append((position, start))
        position = max(position, end)
    if position < length:
        gaps.append((position, length))
    return gaps


def split_blocks(source: str) -> list[str]:
    """Split a document into its outermost blocks, each with the blank lines after it; nothing is left out.

    What the parser emits no events for (definitions of links) is a block too, and so is all that follows
    the events that are read.
    """
    raw = source.encode()
    borders = {0, len(raw)}
    previous_end = 0
    for start, end in (*_find_outermost_ranges(source), (len(raw), len(raw))):
        line_start = raw.rfind(b"\n", 0, start) + 1 if start < len(raw) else start
        skipped = raw[previous_end:line_start]
        if skipped.strip():
            blank_length = len(skipped) - len(skipped.lstrip())
            borders.add(previous_end + skipped.rfind(b"\n", 0, blank_length) + 1)
        borders.add(line_start)
        previous_end = end
    return [raw[start:end].decode() for start, end in pairwise(sorted(borders))]


def _find_outermost_ranges(source: str) -> Iterator[tuple[int, int]]:
    depth = 0
    for payload, place in islice(_read_events(source), _count_max_events(source)):
        if "Start" in payload or payload == "Rule":
            if depth == 0:
                yield place["start"], place["end"]
            depth += payload != "Rule"
        elif "End" in payload:
            depth -= 1
