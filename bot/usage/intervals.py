"""The exclusive intervals a turn's seconds are told in, and how spans that overlap are cut into them. Pure.

Where work overlaps, canvases count before tools, tools before Telegram, Telegram before waiting, waiting
before the gateway's own work. What no span covers is no interval: it is missing, and shows as a sum that is
too small.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

IntervalKind = Literal[
    "intake",
    "lane wait",
    "seat wait",
    "first canvas",
    "further canvases",
    "tools",
    "approval wait",
    "Telegram",
    "back-off",
    "down",
    "own",
]
INTERVAL_ORDER: tuple[IntervalKind, ...] = get_args(IntervalKind)
"""All kinds, as people read them."""

# Further canvases come first of all: what a killed process was at is known from before it saw a first block.
# Down comes before all waiting, which nobody did while there was no process.
_PRECEDENCE: tuple[IntervalKind, ...] = (
    *("further canvases", "first canvas", "tools", "Telegram", "down"),
    *("approval wait", "seat wait", "back-off", "lane wait", "intake", "own"),
)
_RANK = {kind: rank for rank, kind in enumerate(_PRECEDENCE)}

INTERVAL_DESCRIPTIONS: Mapping[IntervalKind, str] = {
    "intake": "the message is stored on disk and seen",
    "lane wait": "an earlier message of the chat is answered, or the rest of an album or a long paste is awaited",
    "seat wait": "the call waits for a free place at the model",
    "first canvas": "the prompt is read and the first 256 tokens are made",
    "further canvases": "the rest of the reply is made, 256 tokens at a time",
    "tools": "tools run, or sound is put into words",
    "approval wait": "a person is asked",
    "Telegram": "files are fetched and the answer is sent, at the pace Telegram allows",
    "back-off": "a pause before a failed call is made again",
    "down": "no process runs",
    "own": "the gateway's own work: prompts, decisions, storing",
}


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted from `begin` to `end`, in epoch seconds."""

    kind: IntervalKind
    begin: float
    end: float


def column_name(kind: IntervalKind) -> str:
    """The column of the table `accounts` that holds this interval."""
    return kind.lower().replace(" ", "_").replace("-", "_")


def to_exclusive_spans(begin: float, end: float, spans: Iterable[Span]) -> list[Span]:
    """What lies between `begin` and `end` in pieces that do not overlap, each of the first kind at work then."""
    inside = [span for span in spans if span.begin < end and span.end > begin and span.begin < span.end]
    coming = deque(sorted(inside, key=lambda span: span.begin))
    cuts = sorted(
        {begin, end} | {cut for span in inside for cut in (span.begin, span.end) if begin < cut < end}
    )
    pieces: list[Span] = []
    at_work: list[Span] = []
    for left, right in pairwise(cuts):
        while coming and coming[0].begin <= left:
            at_work.append(coming.popleft())
        at_work = [span for span in at_work if span.end >= right]
        if at_work:
            _append_merged(pieces, min((span.kind for span in at_work), key=_RANK.__getitem__), left, right)
    return pieces


def _append_merged(pieces: list[Span], kind: IntervalKind, begin: float, end: float) -> None:
    if pieces and pieces[-1].kind == kind and pieces[-1].end == begin:
        begin = pieces.pop().begin
    pieces.append(Span(kind, begin, end))


def sum_by_kind(spans: Iterable[Span]) -> dict[IntervalKind, float]:
    """Seconds by kind, every kind told."""
    seconds = dict.fromkeys(INTERVAL_ORDER, 0.0)
    for piece in spans:
        seconds[piece.kind] += piece.end - piece.begin
    return seconds


def serialize_spans(spans: Iterable[Span]) -> str:
    """Spans as they are stored: a JSON list of kind, begin and end."""
    return json.dumps([(span.kind, span.begin, span.end) for span in spans])


def parse_spans(text: str | None) -> tuple[Span, ...]:
    """What `written` has made, or nothing."""
    return tuple(Span(kind, begin, end) for kind, begin, end in json.loads(text or "[]"))
