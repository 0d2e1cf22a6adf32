"""Where a turn's seconds went: exclusive intervals that cover it whole, and its tokens as the server counted
them.

Pure: rows of the ledger and measured spans in, figures and plain words out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bot.db.usage.breakdowns import Course, Kept, TurnRow
from bot.domain import CANVAS
from bot.usage.histogram import bucket
from bot.usage.intervals import ORDER, Kind, Span, column, divided, summed

DAY = 86_400  # seconds


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens over several calls: None if no call told, `whole` False if some did not or were cut short."""

    tokens: int | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Account:
    """What one turn took. `seconds` holds every kind that lasted, in ORDER; they add up to `whole`.

    `calls` and `canvases`, an estimate of ceil(output / 256) a call, leave readings out. `cached` is what the
    server need not compute of `input`.
    """

    whole: float
    seconds: tuple[tuple[Kind, float], ...]
    calls: int
    input: Count
    cached: Count
    output: Count
    canvases: int | None


def made(course: Course, measured: Iterable[Span], outages: Iterable[tuple[float, float]]) -> Kept:
    """The account of a delivered turn: what was `measured` of it, and times without a process as begin and
    end.

    Of a turn that no process died under, every interval is known as precisely as the clock is read. What a
    killed process did after its last heartbeat is lost, up to a second of it, unless it was stored with the
    turn's end: that second counts as down, of which the heartbeat says when it began, or what the process
    stored of the turn after it. The sum holds all the same, since down ends where the next process begins,
    and whatever follows is measured by that one.
    """
    begin = course.received_at
    end = max(course.received_at, course.settled_at)
    spans = [*measured, *_of_rows(course), *(_down(course, *outage) for outage in outages)]
    seconds = summed(divided(begin, end, spans))
    told = {column(kind): value for kind, value in seconds.items()}
    return Kept(course.turn, course.settled_at, end - begin, told)


def counted(course: Course, kept: Kept) -> Counter[tuple[int, str, int]]:
    """The account as it is added to the durations: once for each interval that lasted, by day, kind and
    bucket.
    """
    day = int(course.received_at // DAY)
    found = ((kind, bucket(seconds)) for kind, seconds in {"whole": kept.whole, **kept.seconds}.items())
    return Counter((day, kind, number) for kind, number in found if number is not None)


def gap(kept: Kept) -> float:
    """Seconds of a turn that nothing has measured: a defect wherever it is more than a rounding error."""
    return kept.whole - sum(kept.seconds.values())


def account(turn: TurnRow) -> Account:
    """An accounted turn in figures for people."""
    writing = [call for call in turn.calls if not call.is_reading]
    outputs = [call.output_tokens for call in writing if call.output_tokens is not None]
    seconds = ((kind, turn.account.seconds[column(kind)]) for kind in ORDER)
    return Account(
        whole=turn.account.whole,
        seconds=tuple((kind, value) for kind, value in seconds if value > 0),
        calls=len(writing),
        input=_count([call.input_tokens for call in turn.calls]),
        cached=_count([call.cached_tokens for call in turn.calls]),
        # A call that was cut has read its whole prompt; only what it wrote may have gone on.
        output=_count(
            [call.output_tokens for call in turn.calls], cut=any(call.partial for call in turn.calls)
        ),
        canvases=sum(-(-tokens // CANVAS) for tokens in outputs) if outputs else None,
    )


def in_words(counted: Account) -> str:
    """Calls, tokens and canvases in one line; what the server did not tell is called unknown."""
    if not counted.calls:
        return "no model call"
    if counted.calls == 1:
        calls = "1 model call"
    else:
        calls = f"{counted.calls} model calls"
    tokens = f"{_tokens(counted.input)} tokens in ({_share(counted)}) · {_tokens(counted.output)} out"
    if counted.canvases is None:
        return f"{calls} · {tokens} · canvases unknown"
    return (
        f"{calls} · {tokens} · ~{counted.canvases} canvas{'' if counted.canvases == 1 else 'es'} (estimated)"
    )


def _tokens(count: Count) -> str:
    if count.tokens is None:
        return "unknown"
    return f"{'' if count.whole else 'at least '}{count.tokens:,}"


def _share(counted: Account) -> str:
    cached = counted.cached
    given = counted.input
    if cached.tokens is None or not given.tokens or not (cached.whole and given.whole):
        return "cached share unknown"
    return f"{100 * cached.tokens / given.tokens:.0f} % cached"


def _count(tokens: Sequence[int | None], *, cut: bool = False) -> Count:
    known = [number for number in tokens if number is not None]
    return Count(sum(known) if known else None, whole=len(known) == len(tokens) and not cut)


def _down(course: Course, left: float, began: float) -> Span:
    """A time without a process; while somebody is asked there are few heartbeats, but asking and answering
    are signs of life themselves.
    """
    signs = (course.taken_at, course.began_at, course.asked_at, course.agreed_at, course.retaken_at)
    return Span("down", max([left, *(sign for sign in signs if sign is not None and sign < began)]), began)


def _of_rows(course: Course) -> Iterator[Span]:
    """What lies before a turn is opened, a question to the chat included, where a process may die before its
    watch is stored; and the whole of a turn that was set aside.
    """
    taken = course.ended_at if course.taken_at is None else course.taken_at
    seen = taken if course.seen_at is None else min(course.seen_at, taken)
    yield Span("intake", course.received_at, seen)
    yield Span("lane wait", seen, taken)
    yield Span("own", taken, course.ended_at if course.failed else course.began_at)
    if course.asked_at is not None and course.agreed_at is not None:
        yield Span("approval wait", course.asked_at, course.agreed_at)
        yield Span("lane wait", course.agreed_at, course.retaken_at or course.agreed_at)
