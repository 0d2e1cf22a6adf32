"""A turn's seconds in exclusive intervals that cover all of it, and its tokens as the server counted them.

Pure: rows of the database and measured spans in, figures and texts out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.canvases import OutputUnit, costs_canvases
from bot.db.usage.breakdowns import StoredBreakdown, TurnTimestamps
from bot.usage.figures import UNKNOWN, format_canvases, format_share
from bot.usage.intervals import (
    IntervalKind,
    Span,
    column_name,
    list_intervals,
    sum_by_kind,
    to_exclusive_spans,
)

if TYPE_CHECKING:  # its figures are only shown, which the measurement of turns need not wait for
    from bot.db.usage.turn_steps import TurnSteps


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens over several calls.

    `tokens` is None if no call reported any; `is_complete` is False if some did not, or were cut short.
    """

    tokens: int | None
    is_complete: bool


@dataclass(frozen=True, slots=True)
class TurnBreakdown:
    """What one turn took.

    `interval_seconds` has each kind that lasted, in INTERVAL_ORDER; they add up to `total_seconds`. `calls`
    and `canvases`, an estimate of ceil(output / 256) per call, leave out typed reads. `cached` is the part of
    `input` that the server need not compute.
    """

    total_seconds: float
    interval_seconds: tuple[tuple[IntervalKind, float], ...]
    calls: int
    input: TokenCount
    cached: TokenCount
    output: TokenCount
    canvases: int | None


def build_stored_breakdown(
    timestamps: TurnTimestamps, measured_spans: Iterable[Span], outages: Sequence[tuple[float, float]]
) -> StoredBreakdown:
    """The breakdown of a delivered turn; `outages` are times without a process, as begin and end, in order.

    It begins when getUpdates had returned the message, or before, when no process was there to fetch it.

    If no process died during the turn, every interval is as precise as the clock. What a killed process did
    after its last heartbeat is lost, at most a second, unless it was stored with the turn's end. That second
    counts as "down", which begins at the heartbeat or at what the process stored of the turn after it. It
    begins earlier where the process had measured nothing more by its last heartbeat: it had lost the chat to
    another one, or took the answer for delivered, and was killed before that was stored. The sum is still
    right: "down" ends where the next process begins, and that one measures all that follows.
    """
    waits = list(_list_waits_at_telegram(timestamps, outages))
    begin = min([timestamps.received_at, *(since for since, _ in waits)])
    end = max(timestamps.received_at, timestamps.settled_at)
    spans = [*measured_spans, *_spans_from_timestamps(timestamps)]
    # A process runs, and has not fetched the message yet.
    next_begins = [since for since, _ in waits[1:]]
    starts = zip((until for _, until in waits), [*next_begins, timestamps.received_at], strict=False)
    spans += [Span("starting", since, until) for since, until in starts if since < until]
    known = to_exclusive_spans(begin, end, spans)
    downtimes = [_downtime_span(timestamps, known, *outage) for outage in outages]
    seconds = sum_by_kind(to_exclusive_spans(begin, end, [*spans, *downtimes]))
    seconds_by_column = {column_name(kind): value for kind, value in seconds.items()}
    return StoredBreakdown(timestamps.turn, timestamps.settled_at, end - begin, seconds_by_column)


def unmeasured_seconds(breakdown: StoredBreakdown) -> float:
    """Seconds of a turn that nothing measured: a defect wherever it is more than a rounding error."""
    return breakdown.whole - sum(breakdown.seconds.values())


def build_turn_breakdown(turn: "TurnSteps") -> TurnBreakdown:
    """The figures of a turn whose breakdown is stored."""
    replies = [call for call in turn.calls if costs_canvases(call.purpose)]
    return TurnBreakdown(
        total_seconds=turn.account["whole"],
        interval_seconds=tuple(list_intervals(turn.account)),
        calls=len(replies),
        input=_sum_tokens([call.prompt_tokens for call in turn.calls]),
        cached=_sum_tokens([call.cached_tokens for call in turn.calls]),
        # A call that was cut has read its whole prompt; only its output may have continued.
        output=_sum_tokens(
            [call.completion_tokens for call in turn.calls],
            was_cut=any(call.usage_partial for call in turn.calls),
        ),
        canvases=_sum_or_none([call.canvases for call in replies if call.canvases is not None]),
    )


