"""Where a turn's seconds went: exclusive intervals that cover it whole, and its tokens as the server counted
them.

Pure: rows of the ledger and measured spans in, figures and plain words out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bot.db.usage.breakdowns import AccountedTurn, StoredBreakdown, TurnTimestamps
from bot.domain import CANVAS_TOKENS
from bot.usage.histogram import bucket_number
from bot.usage.intervals import (
    INTERVAL_ORDER,
    IntervalKind,
    Span,
    column_name,
    sum_by_kind,
    to_exclusive_spans,
)

DAY_SECONDS = 86_400  # seconds


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens over several calls: None if no call told, `whole` False if some did not or were cut short."""

    tokens: int | None
    is_complete: bool


@dataclass(frozen=True, slots=True)
class TurnBreakdown:
    """What one turn took. `seconds` holds every kind that lasted, in ORDER; they add up to `whole`.

    `calls` and `canvases`, an estimate of ceil(output / 256) a call, leave readings out. `cached` is what the
    server need not compute of `input`.
    """

    total_seconds: float
    interval_seconds: tuple[tuple[IntervalKind, float], ...]
    calls: int
    input: TokenCount
    cached: TokenCount
    output: TokenCount
    canvases: int | None


def build_stored_breakdown(
    timestamps: TurnTimestamps, measured_spans: Iterable[Span], outages: Iterable[tuple[float, float]]
) -> StoredBreakdown:
    """The account of a delivered turn: what was `measured` of it, and times without a process as begin and
    end.

    Of a turn that no process died under, every interval is known as precisely as the clock is read. What a
    killed process did after its last heartbeat is lost, up to a second of it, unless it was stored with the
    turn's end: that second counts as down, of which the heartbeat says when it began, or what the process
    stored of the turn after it. The sum holds all the same, since down ends where the next process begins,
    and whatever follows is measured by that one.
    """
    begin = timestamps.received_at
    end = max(timestamps.received_at, timestamps.settled_at)
    spans = [
        *measured_spans,
        *_spans_from_timestamps(timestamps),
        *(_downtime_span(timestamps, *outage) for outage in outages),
    ]
    seconds = sum_by_kind(to_exclusive_spans(begin, end, spans))
    told = {column_name(kind): value for kind, value in seconds.items()}
    return StoredBreakdown(timestamps.turn, timestamps.settled_at, end - begin, told)


def count_durations(timestamps: TurnTimestamps, breakdown: StoredBreakdown) -> Counter[tuple[int, str, int]]:
    """The account as it is added to the durations: once for each interval that lasted, by day, kind and
    bucket.
    """
    day = int(timestamps.received_at // DAY_SECONDS)
    found = (
        (kind, bucket_number(seconds))
        for kind, seconds in {"whole": breakdown.whole, **breakdown.seconds}.items()
    )
    return Counter((day, kind, number) for kind, number in found if number is not None)


def unmeasured_seconds(breakdown: StoredBreakdown) -> float:
    """Seconds of a turn that nothing has measured: a defect wherever it is more than a rounding error."""
    return breakdown.whole - sum(breakdown.seconds.values())


def build_turn_breakdown(turn: AccountedTurn) -> TurnBreakdown:
    """An accounted turn in figures for people."""
    writing = [call for call in turn.calls if not call.is_reading]
    outputs = [call.output_tokens for call in writing if call.output_tokens is not None]
    seconds = ((kind, turn.account.seconds[column_name(kind)]) for kind in INTERVAL_ORDER)
    return TurnBreakdown(
        total_seconds=turn.account.whole,
        interval_seconds=tuple((kind, value) for kind, value in seconds if value > 0),
        calls=len(writing),
        input=_sum_tokens([call.input_tokens for call in turn.calls]),
        cached=_sum_tokens([call.cached_tokens for call in turn.calls]),
        # A call that was cut has read its whole prompt; only what it wrote may have gone on.
        output=_sum_tokens(
            [call.output_tokens for call in turn.calls], was_cut=any(call.partial for call in turn.calls)
        ),
        canvases=sum(-(-tokens // CANVAS_TOKENS) for tokens in outputs) if outputs else None,
    )


def format_breakdown(breakdown: TurnBreakdown) -> str:
    """Calls, tokens and canvases in one line; what the server did not tell is called unknown."""
    if not breakdown.calls:
        return "no model call"
    if breakdown.calls == 1:
        calls = "1 model call"
    else:
        calls = f"{breakdown.calls} model calls"
    tokens = f"{_format_tokens(breakdown.input)} tokens in ({_format_cached_share(breakdown)}) · {_format_tokens(breakdown.output)} out"
    if breakdown.canvases is None:
        return f"{calls} · {tokens} · canvases unknown"
    return f"{calls} · {tokens} · ~{breakdown.canvases} canvas{'' if breakdown.canvases == 1 else 'es'} (estimated)"


def _format_tokens(count: TokenCount) -> str:
    if count.tokens is None:
        return "unknown"
    return f"{'' if count.is_complete else 'at least '}{count.tokens:,}"


def _format_cached_share(breakdown: TurnBreakdown) -> str:
    cached = breakdown.cached
    given = breakdown.input
    if cached.tokens is None or not given.tokens or not (cached.is_complete and given.is_complete):
        return "cached share unknown"
    return f"{100 * cached.tokens / given.tokens:.0f} % cached"


def _sum_tokens(counts: Sequence[int | None], *, was_cut: bool = False) -> TokenCount:
    known = [number for number in counts if number is not None]
    return TokenCount(sum(known) if known else None, is_complete=len(known) == len(counts) and not was_cut)


def _downtime_span(timestamps: TurnTimestamps, down_since: float, down_until: float) -> Span:
    """A time without a process; while somebody is asked there are few heartbeats, but asking and answering
    are signs of life themselves.
    """
    signs = (
        timestamps.taken_at,
        timestamps.began_at,
        timestamps.asked_at,
        timestamps.agreed_at,
        timestamps.retaken_at,
    )
    return Span(
        "down",
        max([down_since, *(sign for sign in signs if sign is not None and sign < down_until)]),
        down_until,
    )


def _spans_from_timestamps(timestamps: TurnTimestamps) -> Iterator[Span]:
    """What lies before a turn is opened, a question to the chat included, where a process may die before its
    watch is stored; and the whole of a turn that was set aside.
    """
    taken = timestamps.ended_at if timestamps.taken_at is None else timestamps.taken_at
    seen = taken if timestamps.seen_at is None else min(timestamps.seen_at, taken)
    yield Span("intake", timestamps.received_at, seen)
    yield Span("lane wait", seen, taken)
    yield Span("own", taken, timestamps.ended_at if timestamps.failed else timestamps.began_at)
    if timestamps.asked_at is not None and timestamps.agreed_at is not None:
        yield Span("approval wait", timestamps.asked_at, timestamps.agreed_at)
        yield Span("lane wait", timestamps.agreed_at, timestamps.retaken_at or timestamps.agreed_at)
