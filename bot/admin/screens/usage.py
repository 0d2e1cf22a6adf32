"""Usage: figures of a period beside those of the one before, a chart, and tables by person, model, tool."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

import htpy as h

from bot.admin.column_chart import Column, draw_columns
from bot.admin.components import change_query, format_duration, show_choice, show_nothing, show_section
from bot.admin.filter_form import show_filter_form
from bot.admin.filters import Filters, parse_filters
from bot.admin.page_request import Fragment, PageRequest, Screen, ScreenPage
from bot.admin.svg_chart import FAULT_MARK, BarKind, show_legend, show_swatch
from bot.admin.table_view import format_cell, show_table, show_tables
from bot.admin.usage_figures import (
    SHOWN_INTERVALS,
    build_figure_table,
    build_turns_url,
    list_figures,
    list_sums,
    show_lead_figures,
    show_other_figures,
)
from bot.admin.usage_tables import (
    build_group_table,
    build_time_table,
    choose_time_unit,
    describe_time,
    fill_times,
)
from bot.db.people import people
from bot.db.usage.recent_names import list_recent_names
from bot.db.usage.usage_sums import BreakdownColumn
from bot.usage.figures import format_share
from bot.usage.local_times import format_local
from bot.usage.palette import INTERVAL_KINDS, TIME_KIND_NAMES
from bot.usage.queries import load_sums_in, load_tool_report
from bot.usage.query_args import parse_choice
from bot.usage.report import SAMPLED_TURNS, Grouping, ReportGroup, ReportQuery, UsageReport, name_people

TABLES: Mapping[Grouping, str] = {
    "user": "Person",
    "chat": "Chat",
    "model": "Model",
    "tool": "Tool",
    "purpose": "Purpose",
    "user-model": "Person × model",
}
DEFAULT_TABLE: Grouping = "user"
_CHART_INTERVALS: Sequence[BreakdownColumn] = (
    *SHOWN_INTERVALS,
    "first_canvas",
    "further_canvases",
    "tools",
)
"""What the chart of seconds tells apart, and the whole."""
_CAUSES: Mapping[BreakdownColumn, str] = {
    "lane_wait": "of it waiting for the chat",
    "seat_wait": "of it waiting for a seat",
    "first_canvas": "of it until the first text",
    "further_canvases": "of it for the rest of the text",
    "tools": "of it for tools",
}
_SLOW_FACTOR = 3  # times as long as at half of the times: a time to name
_MIN_SLOW_TURNS = 5
_CHART_KINDS: Mapping[BarKind, str] = {
    "wait": "waits for a seat or the chat",
    "canvas": TIME_KIND_NAMES["canvas"],
    "more": TIME_KIND_NAMES["more"],
    "tool": TIME_KIND_NAMES["tool"],
    "turn": "all else",
}
_SHARES_NOTE = "as high as what 95 of 100 take at most, coloured by what the seconds went to"
_SAMPLE_NOTE = f" Of so many turns, what half and 95 of 100 take is that of {SAMPLED_TURNS:,} at random."


async def show_usage(request: PageRequest) -> ScreenPage:
    """The screen, whose table by groups is put in by itself."""
    filters = parse_filters(request.query, zone=request.zone, now=request.now)
    by = _parse_table(request)
    earlier = filters.period.before
    scope_before = replace(filters.scope, since=earlier.since, until=earlier.until)
    unit = choose_time_unit(filters.period)
    async with request.read() as tx:
        names = await people.list_names(tx)
        recent = await list_recent_names(tx)
        now = await load_sums_in(tx, ReportQuery(filters.scope, unit), percentiles_of=_CHART_INTERVALS)
        before = await load_sums_in(tx, ReportQuery(scope_before), percentiles_of=SHOWN_INTERVALS)
    figures = list_figures(now, before, has_canvases=request.output_unit.has_canvases)
    tables = (build_figure_table(figures), build_time_table(now, filters))
    body = [
        show_filter_form(request, filters, names, recent),
        show_lead_figures(filters, figures, _show_slow_time(now, filters)),
        _show_charts(request, filters, now),
        show_other_figures(filters, figures),
        h.details[
            h.summary["As a table"],
            show_tables(request, tables),
        ],
        _show_compared(request, filters, now),
        _show_tabs(request, by),
        # A long period by persons takes as long as all else: it is read by a request of its own.
        h.div(hx_get=_build_table_url(request), hx_trigger="load")[show_nothing("Adding up …")],
    ]
    return ScreenPage("Usage", body, tables)


async def show_group_table(request: PageRequest) -> Fragment:
    """The table by groups, with links of the screen that it is put into."""
    filters = parse_filters(request.query, zone=request.zone, now=request.now)
    by = _parse_table(request)
    async with request.read() as tx:
        names = await people.list_names(tx)
        if by == "tool":
            report = await load_tool_report(tx, filters.scope)
        else:
            report = await load_sums_in(tx, ReportQuery(filters.scope, by))
    table = build_group_table(name_people(report, names), TABLES[by], filters)
    return Fragment(show_table(table, replace(request, path=SCREEN.path)), [table])


def _parse_table(request: PageRequest) -> Grouping:
    return parse_choice("The table", request.query.get("by") or DEFAULT_TABLE, tuple(TABLES))


def _build_table_url(request: PageRequest) -> str:
    return change_query(replace(request, path=f"{SCREEN.path}/table"))


def _show_compared(request: PageRequest, filters: Filters, report: UsageReport) -> h.Element:
    period, before = filters.period, filters.period.before
    zone = request.zone.key
    estimated = ["Canvases are estimates, as in ", h.code["canvasgram report"], "."]
    return h.p(".nothing")[
        f"From {format_local(period.since, zone)} to {format_local(period.until, zone)}, compared with "
        f"{format_local(before.since, zone)} to {format_local(before.until, zone)}. ≥ means "
        "at least: the server did not say how much some calls used. ",
        request.output_unit.has_canvases and estimated,
        report.percentile_method == "sample" and _SAMPLE_NOTE,
    ]


def _show_charts(request: PageRequest, filters: Filters, report: UsageReport) -> h.Node:
    """Turns and what was written on one axis of time; the table below says the same."""
    groups = fill_times(report, filters.period, request.zone)
    unit = "hour" if report.query.by == "hour" else "day"
    if not groups:
        nothing = show_nothing("Nothing was used in this time. Each turn is counted at once.")
        return show_section(f"Turns by {unit}", nothing)
    labels = [_label_time(group.label) for group in groups]
    if filters.period.until == request.now:
        labels[-1] = "so far"
    pairs = list(zip(labels, groups, strict=True))
    turns = [_build_turn_column(*pair) for pair in pairs]
    seconds = [_build_seconds_column(*pair) for pair in pairs]
    has_canvases = request.output_unit.has_canvases
    name = "canvases" if has_canvases else "output_tokens"
    output = "Canvases" if has_canvases else "Tokens written"
    amounts = [_build_output_column(*pair, name) for pair in pairs]
    failed = h.span(".legend")[show_swatch("fault"), f"failed {FAULT_MARK}"]
    note = h.span(".legend")[has_canvases and "estimated; ", "≥ at least, ? unknown"]
    slow = "Too many turns for a chart of their seconds: choose fewer days."
    has_seconds = any(column.pieces for column in seconds)
    return (
        h.section[h.h2[f"Turns by {unit} ", failed], draw_columns(f"Turns by {unit}", turns)],
        h.section[
            h.div(".heading")[
                h.h2[f"Seconds a turn by {unit}"],
                show_legend(_CHART_KINDS.items(), _CHART_KINDS, _SHARES_NOTE),
            ],
            draw_columns(f"Seconds a turn by {unit}", seconds, " s") if has_seconds else show_nothing(slow),
        ],
        h.section[h.h2[f"{output} by {unit} ", note], draw_columns(f"{output} by {unit}", amounts)],
    )


def _show_slow_time(report: UsageReport, filters: Filters) -> h.Node:
    """The one day or hour that was much slower than the others, and what most of its seconds went to."""
    timed = [group for group in report.groups if "whole" in group.percentiles]
    if not timed:
        return None
    usual_seconds = statistics.median(group.percentiles["whole"].p95 for group in timed)
    slowest = max(timed, key=lambda group: group.percentiles["whole"].p95)
    whole = slowest.percentiles["whole"]
    if whole.p95 < _SLOW_FACTOR * usual_seconds or whole.count < _MIN_SLOW_TURNS:
        return None
    seconds = {name: slowest.percentiles[name].total for name in _CAUSES if name in slowest.percentiles}
    causes = sorted(seconds, key=lambda name: seconds[name])[-1:]
    shares = [f", {format_share(seconds[name], whole.total, decimals=0)} {_CAUSES[name]}" for name in causes]
    return h.p(".error")[
        f"{_label_time(slowest.label)} was slow: 95 of 100 turns took at most {format_duration(whole.p95)}",
        *shares,
        ". ",
        h.a(href=build_turns_url(filters, **describe_time(slowest, report.query.by)))["Show them"],
    ]


def _label_time(label: str) -> str:
    """A day with its weekday, an hour without its year."""
    if len(label) > len("2026-11-03"):
        return label[5:]
    return f"{date.fromisoformat(label):%a %m-%d}"


def _build_seconds_column(label: str, group: ReportGroup) -> Column:
    """As high as the p95 of whole turns, in the shares of what the seconds of all went to."""
    whole = group.percentiles.get("whole")
    if whole is None:
        return Column(label, f"{group.label}: no seconds are known", ())
    seconds = dict.fromkeys(_CHART_KINDS, 0.0)
    for name in _CHART_INTERVALS:
        if name != "whole" and name in group.percentiles:
            seconds[INTERVAL_KINDS[name]] += group.percentiles[name].total
    seconds["turn"] = max(0.0, whole.total - sum(seconds.values()))
    shares = [(kind, value / whole.total) for kind, value in seconds.items() if value]
    parts = ", ".join(f"{format_share(share, 1, decimals=0)} {_CHART_KINDS[kind]}" for kind, share in shares)
    title = (
        f"{group.label}: 95 of 100 turns take at most {format_duration(whole.p95)}, "
        f"half {format_duration(whole.p50)}; {parts}"
    )
    return Column(label, title, tuple((kind, whole.p95 * share) for kind, share in shares))


def _build_turn_column(label: str, group: ReportGroup) -> Column:
    turns = 0 if group.turns is None else group.turns.turns
    failed = 0 if group.turns is None else group.turns.failed
    pieces: tuple[tuple[BarKind, float], ...] = (("turn", turns - failed), ("fault", failed))
    title = f"{group.label}: turns: {turns:,}, failed: {failed:,}"
    return Column(label, title, pieces, FAULT_MARK if failed else "")


def _build_output_column(label: str, group: ReportGroup, name: str) -> Column:
    amount = list_sums(group)[name]
    title = f"{group.label}: {name.replace('_', ' ')}: {format_cell(amount)}"
    if amount.value is None:
        return Column(label, title, (), "?")
    mark = "≥" if str(amount.text).startswith("≥") else ""
    return Column(label, title, (("canvas", float(amount.value)),), mark)


def _show_tabs(request: PageRequest, current: Grouping) -> h.Element:
    choices = (
        (title, change_query(request, by=name, sort=None), name == current) for name, title in TABLES.items()
    )
    return show_choice("Tables", choices)


SCREEN = Screen("usage", "Usage", 2, {"": show_usage, "/table": show_group_table})
