"""The turns or model calls that took most, as a table for people and records for machines. Pure.

A rate stands only beside the output length it was made at, and never for a reply of one canvas.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from bot.db.usage.rankings import RankedCall, RankedTurn
from bot.usage.json_records import Record
from bot.usage.report import moment
from bot.usage.tables import NOT_TOLD, UNKNOWN, Section, seconds

_TURNS = (
    *(
        "turn",
        "when (UTC)",
        "chat",
        "user",
        "thinking",
        "calls",
        "tools",
        "input",
        "cached",
        "output",
        "canvases est.",
    ),
    *("waited s", "seconds", "ending"),
)
_CALLS = (
    *(
        "call",
        "turn",
        "when (UTC)",
        "user",
        "purpose",
        "again",
        "model",
        "thinking",
        "input",
        "cached",
        "output",
    ),
    *("reasoning", "canvases est.", "waited s", "seconds", "tok/s", "outcome"),
)


def turns(found: Sequence[RankedTurn], sort: str) -> Section:
    """The turns, one a line."""
    return Section(f"Turns by {sort}", _TURNS, tuple(_turn(one) for one in found))


def calls(found: Sequence[RankedCall], sort: str) -> Section:
    """The model calls, one a line."""
    return Section(f"Model calls by {sort}", _CALLS, tuple(_call(one) for one in found))


def records(found: Sequence[RankedTurn] | Sequence[RankedCall]) -> list[Record]:
    """The same for machines: times in UTC, None where something is unknown."""
    return [_record(one) for one in found]


def _record(one: RankedTurn | RankedCall) -> Record:
    record: Record = asdict(one)
    if isinstance(one, RankedCall):
        return record | {"created_at": moment(one.created_at), "tokens_per_second": rate(one)}
    return record | {"received_at": moment(one.received_at)}


def rate(call: RankedCall) -> float | None:
    """Output tokens a second with a seat; None for one canvas, which costs the same however full it is, or
    unknown.
    """
    told = call.output is not None and call.canvases is not None and call.canvases > 1 and not call.partial
    if not told or not call.seconds or call.output is None:
        return None
    return round(call.output / call.seconds, 1)


def _turn(one: RankedTurn) -> tuple[str, ...]:
    return (
        f"{one.turn}",
        moment(one.received_at),
        one.chat,
        f"{one.user}",
        "yes" if one.thinking else "no",
        f"{one.calls}",
        f"{one.tools}",
        *((_count(number, whole=whole) if one.calls else "0") for number, whole in _sums(one)),
        _time(one.waited),
        _time(one.seconds),
        one.ending or "running",
    )


def _sums(one: RankedTurn) -> Iterator[tuple[int | None, bool]]:
    """Counts of its calls, and whether all told theirs."""
    yield one.input, one.counted
    yield one.cached, one.counted and one.cached_counted
    yield one.output, one.counted
    yield one.canvases, one.counted


def _call(one: RankedCall) -> tuple[str, ...]:
    fast = rate(one)
    return (
        f"{one.call}",
        NOT_TOLD if one.turn is None else f"{one.turn}",
        moment(one.created_at),
        NOT_TOLD if one.user is None else f"{one.user}",
        one.purpose,
        one.again or "",
        one.model,
        "yes" if one.thinking else "no",
        *(_count(number) for number in (one.input, one.cached)),
        *(_count(number, whole=not one.partial) for number in (one.output, one.reasoning)),
        NOT_TOLD if one.purpose == "decision" else _count(one.canvases, whole=not one.partial),
        _time(one.waited),
        _time(one.seconds),
        NOT_TOLD if fast is None else f"{fast:,.1f}",
        one.outcome or "running",
    )


def _count(number: int | None, *, whole: bool = True) -> str:
    if number is None:
        return UNKNOWN
    if whole:
        return f"{number:,}"
    return f"≥ {number:,}"


def _time(time: float | None) -> str:
    if time is None:
        return UNKNOWN
    return seconds(time)
