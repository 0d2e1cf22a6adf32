"""A report as a picture: seconds by interval stacked, canvases and cached share below. Pure.

Two steps, so that a gateway can have the second done in a process of its own: `chart` says what stands in the
picture as JSON, `drawn` makes the PNG of it. Only that imports matplotlib.
"""

import base64
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bot.usage.intervals import INTERVAL_ORDER, column_name
from bot.usage.plain_text import escape_for_terminal
from bot.usage.report import INTERVAL_COLUMNS, ReportGroup, UsageReport, group_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_GROUPS = 31  # groups of one picture
_MAX_LABEL_CHARACTERS = 24  # characters of a group's name
_WIDTH = 11.0
_HEIGHT = 8.0
_DPI = 120
_COLOURS = (
    *("#4e79a7", "#a0cbe8", "#f1ce63", "#59a14f", "#8cd17d", "#b07aa1"),
    *("#d4a6c8", "#499894", "#ff9d9a", "#e15759", "#79706e"),
)
_INTERVAL_COLOURS = dict(zip(INTERVAL_ORDER, _COLOURS, strict=True))
_TOOL_OUTCOMES = {
    "ok": ("ok", "#59a14f"),
    "failed": ("not well", "#e15759"),
    "open": ("not ended", "#bab0ac"),
}
ChartJson = Mapping[str, Any]


def build_chart(report: UsageReport, title: str) -> ChartJson:
    """What stands in the picture. A value that is not known is None, and leaves a gap; "at least" says of
    which parts are not known.
    """
    entries = report.shown_groups
    if report.query.by == "day":
        entries = tuple(_fill_missing_days(report.shown_groups))
    shown = entries[-MAX_GROUPS:] if report.query.by == "day" else entries[:MAX_GROUPS]
    left_out = len(entries) - len(shown)
    return {
        "title": escape_for_terminal(title)
        + (f" ({len(shown)} of {len(entries)} shown)" if left_out else ""),
        "labels": [escape_for_terminal(one.label)[:_MAX_LABEL_CHARACTERS] for one in shown],
        "stacks": _build_outcome_stacks(shown)
        if report.query.by == "tool"
        else _build_interval_stacks(shown),
        "unit": "tool calls" if report.query.by == "tool" else "seconds",
        "stacks at least": [report.query.by != "tool" and _has_missing_breakdowns(one) for one in shown],
        "canvases": [_known_canvases(one) for one in shown],
        "canvases at least": [_has_missing_counts(one) for one in shown],
        "cached": [
            one.calls.cached / one.calls.cached_of if one.calls and one.calls.cached_of else None
            for one in shown
        ],
    }


def draw_png_base64(body: bytes) -> str:
    """The PNG of a chart's JSON, both as bytes that can travel; for a process of its own."""
    return base64.b64encode(draw_png(json.loads(body))).decode()


