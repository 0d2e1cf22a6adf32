"""The figures of the screen Usage, each beside that of the period before. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import htpy as h

from bot.admin.components import (
    TURNS_PATH,
    build_url,
    format_duration,
    show_figure,
)
from bot.admin.data_table import Cell, DataTable, NumberColumn, TableColumn
from bot.admin.filters import Filters
from bot.admin.svg_chart import FAULT_MARK
from bot.db.usage.usage_sums import BreakdownColumn, CallSums
from bot.usage.figures import format_at_least, format_count, format_share, get_known
from bot.usage.report import UsageReport

UNKNOWN_CALL_FILTERS = MappingProxyType({"unknown": "output"})
"""The turns whose calls `count_unknown` counts."""
_INTERVALS: Mapping[BreakdownColumn, str] = {
    "lane_wait": "Waited for the chat",
    "seat_wait": "Waited for a seat",
    "whole": "Whole turn",
}
SHOWN_INTERVALS = tuple(_INTERVALS)
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

    `text` is how it is shown. `filters` restrict the turns that it leads to.
    """

    name: str
    label: str
    now: float | None
    before: float | None
    text: str
    before_text: str
    filters: Mapping[str, str] = field(default_factory=dict)


def list_figures(now: UsageReport, before: UsageReport) -> list[UsageFigure]:
    """The figures of a period and the one before."""
    turns = (now.total.turns, before.total.turns)
    calls = (now.total.calls, before.total.calls)
    turn_counts = [Cell(sums.turns if sums else 0) for sums in turns]
    failures = [Cell(sums.failed if sums else 0) for sums in turns]
    figures = [
        _build_figure("turns", "Turns", turn_counts),
        _build_figure("failed_turns", "Failed turns", failures, filters={"ending": "failure"}),
    ]
    for name, label, show in _CALL_FIGURES:
        cells = [show(sums) if sums else Cell(0) for sums in calls]
        filters = UNKNOWN_CALL_FILTERS if name == "unknown_calls" else {}
        figures.append(_build_figure(name, label, cells, filters=filters))
    for interval, label in _INTERVALS.items():
        figures += _list_duration_figures(interval, label, now, before)
    return figures


def count_unknown(calls: CallSums) -> int:
    """Calls of which the server did not tell the output, and so neither the canvases."""
    return calls.calls - calls.output_known


def show_canvases(calls: CallSums) -> Cell:
    """Canvases of a group; None if those of no call are known."""
    return _show_sum(calls.canvases, calls.canvases_known, calls.costing, partial=calls.partial)


def show_input(calls: CallSums) -> Cell:
    """Prompt tokens of a group."""
    return _show_sum(calls.input, calls.input_known, calls.calls)


def show_cached(calls: CallSums) -> Cell:
    """Cached tokens of a group."""
    return _show_sum(calls.cached, calls.cached_known, calls.calls)


def show_output(calls: CallSums) -> Cell:
    """Output tokens of a group."""
    return _show_sum(calls.output, calls.output_known, calls.calls, partial=calls.partial)


def _show_sum(number: int, known: int, total: int, *, partial: int = 0) -> Cell:
    return Cell(get_known(number, known, total), format_at_least(number, known, total, partial=partial))


_CALL_FIGURES: tuple[tuple[str, str, Callable[[CallSums], Cell]], ...] = (
    ("canvases", "Canvases, estimated", show_canvases),
    ("input_tokens", "Prompt tokens", show_input),
    ("cached_tokens", "Cached tokens", show_cached),
    ("output_tokens", "Output tokens", show_output),
    ("calls", "Model calls", lambda calls: Cell(calls.calls)),
    ("unknown_calls", "Calls of unknown output", lambda calls: Cell(count_unknown(calls))),
)


