"""Who had a seat and who waited, over time, as a chart. Pure.

The number of a call's seat is not stored: calls are put into lanes so that none of a lane overlap.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

import htpy as h

from bot.admin.components import build_url, cut, format_duration
from bot.admin.svg_chart import HATCH, MAX_SHAPES, ROW_HEIGHT, Axis, Bar, BarKind, choose_step, draw_chart
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.usage.seat_calls import TimedCall

_KINDS: dict[str, BarKind] = {"turn": "canvas", "task": "more"}
_WAITING_ROWS = 2  # above the seats
_WAITING_HEIGHT = _WAITING_ROWS * ROW_HEIGHT
_LONGEST_GAPS = 4  # so that a bar of several calls is short, as the pauses in it
_OTHER_SHAPES = 2  # the grid, and the line of those who wait


@dataclass(frozen=True, slots=True)
class SeatSpan:
    """A call's time with a seat in the picture, and its lane."""

    call: TimedCall
    lane: int
    begin: float
    end: float


def assign_lanes(calls: Iterable[TimedCall], *, since: float, until: float) -> list[SeatSpan]:
    """Each call that had a seat in the lowest lane that is free; one that has not ended runs on."""
    free_at: list[float] = []
    spans = []
    seated = [call for call in calls if call.seat_at is not None and call.seat_at < until]
    for call in sorted(seated, key=lambda call: (call.seat_at or 0.0, call.id)):
        begin = call.seat_at or 0.0
        end = _find_end(call, begin, until)
        lane = next((number for number, moment in enumerate(free_at) if moment <= begin), len(free_at))
        free_at[lane : lane + 1] = [end]
        if end > since:
            spans.append(SeatSpan(call, lane, max(begin, since), min(end, until)))
    return spans


def _find_end(call: TimedCall, begin: float, until: float) -> float:
    """When a call left its seat; of one that was closed after a crash only its begin is known."""
    if call.ended_at is not None:
        return call.ended_at
    return until if call.outcome is None else begin


def count_waiting(calls: Iterable[TimedCall], *, since: float, until: float) -> list[tuple[float, int]]:
    """From which moment on how many calls waited for a seat, beginning at `since`."""
    changes: list[tuple[float, int]] = []
    for call in calls:
        end = call.seat_at or call.ended_at or until
        if end > since and end > call.created_at:
            changes += [(max(since, call.created_at), 1), (end, -1)]
    counts = {since: 0}
    waiting = 0
    for moment, change in sorted(changes):
        waiting += change
        if moment < until:
            counts[moment] = waiting
    return list(counts.items())


def show_seats(
    calls: Sequence[TimedCall], seat_count: int, *, since: float, until: float, zone: ZoneInfo
) -> h.Element:
    """At least `seat_count` lanes with calls that lead to their turns, and those who waited above."""
    spans = assign_lanes(calls, since=since, until=until)
    bars = build_bars(spans, zone)
    counts = count_waiting(calls, since=since, until=until)
    lanes = max([seat_count, *(bar.row + 1 for bar in bars)])
    most = max(count for _, count in counts)
    rows = [f"waiting ≤ {most:,}", "", *(f"seat {number}" for number in range(1, lanes + 1))]
    moved = [replace(bar, row=bar.row + _WAITING_ROWS) for bar in bars]
    axis = _build_axis(since, until, zone)
    return draw_chart("Seats over time", rows, moved, axis, behind=_draw_waiting(counts, most, axis))


def build_bars(spans: Sequence[SeatSpan], zone: ZoneInfo) -> list[Bar]:
    """A bar a call; where they are too many, neighbours of a lane and a purpose become one."""
    bars = [_build_bar(span, zone) for span in spans]
    gap = 1.0
    while len(bars) > MAX_SHAPES - _OTHER_SHAPES:
        bars = _merge_bars(bars, gap, zone)
        gap *= 2
    return bars


def _build_bar(span: SeatSpan, zone: ZoneInfo) -> Bar:
    call = span.call
    kind: BarKind = "fault" if call.outcome == "failed" else _KINDS.get(call.purpose, "own")
    waited = format_duration((call.seat_at or call.created_at) - call.created_at)
    seconds = f"{format_duration(span.end - span.begin)}, {cut(call.outcome or 'not over')}"
    of_turn = "no turn" if call.turn is None else f"turn {call.turn}"
    began = datetime.fromtimestamp(span.begin, zone).strftime("%H:%M:%S")
    title = f"{began} {cut(call.purpose, 20)} of {of_turn}: {seconds}, after {waited} of waiting"
    href = None if call.turn is None else f"{ADMIN_PATH}/turn/{call.turn}"
    return Bar(span.lane, kind, span.begin, span.end, title, href)


def _merge_bars(bars: Iterable[Bar], gap: float, zone: ZoneInfo) -> list[Bar]:
    """Neighbours of a lane with at most `gap` seconds between become one bar, as long as it is short."""
    merged: list[Bar] = []
    for bar in sorted(bars, key=lambda bar: (bar.row, bar.begin)):
        last = merged[-1] if merged else None
        is_far = last is None or last.row != bar.row or bar.begin - last.end > gap
        if last is None or is_far or bar.end - last.begin > _LONGEST_GAPS * gap:
            merged.append(bar)
            continue
        middle = datetime.fromtimestamp((last.begin + bar.end) / 2, zone).isoformat(timespec="seconds")
        href = build_url(f"{ADMIN_PATH}/seats", {"at": middle, "length": "10m"})
        title = f"several calls around {middle[11:19]}, in ten minutes"
        merged[-1] = Bar(bar.row, "turn", last.begin, max(last.end, bar.end), title, href)
    return merged


def _build_axis(since: float, until: float, zone: ZoneInfo) -> Axis:
    step = choose_step(until - since)
    first = since - since % step + step
    moments = [first + number * step for number in range(int((until - first) / step) + 1)]
    form = "%H:%M" if step >= 60 else "%H:%M:%S"
    ticks = tuple((moment, datetime.fromtimestamp(moment, zone).strftime(form)) for moment in moments)
    return Axis(since, until, ticks)


def _draw_waiting(counts: Iterable[tuple[float, int]], most: int, axis: Axis) -> h.Element:
    """How many waited, as steps: full height is the most at once."""
    path = f"M{axis.place(axis.begin):.1f} {_WAITING_HEIGHT}"
    for moment, count in counts:
        height = _WAITING_HEIGHT - (_WAITING_HEIGHT - 6) * count / max(1, most)
        path += f"H{axis.place(moment):.1f}V{height:.1f}"
    path += f"H{axis.place(axis.end):.1f}V{_WAITING_HEIGHT}Z"
    return h.path(".wait", d=path, fill=HATCH)[h.title[f"Calls that wait: at most {most:,}"]]
