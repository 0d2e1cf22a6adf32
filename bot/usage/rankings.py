"""The turns or model calls that took most, as a table for people and records for machines. Pure.

A rate stands only beside the output length it was made at, and never for a reply of one canvas.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from bot.db.usage.rankings import RankedCall, RankedTurn
from bot.usage.json_records import JsonRecord
from bot.usage.report import format_utc
from bot.usage.tables import EMPTY_CELL, UNKNOWN, ReportSection, format_seconds

_TURN_COLUMNS = (
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
_CALL_COLUMNS = (
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


def build_turn_section(turns: Sequence[RankedTurn], sort: str) -> ReportSection:
    """The turns, one a line."""
    return ReportSection(f"Turns by {sort}", _TURN_COLUMNS, tuple(_turn_cells(one) for one in turns))


def build_call_section(calls: Sequence[RankedCall], sort: str) -> ReportSection:
    """The model calls, one a line."""
    return ReportSection(f"Model calls by {sort}", _CALL_COLUMNS, tuple(_call_cells(one) for one in calls))


def build_records(rows: Sequence[RankedTurn] | Sequence[RankedCall]) -> list[JsonRecord]:
    """The same for machines: times in UTC, None where something is unknown."""
    return [_build_record(one) for one in rows]


def _build_record(row: RankedTurn | RankedCall) -> JsonRecord:
    record: JsonRecord = asdict(row)
    if isinstance(row, RankedCall):
        return record | {
            "created_at": format_utc(row.created_at),
            "tokens_per_second": tokens_per_second(row),
        }
    return record | {"received_at": format_utc(row.received_at)}


def tokens_per_second(call: RankedCall) -> float | None:
    """Output tokens a second with a seat; None for one canvas, which costs the same however full it is, or
    unknown.
    """
    told = call.output is not None and call.canvases is not None and call.canvases > 1 and not call.partial
    if not told or not call.seconds or call.output is None:
        return None
    return round(call.output / call.seconds, 1)


def _turn_cells(turn: RankedTurn) -> tuple[str, ...]:
    return (
        f"{turn.turn}",
        format_utc(turn.received_at),
        turn.chat,
        f"{turn.user}",
        "yes" if turn.thinking else "no",
        f"{turn.calls}",
        f"{turn.tools}",
        *(
            (_format_count(number, is_complete=whole) if turn.calls else "0")
            for number, whole in _token_sums(turn)
        ),
        _format_optional_seconds(turn.waited),
        _format_optional_seconds(turn.seconds),
        turn.ending or "running",
    )


def _token_sums(turn: RankedTurn) -> Iterator[tuple[int | None, bool]]:
    """Counts of its calls, and whether all told theirs."""
    yield turn.input, turn.counted
    yield turn.cached, turn.counted and turn.cached_counted
    yield turn.output, turn.counted
    yield turn.canvases, turn.counted


def _call_cells(call: RankedCall) -> tuple[str, ...]:
    fast = tokens_per_second(call)
    return (
        f"{call.call}",
        EMPTY_CELL if call.turn is None else f"{call.turn}",
        format_utc(call.created_at),
        EMPTY_CELL if call.user is None else f"{call.user}",
        call.purpose,
        call.again or "",
        call.model,
        "yes" if call.thinking else "no",
        *(_format_count(number) for number in (call.input, call.cached)),
        *(_format_count(number, is_complete=not call.partial) for number in (call.output, call.reasoning)),
        EMPTY_CELL
        if call.purpose == "decision"
        else _format_count(call.canvases, is_complete=not call.partial),
        _format_optional_seconds(call.waited),
        _format_optional_seconds(call.seconds),
        EMPTY_CELL if fast is None else f"{fast:,.1f}",
        call.outcome or "running",
    )


def _format_count(number: int | None, *, is_complete: bool = True) -> str:
    if number is None:
        return UNKNOWN
    if is_complete:
        return f"{number:,}"
    return f"≥ {number:,}"


def _format_optional_seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return format_seconds(value)
