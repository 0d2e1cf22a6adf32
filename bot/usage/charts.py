"""A report as a picture: stacked seconds by interval, with canvases and the cached share below. Pure.

There are two steps, so that a gateway can run the second in a process of its own: `build_chart` collects what
the picture shows as JSON, `draw_png` draws it. Only the second imports matplotlib, which the extra `charts`
installs.
"""

import base64
import importlib.util
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bot.usage.intervals import INTERVAL_ORDER, column_name
from bot.usage.plain_text import escape_for_terminal
from bot.usage.report import INTERVAL_COLUMNS, ReportGroup, UsageReport, group_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_GROUPS = 31  # groups of one picture
_MAX_LABEL_CHARACTERS = 24  # characters of a group's label
_WIDTH = 11.0  # inches
_HEIGHT = 8.0  # inches
_DPI = 120
_COLOURS = (
    *("#4e79a7", "#a0cbe8", "#f1ce63", "#59a14f", "#8cd17d", "#b07aa1"),
    *("#d4a6c8", "#499894", "#ff9d9a", "#e15759", "#79706e"),
)
_INTERVAL_COLOURS = dict(zip(INTERVAL_ORDER, _COLOURS, strict=True))
_CANVAS_COLOUR = "#4e79a7"
_CACHED_COLOUR = "#f28e2b"
_MARK_COLOUR = "#79706e"
_TOOL_OUTCOMES = {
    "ok": ("ok", "#59a14f"),
    "failed": ("not well", "#e15759"),
    "open": ("not ended", "#bab0ac"),
}
ChartJson = Mapping[str, Any]


def are_charts_installed(find_spec: Callable[[str], object | None] = importlib.util.find_spec) -> bool:
    """Whether the drawing library is installed; it comes with the extra `charts`."""
    return find_spec("matplotlib") is not None


def build_chart(report: UsageReport, title: str) -> ChartJson:
    """Everything the picture shows.

    An unknown value is None and leaves a gap; the "at least" lists mark groups of which a part is unknown.
    """
    groups, left_out = _choose_groups(report)
    title = escape_for_terminal(title)
    if left_out:
        title += f" ({len(groups)} of {len(groups) + left_out} shown)"
    by_tool = report.query.by == "tool"
    if by_tool:
        unit = "tool calls"
        stacks = _build_outcome_stacks(groups)
    else:
        unit = "seconds"
        stacks = _build_interval_stacks(groups)
    return {
        "title": title,
        "labels": [escape_for_terminal(group.label)[:_MAX_LABEL_CHARACTERS] for group in groups],
        "stacks": stacks,
        "unit": unit,
        "stacks at least": [not by_tool and _has_missing_breakdowns(group) for group in groups],
        "canvases": [_known_canvases(group) for group in groups],
        "canvases at least": [_has_missing_counts(group) for group in groups],
        "cached": [_cached_share(group) for group in groups],
    }


def draw_png_base64(body: bytes) -> str:
    """The PNG of a chart's JSON; both are bytes that can be passed to a process of its own."""
    return base64.b64encode(draw_png(json.loads(body))).decode()


