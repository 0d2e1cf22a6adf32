"""The figures of the screen Usage, each beside that of the period before. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import htpy as h

from bot.admin.components import (
    TURNS_PATH,
    build_url,
    format_duration,
    show_figure,
)
from bot.admin.data_table import CanvasColumn, Cell, DataTable, NumberColumn, TableColumn
from bot.admin.filters import Filters
from bot.admin.svg_chart import FAULT_MARK
from bot.admin.table_view import format_cell
from bot.db.usage.call_filters import ANY_FAILURE
from bot.db.usage.usage_sums import BreakdownColumn
from bot.usage.figures import format_at_least, format_share, get_known
from bot.usage.report import ReportGroup, UsageReport

TURN_COLUMNS = (
    NumberColumn("turns", "Turns"),
    NumberColumn("failed_turns", "Failed turns"),
)
CALL_COLUMNS = (
    NumberColumn("calls", "Model calls"),
    CanvasColumn("canvases", "Canvases, est."),
    NumberColumn("input_tokens", "Prompt tokens"),
    NumberColumn("cached_tokens", "Cached tokens"),
    NumberColumn("output_tokens", "Output tokens"),
    NumberColumn("unknown_calls", "Uncounted calls"),
)
SUM_COLUMNS = (*TURN_COLUMNS, *CALL_COLUMNS)
SUM_FILTERS: Mapping[str, Mapping[str, str]] = {
    "failed_turns": {"ending": ANY_FAILURE},
    "unknown_calls": {"unknown": "output"},
}
"""To which of its turns a sum leads, where not to all."""
_INTERVALS: Mapping[BreakdownColumn, str] = {
    "lane_wait": "wait for their chat",
    "seat_wait": "wait for a seat",
    "whole": "take",
}
SHOWN_INTERVALS = tuple(_INTERVALS)
SHARES = {"p50": "Half", "p95": "95 of 100"}
ALARMING_SHARE = 0.05  # of turns that failed, or of the calls of a tool
_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
_LEAD_FIGURES = ("turns", "failed_turns", "whole_p50_seconds", "whole_p95_seconds", "canvases")
_COLUMNS = (
    TableColumn("figure", "Figure"),
    NumberColumn("now", "Now"),
    NumberColumn("before", "Before"),
)


@dataclass(frozen=True, slots=True)
class UsageFigure:
    """A figure now and before (None: unknown); `name` is its name in exports and in `canvasgram report`.

    `filters` restrict the turns that it leads to. `note` is said of it before how it has changed.
    """

    name: str
    label: str
    now: Cell
    before: Cell
    filters: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def list_figures(now: UsageReport, before: UsageReport, *, has_canvases: bool) -> list[UsageFigure]:
    """The figures of a period and the one before; `has_canvases` False: none of canvases."""
    cells, cells_before = list_sums(now.total), list_sums(before.total)
    share = _find_number(cells["failed_turns"]) / (_find_number(cells["turns"]) or 1.0)
    notes = {"failed_turns": f"{_format_percents(share)} of turns; "} if share else {}
    figures = [
        UsageFigure(
            column.key,
            column.title,
            cells[column.key],
            cells_before[column.key],
            SUM_FILTERS.get(column.key, {}),
            notes.get(column.key, ""),
        )
        for column in SUM_COLUMNS
        if has_canvases or not isinstance(column, CanvasColumn)
    ]
    for interval in _INTERVALS:
        figures += _list_duration_figures(interval, now, before)
    return figures


def list_sums(group: ReportGroup) -> dict[str, Cell]:
    """The sums of a group by SUM_COLUMNS; of tokens None if those of no call are known."""
    cells = {column.key: Cell(0) for column in SUM_COLUMNS}
    turns, calls = group.turns, group.calls
    if turns is not None:
        cells |= {"turns": Cell(turns.turns), "failed_turns": Cell(turns.failed)}
    if calls is not None:
        cells |= {
            "calls": Cell(calls.calls),
            "canvases": _build_sum(calls.canvases, calls.canvases_known, calls.costing, calls.partial),
            "input_tokens": _build_sum(calls.input, calls.input_known, calls.calls),
            "cached_tokens": _build_sum(calls.cached, calls.cached_known, calls.calls),
            "output_tokens": _build_sum(calls.output, calls.output_known, calls.calls, calls.partial),
            "unknown_calls": Cell(calls.calls - calls.output_known),
        }
    return cells


def _build_sum(number: int, known: int, total: int, partial: int = 0) -> Cell:
    return Cell(get_known(number, known, total), format_at_least(number, known, total, partial=partial))


def _list_duration_figures(
    interval: BreakdownColumn, now: UsageReport, before: UsageReport
) -> Iterator[UsageFigure]:
    """What half of the turns and 95 of 100 take at most, of those in which the interval occurred."""
    occurred = now.total.percentiles.get(interval)
    note = f"of {occurred.count:,} turns; " if occurred else ""
    for share, who in SHARES.items():
        filters = {}
        if occurred and (interval, share) == ("whole", "p95"):
            filters["longer"] = f"{math.floor(10 * occurred.p95) / 10:.1f}"
        yield UsageFigure(
            f"{interval}_{share}_seconds",
            f"{who} {_INTERVALS[interval]} at most",
            show_percentile(now.total, share, interval),
            show_percentile(before.total, share, interval),
            filters,
            note,
        )


def show_percentile(group: ReportGroup, share: str, interval: BreakdownColumn = "whole") -> Cell:
    """The seconds that this share of a group's turns do not exceed."""
    percentiles = group.percentiles.get(interval)
    if percentiles is None:
        return Cell(None, "none")
    seconds = percentiles.p50 if share == "p50" else percentiles.p95
    return Cell(seconds, format_duration(seconds))


