"""The exclusive intervals of a turn's seconds, and how overlapping spans are cut into them. Pure.

Where work overlaps, canvases count before tools, tools before the waits for the model, these before Telegram,
Telegram before other waiting, waiting before the gateway's own work. Time that no span covers belongs to no
interval: the sum becomes too small, which shows.
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
    "starting",
    "preflight",
    "seat wait",
    "server queue",
    "first canvas",
    "further canvases",
    "failed calls",
    "tools",
    "approval wait",
    "Telegram",
    "back-off",
    "down",
    "own",
]
INTERVAL_ORDER: tuple[IntervalKind, ...] = get_args(IntervalKind)
"""All kinds, in the order in which reports list them."""

# "failed calls" comes first, for a call has failed only in the end; "server queue", which the server tells
# afterwards, before the canvas that it was measured as. Then "further canvases": what a killed process was
# doing is stored from before it saw a first block.
# "seat wait" and "back-off" come before "Telegram", which only shows a status line meanwhile. "down" comes
# before the waits that are read from rows: without a process nothing waits.
_PRECEDENCE: tuple[IntervalKind, ...] = (
    *("failed calls", "server queue", "further canvases", "first canvas", "preflight", "starting", "tools"),
    *("seat wait", "back-off", "Telegram", "down"),
    *("approval wait", "lane wait", "intake", "own"),
)
_RANK = {kind: rank for rank, kind in enumerate(_PRECEDENCE)}

INTERVAL_LABELS: Mapping[IntervalKind, str] = {
    "intake": "stored",
    "lane wait": "wait for this chat",
    "starting": "start",
    "preflight": "a look ahead",
    "seat wait": "wait for a seat",
    "server queue": "wait at the server",
    "first canvas": "first text",
    "further canvases": "further text",
    "failed calls": "failed calls",
    "tools": "tools",
    "approval wait": "a person is asked",
    "Telegram": "delivery",
    "back-off": "pause",
    "down": "down",
    "own": "the gateway",
}
"""What pages call them."""
INTERVAL_DESCRIPTIONS: Mapping[IntervalKind, str] = {
    "intake": "the message is stored on disk and seen",
    "lane wait": (
        "an earlier message of the chat is answered, or the rest of an album or a long paste is awaited"
    ),
    "starting": "what answers need is loaded, after a start",
    "preflight": "the endpoint is asked about the message, or counts its tokens, before the turn begins",
    "seat wait": "the call waits for a free place at the model",
    "server queue": "the call waits at the server, as it tells itself",
    "first canvas": "until the first text: the prompt is read, a queue that the server does not tell",
    "further canvases": "the rest of the reply, from its first text to its end",
    "failed calls": "model calls that came to nothing",
    "tools": "tools run, or sound is put into words",
    "approval wait": "a person is asked",
    "Telegram": "files are fetched and the answer is sent, at the pace Telegram allows",
    "back-off": "a pause before a failed call is made again",
    "down": "no process runs that has the chat, also before the message is received",
    "own": "the gateway's own work: prompts, decisions, storing",
}


def name_interval(kind: IntervalKind) -> str:
    """What reports call it."""
    return INTERVAL_LABELS[kind] if "canvas" in kind else kind


@dataclass(frozen=True, slots=True)
class Span:
    """Work or waiting of one kind from `begin` to `end`, in epoch seconds."""

    kind: IntervalKind
    begin: float
    end: float


def column_name(kind: IntervalKind) -> str:
    """The column of the table `accounts` that stores this interval."""
    return kind.lower().replace(" ", "_").replace("-", "_")


def list_intervals(account: Mapping[str, float]) -> list[tuple[IntervalKind, float]]:
    """The intervals of an account that lasted, with their seconds; none of an empty one."""
    return [(kind, account[column_name(kind)]) for kind in INTERVAL_ORDER if account.get(column_name(kind))]


def to_exclusive_spans(begin: float, end: float, spans: Iterable[Span]) -> list[Span]:
    """The time between `begin` and `end` in pieces without overlap, each of the first kind by precedence."""
    inside = [span for span in spans if span.begin < end and span.end > begin and span.begin < span.end]
    upcoming = deque(sorted(inside, key=lambda span: span.begin))
    borders = {border for span in inside for border in (span.begin, span.end) if begin < border < end}
    pieces: list[Span] = []
    active: list[Span] = []
    for piece_begin, piece_end in pairwise(sorted({begin, end} | borders)):
        while upcoming and upcoming[0].begin <= piece_begin:
            active.append(upcoming.popleft())
        active = [span for span in active if span.end >= piece_end]
        if active:
            kind = min((span.kind for span in active), key=_RANK.__getitem__)
            _append_merged(pieces, kind, piece_begin, piece_end)
    return pieces


def _append_merged(pieces: list[Span], kind: IntervalKind, begin: float, end: float) -> None:
    if pieces and pieces[-1].kind == kind and pieces[-1].end == begin:
        begin = pieces.pop().begin
    pieces.append(Span(kind, begin, end))


def sum_by_kind(spans: Iterable[Span]) -> dict[IntervalKind, float]:
    """Seconds by kind; a kind that did not occur has 0."""
    seconds = dict.fromkeys(INTERVAL_ORDER, 0.0)
    for span in spans:
        seconds[span.kind] += span.end - span.begin
    return seconds


def serialize_spans(spans: Iterable[Span]) -> str:
    """Spans as they are stored: a JSON list of kind, begin and end."""
    return json.dumps([(span.kind, span.begin, span.end) for span in spans])


def parse_spans(text: str | None) -> tuple[Span, ...]:
    """The spans of a text that `serialize_spans` wrote; none of None."""
    return tuple(Span(kind, begin, end) for kind, begin, end in json.loads(text or "[]"))