def format_breakdown(breakdown: TurnBreakdown, unit: OutputUnit) -> str:
    """Calls, tokens and any canvases in one line; what the server did not report is called unknown."""
    if not breakdown.calls:
        return "no model call"
    calls = "1 model call"
    if breakdown.calls > 1:
        calls = f"{breakdown.calls} model calls"
    cached_share = _format_cached_share(breakdown)
    tokens_in = f"{_format_tokens(breakdown.input)} tokens in ({cached_share})"
    tokens_out = f"{_format_tokens(breakdown.output)} out"
    parts = [calls, tokens_in, tokens_out]
    if unit.has_canvases:
        parts.append(format_canvases(breakdown.canvases, "~"))
    return " · ".join(parts)


def _format_tokens(count: TokenCount) -> str:
    if count.tokens is None:
        return UNKNOWN
    if count.is_complete:
        return f"{count.tokens:,}"
    return f"at least {count.tokens:,}"


def _format_cached_share(breakdown: TurnBreakdown) -> str:
    cached = breakdown.cached
    prompt = breakdown.input
    if cached.tokens is None or not prompt.tokens or not (cached.is_complete and prompt.is_complete):
        return "cached share unknown"
    return f"{format_share(cached.tokens, prompt.tokens, decimals=0)} cached"


def _sum_tokens(counts: Sequence[int | None], *, was_cut: bool = False) -> TokenCount:
    known_counts = [count for count in counts if count is not None]
    is_complete = len(known_counts) == len(counts) and not was_cut
    return TokenCount(_sum_or_none(known_counts), is_complete)


def _sum_or_none(counts: Sequence[int]) -> int | None:
    if counts:
        return sum(counts)
    return None


def get_waiting_since(timestamps: TurnTimestamps) -> float:
    """From when on the message may have waited at Telegram; its date has whole seconds."""
    if timestamps.sent_at is None:
        return timestamps.received_at
    return min(timestamps.received_at, timestamps.sent_at + 1.0)


def _list_waits_at_telegram(
    timestamps: TurnTimestamps, outages: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """The outages before its receipt in which the message was sent or waited, from then on.

    One that contains the receipt begins at a heartbeat, after which the process lived on and received it.
    """
    waiting_since = get_waiting_since(timestamps)
    for down_since, down_until in outages:
        since = max(waiting_since, down_since)
        if since < down_until <= timestamps.received_at:
            yield since, down_until


def _downtime_span(
    timestamps: TurnTimestamps, known: Sequence[Span], down_since: float, down_until: float
) -> Span:
    """A time without a process.

    While a person is asked there are few heartbeats, but the question and the answer are signs of life, too.
    Whatever is not `known` up to the last sign of life was lost with the process.
    """
    signs_of_life = (
        timestamps.taken_at,
        timestamps.began_at,
        timestamps.asked_at,
        timestamps.agreed_at,
        timestamps.retaken_at,
    )
    earlier_signs = [sign for sign in signs_of_life if sign is not None and sign < down_until]
    last_sign = max([min(down_since, down_until), *earlier_signs])
    known_until = [min(span.end, last_sign) for span in known if span.begin < last_sign]
    return Span("down", max(known_until, default=last_sign), down_until)


def _spans_from_timestamps(timestamps: TurnTimestamps) -> Iterator[Span]:
    """The time before a turn is opened, where a process may die before its timer is stored.

    A question to the chat is included, and so is the whole of a turn that failed.
    """
    taken_at = timestamps.taken_at
    if taken_at is None:
        taken_at = timestamps.ended_at
    seen_at = taken_at
    if timestamps.seen_at is not None:
        seen_at = min(timestamps.seen_at, taken_at)
    yield Span("intake", timestamps.received_at, seen_at)
    yield Span("lane wait", seen_at, taken_at)
    if timestamps.failed:
        yield Span("own", taken_at, timestamps.ended_at)
    else:
        yield Span("own", taken_at, timestamps.began_at)
    if timestamps.asked_at is not None and timestamps.agreed_at is not None:
        yield Span("approval wait", timestamps.asked_at, timestamps.agreed_at)
        yield Span("lane wait", timestamps.agreed_at, timestamps.retaken_at or timestamps.agreed_at)