def show_lead_figures(filters: Filters, figures: Sequence[UsageFigure], slow_time: h.Node) -> h.Element:
    """What went wrong as sentences, and the figures that matter most, each a link to its turns."""
    by_name = {figure.name: figure for figure in figures}
    lead = [_show_figure(filters, by_name[name]) for name in _LEAD_FIGURES if name in by_name]
    share = _find_number(by_name["failed_turns"].now) / (_find_number(by_name["turns"].now) or 1)
    failures = h.p(".error")[
        f"{FAULT_MARK} {_format_percents(share)} of the turns failed. ",
        h.a(href=build_turns_url(filters, ending=ANY_FAILURE))["Show them"],
    ]
    return h.section(aria_label="Figures")[
        share >= ALARMING_SHARE and failures, slow_time, h.dl(".figures.lead")[lead]
    ]


def _find_number(cell: Cell) -> float:
    """The value of a figure; 0 if it is unknown."""
    return cell.value if isinstance(cell.value, int | float) else 0.0


def _format_percents(share: float) -> str:
    return format_share(share, 1, decimals=0)


def show_other_figures(filters: Filters, figures: Sequence[UsageFigure]) -> h.Element:
    """The other figures, small: what was waited for, and what was used."""
    others = [figure for figure in figures if figure.name not in _LEAD_FIGURES]
    groups = (
        h.dl(".figures.rest")[
            [_show_figure(filters, figure) for figure in others if ("wait" in figure.name) == is_wait]
        ]
        for is_wait in (True, False)
    )
    return h.section(aria_label="Further figures")[groups]


def _show_figure(filters: Filters, figure: UsageFigure) -> h.Element:
    href = build_turns_url(filters, **figure.filters)
    note = f"{figure.note}{_describe_change(figure)}"
    return show_figure(figure.label, format_cell(figure.now), note=note, href=href)


def _describe_change(figure: UsageFigure) -> str:
    """How a figure has changed, such as `+12 %, before 1,234`."""
    text = f"before {format_cell(figure.before)}".replace(" ", _NO_BREAK_SPACE)
    now, before = _find_number(figure.now), _find_number(figure.before)
    if not now or not before:
        return text
    percents = round(100 * (now - before) / before)
    change = f"{percents:+,}" if percents else "±0"
    return f"{change}{_NO_BREAK_SPACE}%, {text}"


def build_turns_url(filters: Filters, **changes: str | None) -> str:
    """The address of the turns with these filters, some of them changed (None: left out)."""
    query = {**filters.query, **changes}
    return build_url(TURNS_PATH, {name: value for name, value in query.items() if value is not None})


def build_figure_table(figures: Sequence[UsageFigure]) -> DataTable:
    """The figures as a table, for exports."""
    rows = tuple((Cell(figure.name, figure.label), figure.now, figure.before) for figure in figures)
    return DataTable("figures", "Figures", _COLUMNS, rows)
