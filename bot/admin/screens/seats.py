"""Seats over time: who had one and who waited, for up to six hours."""

from datetime import datetime
from zoneinfo import ZoneInfo

import htpy as h

from bot.admin.components import (
    build_url,
    change_query,
    show_choice,
    show_figure,
    show_figures,
    show_nothing,
    show_time,
)
from bot.admin.data_table import Cell, DataTable, NumberColumn, TableColumn
from bot.admin.page_request import PageRequest, Screen, ScreenPage
from bot.admin.seat_chart import assign_lanes, count_waiting, show_seats
from bot.admin.svg_chart import FAULT_MARK, BarKind, show_legend
from bot.admin.table_view import build_seconds_cell, show_table
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.usage.counter_readings import sum_server_counters
from bot.db.usage.seat_calls import MAX_CALLS, TimedCall, list_seat_calls
from bot.db.usage.usage_sums import Scope, ServerSums
from bot.usage.figures import EMPTY_CELL, format_steps
from bot.usage.local_times import format_local
from bot.usage.query_args import parse_choice, parse_time

LENGTHS = {"5m": 300, "10m": 600, "30m": 1_800, "1h": 3_600, "3h": 10_800, "6h": 21_600}
DEFAULT_LENGTH = "30m"
_TABLE_ROWS = 100
_COLUMNS = (
    TableColumn("created_at", "Asked"),
    NumberColumn("waited", "Waited"),
    NumberColumn("seconds", "With a seat"),
    TableColumn("purpose", "Purpose"),
    TableColumn("endpoint", "Endpoint"),
    TableColumn("outcome", "Outcome"),
    NumberColumn("turn", "Turn"),
)
_LEGEND: dict[BarKind, str] = {
    "canvas": "a person's turn",
    "more": "a task",
    "own": "the gateway's own",
    "turn": "several calls, and pauses between",
    "fault": f"failed {FAULT_MARK}",
    "wait": "waiting",
}


async def show_screen(request: PageRequest) -> ScreenPage:
    """The chart, and the calls that waited longest."""
    since, until, length = parse_span(request)
    async with request.read() as tx:
        calls = await list_seat_calls(tx, since=since, until=until)
        server = await sum_server_counters(tx, Scope(since, until))
    table = build_table(calls, request.zone, until=until)
    body = (
        _show_form(request, until, length),
        h.p["From ", show_time(since, request.zone), " until ", show_time(until, request.zone), "."],
        _show_figures(request, calls, server, since=since, until=until),
        _show_chart(request, calls, since=since, until=until),
        len(calls) == MAX_CALLS and h.p(".error")[f"Only the first {MAX_CALLS:,} calls are drawn."],
        show_table(table, request),
    )
    return ScreenPage("Seats over time", body, [table])


def _show_chart(request: PageRequest, calls: list[TimedCall], *, since: float, until: float) -> h.Node:
    """A lane for each seat that there is now, or was used."""
    if not calls:
        longer = change_query(request, length="6h")
        nothing = "No call had a seat, or waited for one, in this time."
        return h.p(".nothing")[nothing, " ", h.a(href=longer)["Six hours"]]
    gateway = request.dependencies.gateway
    seat_count = 0 if gateway is None else sum(seats.count for seats in gateway.seats.values())
    chart = show_seats(calls, seat_count, since=since, until=until, zone=request.zone)
    note = "Which seat a call had is not stored: a call is drawn in the first lane that is free."
    return chart, show_legend(_LEGEND.items(), _LEGEND), show_nothing(note)


def parse_span(request: PageRequest) -> tuple[float, float, str]:
    """From when until when, and the name of the length; `at` is in the middle, else it ends now."""
    length = parse_choice("The length", request.query.get("length") or DEFAULT_LENGTH, tuple(LENGTHS))
    seconds = LENGTHS[length]
    until = request.now
    if at := request.query.get("at"):
        until = parse_time("The moment", at, request.now, request.zone) + seconds / 2
    return until - seconds, until, length


def _show_form(request: PageRequest, until: float, length: str) -> h.Element:
    """Links to other times and lengths, and a field for a moment."""
    seconds = LENGTHS[length]
    middle = _format_moment(until - seconds / 2, request.zone)
    middles = {"Earlier": until - 1.5 * seconds, "Later": until + 0.5 * seconds}
    times = [
        h.a(href=build_url(request.path, {"at": _format_moment(moment, request.zone), "length": length}))[
            text
        ]
        for text, moment in middles.items()
        if moment - seconds / 2 < request.now
    ]
    at = {"at": middle} if request.query.get("at") else {}
    lengths = (
        (_name_length(name), build_url(request.path, {**at, "length": name}), name == length)
        for name in LENGTHS
    )
    return h.div(".choices")[
        show_choice("Length", lengths),
        h.form(".filters", method="get", action=request.path)[
            h.input(type="hidden", name="length", value=length),
            h.label["Around", h.input(type="datetime-local", step="1", name="at", value=at.get("at", ""))],
            h.button["Show"],
            times,
        ],
    ]


def _name_length(name: str) -> str:
    """A length as durations are written: `30 min`."""
    return name.replace("m", " min").replace("h", " h")


def _format_moment(moment: float, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%dT%H:%M:%S")


def _show_figures(
    request: PageRequest, calls: list[TimedCall], server: ServerSums, *, since: float, until: float
) -> h.Element:
    spans = assign_lanes(calls, since=since, until=until)
    busy = sum(span.end - span.begin for span in spans)
    most_waiting = max(count for _, count in count_waiting(calls, since=since, until=until))
    lanes = max((span.lane for span in spans), default=-1) + 1
    return show_figures(
        show_figure("Calls", f"{len(calls):,}"),
        show_figure("Seats in use at once, at most", str(lanes)),
        show_figure("Seats in use on average", f"{busy / (until - since):.2f}"),
        show_figure("Calls waiting at once, at most", str(most_waiting)),
        request.output_unit.has_canvases
        and show_figure(
            "Denoising steps a canvas",
            format_steps(server.steps_per_canvas),
            note="the server's average, all clients",
        ),
    )


def build_table(calls: list[TimedCall], zone: ZoneInfo, *, until: float) -> DataTable:
    """The calls that waited longest for a seat."""
    longest = sorted(calls, key=lambda call: (call.seat_at or call.ended_at or until) - call.created_at)
    rows = tuple(_build_row(call, zone) for call in reversed(longest[-_TABLE_ROWS:]))
    return DataTable("seats", "Those that waited longest", _COLUMNS, rows, "No call in this time.")


def _build_row(call: TimedCall, zone: ZoneInfo) -> tuple[Cell, ...]:
    href = None if call.turn is None else f"{ADMIN_PATH}/turn/{call.turn}"
    return (
        Cell(format_local(call.created_at, str(zone)), href=href),
        build_seconds_cell(call.waited),
        build_seconds_cell(call.seat_seconds),
        Cell(call.purpose),
        Cell(call.endpoint),
        Cell(call.outcome or "not over, or lost"),
        Cell(call.turn, EMPTY_CELL if call.turn is None else str(call.turn), href),
    )


SCREEN = Screen("seats", "Seats", 5, {"": show_screen})