def draw_png(chart: ChartJson) -> bytes:
    """The PNG of a chart."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_escape_math(chart["title"]))
    if any(value is not None for value in chart["canvases"]):
        stack_axes, canvas_axes = figure.subplots(2, 1)
        _draw_canvases(canvas_axes, chart)
    else:
        stack_axes = figure.subplots(1, 1)
    _draw_stacks(stack_axes, chart)
    output = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # a character without a glyph is drawn as a box
        figure.savefig(output, format="png")
    return output.getvalue()


def _choose_groups(report: UsageReport) -> tuple[Sequence[ReportGroup], int]:
    """The groups of the picture, the latest days or the first others, and how many are left out."""
    groups = report.shown_groups
    if report.query.by == "day":
        groups = tuple(_fill_missing_days(groups))
        return groups[-MAX_GROUPS:], max(0, len(groups) - MAX_GROUPS)
    return groups[:MAX_GROUPS], max(0, len(groups) - MAX_GROUPS)


def _fill_missing_days(groups: Iterable[ReportGroup]) -> Iterator[ReportGroup]:
    """The days, and those between them on which nothing happened."""
    next_day = None
    for group in groups:
        day = int(group.key or 0)
        if next_day is not None:
            for missing_day in range(next_day, day):
                yield ReportGroup(missing_day, group_label("day", missing_day))
        yield group
        next_day = day + 1


def _build_interval_stacks(groups: Sequence[ReportGroup]) -> list[ChartJson]:
    stacks = []
    for kind in INTERVAL_ORDER:
        index = INTERVAL_COLUMNS.index(column_name(kind))
        values = [_interval_seconds(group, index) for group in groups]
        stacks.append({"name": kind, "colour": _INTERVAL_COLOURS[kind], "values": values})
    return [stack for stack in stacks if any(stack["values"])]


def _interval_seconds(group: ReportGroup, interval_index: int) -> float | None:
    if group.turns is None:
        return 0.0  # nobody asked anything
    if group.turns.settled:
        return group.turns.seconds[interval_index]
    return None


def _build_outcome_stacks(groups: Sequence[ReportGroup]) -> list[ChartJson]:
    usages = [group.tools for group in groups if group.tools]
    values = {
        "ok": [usage.outcomes.get("ok", 0) for usage in usages],
        "failed": [usage.failed for usage in usages],
        "open": [usage.outcomes.get(None, 0) for usage in usages],
    }
    return [
        {"name": name, "colour": colour, "values": values[outcome]}
        for outcome, (name, colour) in _TOOL_OUTCOMES.items()
    ]


def _known_canvases(group: ReportGroup) -> int | None:
    calls = group.calls
    if calls is None and not group.turns:
        return 0
    if calls is None or (calls.costing and not calls.canvases_known):
        return None
    return calls.canvases


def _cached_share(group: ReportGroup) -> float | None:
    if group.calls is None or not group.calls.cached_of:
        return None
    return group.calls.cached / group.calls.cached_of


def _has_missing_breakdowns(group: ReportGroup) -> bool:
    return group.turns is not None and 0 < group.turns.settled < group.turns.turns


def _has_missing_counts(group: ReportGroup) -> bool:
    calls = group.calls
    if calls is None or not calls.canvases_known:
        return False
    return calls.canvases_known < calls.costing or calls.partial > 0


def _draw_stacks(axes: "Axes", chart: ChartJson) -> None:
    positions = range(len(chart["labels"]))
    heights = [0.0] * len(positions)
    for stack in chart["stacks"]:
        values = [value or 0.0 for value in stack["values"]]
        axes.bar(positions, values, bottom=heights, label=stack["name"], color=stack["colour"], width=0.8)
        heights = [below + value for below, value in zip(heights, values, strict=True)]
    if chart["stacks"]:
        values = chart["stacks"][0]["values"]
        _mark_unknown(axes, [position for position in positions if values[position] is None])
    _mark_lower_bounds(axes, heights, chart["stacks at least"])
    axes.set_ylabel(chart["unit"])
    _label_groups(axes, chart["labels"])
    if chart["stacks"]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, reverse=True)
    else:
        axes.text(0.5, 0.5, "no seconds are known here", ha="center", va="center", transform=axes.transAxes)


def _draw_canvases(axes: "Axes", chart: ChartJson) -> None:
    positions = range(len(chart["labels"]))
    heights = [value or 0 for value in chart["canvases"]]
    axes.bar(positions, heights, color=_CANVAS_COLOUR, width=0.8)
    _mark_unknown(axes, [position for position in positions if chart["canvases"][position] is None])
    _mark_lower_bounds(axes, heights, chart["canvases at least"])
    axes.set_ylabel("canvases (estimated)")
    _label_groups(axes, chart["labels"])
    share_axes = axes.twinx()
    percentages = [float("nan") if share is None else 100 * share for share in chart["cached"]]
    share_axes.plot(positions, percentages, color=_CACHED_COLOUR, marker="o", markersize=4)
    share_axes.set_ylabel("cached share of the input, %", color=_CACHED_COLOUR)
    share_axes.set_ylim(0, 100)


def _mark_unknown(axes: "Axes", positions: Sequence[int]) -> None:
    for position in positions:
        axes.text(
            position, 0, "unknown", rotation=90, ha="center", va="bottom", color=_MARK_COLOUR, fontsize=8
        )


def _mark_lower_bounds(axes: "Axes", heights: Sequence[float], are_lower_bounds: Sequence[bool]) -> None:
    for position, height in enumerate(heights):
        if are_lower_bounds[position]:
            axes.text(position, height, "≥", ha="center", va="bottom", color=_MARK_COLOUR, fontsize=9)


def _label_groups(axes: "Axes", labels: Sequence[str]) -> None:
    texts = [_escape_math(label) for label in labels]
    axes.set_xticks(range(len(texts)), texts, rotation=45, ha="right", fontsize=8)
    axes.set_xlim(-0.6, max(len(texts), 1) - 0.4)


def _escape_math(text: str) -> str:
    """A text in which no character begins a formula."""
    return text.replace("$", r"\$")