def _build_figure(
    name: str, label: str, cells: Sequence[Cell], *, filters: Mapping[str, str] = MappingProxyType({})
) -> UsageFigure:
    """A figure by the cells of now and before."""
    now, before = (cell.value if isinstance(cell.value, int | float) else None for cell in cells)
    text, before_text = (
        cell.text or format_count(value) for cell, value in zip(cells, (now, before), strict=True)
    )
    return UsageFigure(name, label, now, before, text, before_text, filters)


def _list_duration_figures(
    interval: str, label: str, now: UsageReport, before: UsageReport
) -> list[UsageFigure]:
    cells: dict[str, list[Cell]] = {"p50": [], "p95": []}
    for report in (now, before):
        percentiles = report.total.percentiles.get(interval)
        if percentiles is None:
            nothing = Cell(None, "none")
            cells["p50"].append(nothing)
            cells["p95"].append(nothing)
        else:
            cells["p50"].append(Cell(percentiles.p50, format_duration(percentiles.p50)))
            cells["p95"].append(Cell(percentiles.p95, format_duration(percentiles.p95)))
    occurred = now.total.percentiles.get(interval)
    settled = now.total.turns.settled if now.total.turns else 0
    turns = f"{occurred.count if occurred else 0:,} of {settled:,} turns"
    filters: dict[str, Mapping[str, str]] = {}
    if occurred and interval == "whole":
        filters["p95"] = {"longer": f"{math.floor(10 * occurred.p95) / 10:.1f}"}
    return [
        _build_figure(
            f"{interval}_{share}_seconds",
            f"{label}, {share} over {turns}",
            of_share,
            filters=filters.get(share, {}),
        )
        for share, of_share in cells.items()
    ]


def show_lead_figures(filters: Filters, figures: Sequence[UsageFigure]) -> h.Element:
    """What went wrong as a sentence, and the figures that matter most, each a link to its turns."""
    by_name = {figure.name: figure for figure in figures}
    turns = by_name["turns"].now or 0
    failed = by_name["failed_turns"].now or 0
    share = failed / turns if turns else 0.0
    percents = format_share(share, 1, decimals=0)
    is_alarming = share >= ALARMING_SHARE
    notes = {"failed_turns": f"{percents} of turns; "} if failed and not is_alarming else {}
    lead = [_show_figure(filters, by_name[name], notes.get(name, "")) for name in _LEAD_FIGURES]
    alarm = h.p(".error")[
        f"{FAULT_MARK} {percents} of the turns failed. ",
        h.a(href=build_turns_url(filters, ending="failure"))["Show them"],
    ]
    return h.section(aria_label="Figures")[is_alarming and alarm, h.dl(".figures.lead")[lead]]


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


def _show_figure(filters: Filters, figure: UsageFigure, note: str = "") -> h.Element:
    href = build_turns_url(filters, **figure.filters)
    return show_figure(figure.label, figure.text, note=f"{note}{describe_change(figure)}", href=href)


def describe_change(figure: UsageFigure) -> str:
    """How a figure has changed, such as `+12 %, before 1,234`."""
    before = f"before {figure.before_text}".replace(" ", _NO_BREAK_SPACE)
    if not figure.now or not figure.before:
        return before
    percents = round(100 * (figure.now - figure.before) / figure.before)
    change = f"{percents:+,}" if percents else "±0"
    return f"{change}{_NO_BREAK_SPACE}%, {before}"


def build_turns_url(filters: Filters, **changes: str | None) -> str:
    """The address of the turns with these filters, some of them changed (None: left out)."""
    query = {**filters.query, **changes}
    return build_url(TURNS_PATH, {name: value for name, value in query.items() if value is not None})


def build_figure_table(figures: Sequence[UsageFigure]) -> DataTable:
    """The figures as a table, for exports."""
    rows = tuple(
        (
            Cell(figure.name, figure.label),
            Cell(figure.now, figure.text),
            Cell(figure.before, figure.before_text),
        )
        for figure in figures
    )
    return DataTable("figures", "Figures", _COLUMNS, rows)
