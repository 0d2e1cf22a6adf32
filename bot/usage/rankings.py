"""The turns or model calls that took most: a table for people and records for machines. Pure.

A rate is shown only beside the output length it was measured at, and never for a reply of one canvas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from bot.canvases import costs_canvases
from bot.db.usage.rankings import RankedCall, RankedTurn
from bot.tables import CanvasColumnName, TextTable
from bot.usage.figures import EMPTY_CELL, format_count, format_seconds
from bot.usage.json_records import JsonRecord
from bot.usage.local_times import format_local, format_utc
from bot.usage.report import format_person

_CANVASES = CanvasColumnName("canvases est.")
_TURN_COLUMNS = (
    *("chat", "user", "thinking", "calls", "tools"),
    *("input", "cached", "output", _CANVASES, "waited s", "seconds", "ending"),
)
_CALL_COLUMNS = (
    *("user", "purpose", "again", "model", "thinking"),
    *("input", "cached", "output", "reasoning", _CANVASES, "waited s", "seconds", "tok/s", "outcome"),
)


def build_turn_section(
    turns: Sequence[RankedTurn], sort: str, names: Mapping[int, str], zone: str
) -> TextTable:
    """The turns, one per row."""
    rows = tuple(_turn_cells(turn, names, zone) for turn in turns)
    return TextTable(f"Turns by {sort}", ("turn", f"when ({zone})", *_TURN_COLUMNS), rows)


def build_call_section(
    calls: Sequence[RankedCall], sort: str, names: Mapping[int, str], zone: str
) -> TextTable:
    """The model calls, one per row."""
    rows = tuple(_call_cells(call, names, zone) for call in calls)
    return TextTable(f"Model calls by {sort}", ("call", "turn", f"when ({zone})", *_CALL_COLUMNS), rows)


def build_turn_records(turns: Sequence[RankedTurn]) -> list[JsonRecord]:
    """The same for machines: times in UTC, None where something is unknown."""
    return [asdict(turn) | {"received_at": format_utc(turn.received_at)} for turn in turns]


def build_call_records(calls: Sequence[RankedCall]) -> list[JsonRecord]:
    """The same for machines."""
    return [
        {
            "call": call.id,
            "turn": call.turn,
            "step": call.step,
            "chat": call.chat,
            "user": call.user,
            "created_at": format_utc(call.created_at),
            "purpose": call.purpose,
            "again": call.again,
            "model": call.model,
            "thinking": call.thinking,
            "input": call.prompt_tokens,
            "cached": call.cached_tokens,
            "output": call.completion_tokens,
            "reasoning": call.reasoning_tokens,
            "canvases": call.canvases,
            "partial": call.usage_partial,
            "waited": call.waited,
            "seconds": call.seat_seconds,
            "outcome": call.outcome,
            "tokens_per_second": tokens_per_second(call),
        }
        for call in calls
    ]


def tokens_per_second(call: RankedCall) -> float | None:
    """Output tokens per second with a seat.

    None where it is unknown, and for one canvas, which costs the same however full it is.
    """
    if call.completion_tokens is None or call.usage_partial or not call.seat_seconds:
        return None
    if call.canvases is None or call.canvases <= 1:
        return None
    return round(call.completion_tokens / call.seat_seconds, 1)


def _turn_cells(turn: RankedTurn, names: Mapping[int, str], zone: str) -> tuple[str, ...]:
    return (
        f"{turn.turn}",
        format_local(turn.received_at, zone),
        turn.chat,
        format_person(str(turn.user), names),
        _format_yes_no(turn.thinking),
        f"{turn.calls}",
        f"{turn.tools}",
        *_format_turn_tokens(turn),
        format_seconds(turn.waited),
        format_seconds(turn.seconds),
        turn.ending or "running",
    )


def _format_turn_tokens(turn: RankedTurn) -> tuple[str, str, str, str]:
    """Input, cached, output and canvases; a sum is complete if all calls of the turn reported theirs."""
    if not turn.calls:
        return ("0", "0", "0", "0")
    return (
        format_count(turn.input, is_complete=turn.counted),
        format_count(turn.cached, is_complete=turn.counted and turn.cached_counted),
        format_count(turn.output, is_complete=turn.counted),
        format_count(turn.canvases, is_complete=turn.counted),
    )


def _call_cells(call: RankedCall, names: Mapping[int, str], zone: str) -> tuple[str, ...]:
    rate = tokens_per_second(call)
    is_complete = not call.usage_partial
    if not costs_canvases(call.purpose):
        canvases = EMPTY_CELL
    else:
        canvases = format_count(call.canvases, is_complete=is_complete)
    return (
        f"{call.id}",
        str(call.turn or EMPTY_CELL),
        format_local(call.created_at, zone),
        format_person(str(call.user or EMPTY_CELL), names),
        call.purpose,
        call.again or "",
        call.model,
        _format_yes_no(call.thinking),
        format_count(call.prompt_tokens),
        format_count(call.cached_tokens),
        format_count(call.completion_tokens, is_complete=is_complete),
        format_count(call.reasoning_tokens, is_complete=is_complete),
        canvases,
        format_seconds(call.waited),
        format_seconds(call.seat_seconds),
        EMPTY_CELL if rate is None else f"{rate:,.1f}",
        call.outcome or "running",
    )


def _format_yes_no(value: bool) -> str:
    return "yes" if value else "no"