def draw_png(chart: ChartJson) -> bytes:
    """The PNG of a chart."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_escape_math(chart["title"]))
    has_canvases = any(value is not None for value in chart["canvases"])
    upper, *lower = figure.subplots(2 if has_canvases else 1, 1, squeeze=False)[:, 0]
    _draw_stacks(upper, chart)
    if lower:
        _draw_canvases(lower[0], chart)
    out = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # a sign without a glyph is drawn as a box
        figure.savefig(out, format="png")
    return out.getvalue()


def _build_interval_stacks(groups: Sequence[ReportGroup]) -> list[ChartJson]:
    stacks = []
    for kind in INTERVAL_ORDER:
        place = INTERVAL_COLUMNS.index(column_name(kind))
        values = [_interval_seconds(one, place) for one in groups]
        stacks.append({"name": kind, "colour": _INTERVAL_COLOURS[kind], "values": values})
    return [stack for stack in stacks if any(stack["values"])]


def _interval_seconds(group: ReportGroup, interval_index: int) -> float | None:
    if group.turns is None:
        return 0.0  # nobody asked anything
    if group.turns.settled:
        return group.turns.seconds[interval_index]
    return None


def _fill_missing_days(groups: Iterable[ReportGroup]) -> Iterator[ReportGroup]:
    """The days, and those between them on which nothing happened."""
    expected = None
    for entry in groups:
        day = int(entry.key or 0)
        for missing in range(day if expected is None else expected, day):
            yield ReportGroup(missing, group_label("day", missing))
        yield entry
        expected = day + 1


def _build_outcome_stacks(groups: Sequence[ReportGroup]) -> list[ChartJson]:
    tools = [one.tools for one in groups if one.tools]
    values = {
        "ok": [one.outcomes.get("ok", 0) for one in tools],
        "failed": [one.failed for one in tools],
        "open": [one.outcomes.get(None, 0) for one in tools],
    }
    return [
        {"name": _TOOL_OUTCOMES[key][0], "colour": _TOOL_OUTCOMES[key][1], "values": values[key]}
        for key in values
    ]


def _known_canvases(group: ReportGroup) -> int | None:
    calls = group.calls
    if calls is None:
        if group.turns:
            return None
        return 0
    if calls.canvases_known or not calls.costing:
        return calls.canvases
    return None


def _has_missing_breakdowns(group: ReportGroup) -> bool:
    return group.turns is not None and 0 < group.turns.settled < group.turns.turns


def _has_missing_counts(group: ReportGroup) -> bool:
    calls = group.calls
    return (
        calls is not None
        and calls.canvases_known > 0
        and (calls.canvases_known < calls.costing or calls.partial > 0)
    )


def _draw_stacks(axes: "Axes", chart: ChartJson) -> None:
    places = range(len(chart["labels"]))
    floor = [0.0] * len(places)
    for stack in chart["stacks"]:
        values = [value or 0.0 for value in stack["values"]]
        axes.bar(places, values, bottom=floor, label=stack["name"], color=stack["colour"], width=0.8)
        floor = [below + value for below, value in zip(floor, values, strict=True)]
    unknown = [place for place in places if chart["stacks"] and chart["stacks"][0]["values"][place] is None]
    _mark_unknown(axes, unknown)
    _mark_lower_bounds(axes, floor, chart["stacks at least"])
    axes.set_ylabel(chart["unit"])
    _label_groups(axes, chart["labels"])
    if chart["stacks"]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, reverse=True)
    else:
        axes.text(0.5, 0.5, "no seconds are known here", ha="center", va="center", transform=axes.transAxes)


def _draw_canvases(axes: "Axes", chart: ChartJson) -> None:
    places = range(len(chart["labels"]))
    axes.bar(places, [value or 0 for value in chart["canvases"]], color="#4e79a7", width=0.8)
    _mark_unknown(axes, [place for place in places if chart["canvases"][place] is None])
    _mark_lower_bounds(axes, [value or 0 for value in chart["canvases"]], chart["canvases at least"])
    axes.set_ylabel("canvases (estimated)")
    _label_groups(axes, chart["labels"])
    shares = axes.twinx()
    known = [float("nan") if value is None else 100 * value for value in chart["cached"]]
    shares.plot(places, known, color="#f28e2b", marker="o", markersize=4)
    shares.set_ylabel("cached share of the input, %", color="#f28e2b")
    shares.set_ylim(0, 100)


def _mark_unknown(axes: "Axes", positions: Sequence[int]) -> None:
    for place in positions:
        axes.text(place, 0, "unknown", rotation=90, ha="center", va="bottom", color="#79706e", fontsize=8)


def _mark_lower_bounds(axes: "Axes", heights: Sequence[float], are_lower_bounds: Sequence[bool]) -> None:
    for place, height in enumerate(heights):
        if are_lower_bounds[place]:
            axes.text(place, height, "≥", ha="center", va="bottom", color="#79706e", fontsize=9)


def _label_groups(axes: "Axes", labels: Sequence[str]) -> None:
    axes.set_xticks(
        range(len(labels)), [_escape_math(one) for one in labels], rotation=45, ha="right", fontsize=8
    )
    axes.set_xlim(-0.6, max(len(labels), 1) - 0.4)


def _escape_math(text: str) -> str:
    """A text in which no sign begins a formula."""
    return text.replace("$", r"\$")
