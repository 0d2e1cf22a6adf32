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

_RAW_EVENTS = ("Code", "InlineMath", "DisplayMath", "InlineHtml", "Html")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


class MarkdownEvent(NamedTuple):
    """One event of the parser, with its range in UTF-8 bytes of the source.

    `name` is Start, End, or what a leaf is (Text, Code, InlineMath, InlineHtml, …); `kind` what starts or
    ends (Link, Table, CodeBlock, …), else empty; `value` the text of a leaf or the details of what starts.
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
    """The events of a document in order; never raises on text that UTF-8 can hold."""
    return tuple(
        _build_event(payload, where["start"], where["end"]) for payload, where in _read_events(source)
    )


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
    """The source after all edits; they must not overlap."""
    raw = source.encode()
    parts: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += (raw[at : edit.start], edit.text.encode())
        at = edit.end
    return b"".join((*parts, raw[at:])).decode()


def find_verbatim_ranges(events: Iterable[MarkdownEvent]) -> list[tuple[int, int]]:
    """Where a backslash would be shown instead of escaping: code, math, autolinks and raw HTML, as ranges in
    order.
    """
    return sorted(
        (event.start, event.end) for event in events if event.name in _RAW_EVENTS or _is_raw_start(event)
    )


def _is_raw_start(event: MarkdownEvent) -> bool:
    if event.is_start_of("Link"):
        return event.value["link_type"] in ("Autolink", "Email")
    return event.is_start_of("CodeBlock")


def find_gaps(length: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
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


def split_blocks(source: str) -> list[str]:
    """The document's outermost blocks, each with the blank lines after it; together they are the document.

    What the parser keeps for itself (definitions of links) is a block too.
    """
    raw = source.encode()
    borders = {0, len(raw)}
    end = 0
    for start, stop in (*_find_outermost_ranges(source), (len(raw), len(raw))):
        first = raw.rfind(b"\n", 0, start) + 1 if start < len(raw) else start
        kept = raw[end:first]
        if kept.strip():
            borders.add(end + kept.rfind(b"\n", 0, len(kept) - len(kept.lstrip())) + 1)
        borders.add(first)
        end = stop
    return [raw[start:end].decode() for start, end in pairwise(sorted(borders))]


def _find_outermost_ranges(source: str) -> Iterator[tuple[int, int]]:
    depth = 0
    for payload, where in _read_events(source):
        if "Start" in payload or payload == "Rule":
            if depth == 0:
                yield where["start"], where["end"]
            depth += payload != "Rule"
        elif "End" in payload:
            depth -= 1
