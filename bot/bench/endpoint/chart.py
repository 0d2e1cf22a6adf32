"""Draws a result as a chart: tokens a second by length of the answer, with the curve of whole canvases.

Pure but for the file it writes. matplotlib takes a second to import, so this module is imported only when a
chart is wanted.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bot.bench.endpoint.result import BenchResult, MeasuredCall
from bot.canvases import CANVAS_TOKENS, count_canvases

FIGURE_INCHES = (9.0, 5.0)
DOTS_PER_INCH = 150
MIN_CURVE_CANVASES = 4  # that the curve shows at least


def draw_chart(result: BenchResult, file: Path) -> bool:
    """Write a PNG; False if nothing was measured that can be drawn."""
    points_by_label = {
        "one at a time, streamed": _call_points(result, streamed=True, at_once=1),
        "one at a time, not streamed": _call_points(result, streamed=False, at_once=1),
        "four at once, each": _call_points(result, streamed=True, at_once=4),
    }
    if not any(points_by_label.values()):
        return False
    figure = Figure(figsize=FIGURE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    axes: Axes = figure.add_subplot()
    for label, points in points_by_label.items():
        if points:
            axes.plot(
                [x for x, _ in points], [y for _, y in points], "o", markersize=5, alpha=0.7, label=label
            )
    longest = max(x for points in points_by_label.values() for x, _ in points)
    if result.canvas_seconds is not None:
        _draw_curve(axes, result.canvas_seconds, max(MIN_CURVE_CANVASES, count_canvases(longest)))
    _draw_frame(axes, result)
    figure.savefig(file, format="png")
    return True


def canvas_rate(canvas_seconds: float, tokens: int) -> float:
    """Tokens a second of an answer of this length, if only its canvases took time."""
    return tokens / (count_canvases(tokens) * canvas_seconds)


def _draw_curve(axes: Axes, canvas_seconds: float, canvases: int) -> None:
    for number in range(canvases):
        lengths = [number * CANVAS_TOKENS + 1, (number + 1) * CANVAS_TOKENS]
        label = f"{canvas_seconds:.2f} s a canvas" if number == 0 else None
        rates = [canvas_rate(canvas_seconds, length) for length in lengths]
        axes.plot(lengths, rates, "-", color="0.4", linewidth=1.2, label=label)


def _draw_frame(axes: Axes, result: BenchResult) -> None:
    unit = " (256 are one canvas)" if result.has_canvases else ""
    axes.set_xlabel(f"output tokens of the answer{unit}")
    axes.set_ylabel("tokens a second, whole answer")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    for canvas_end in range(CANVAS_TOKENS, int(axes.get_xlim()[1]), CANVAS_TOKENS):
        axes.axvline(canvas_end, color="0.85", linewidth=0.8, zorder=0)
    conditions = dict(result.conditions)
    simulated = "SIMULATION, no model ran. " if "SIMULATION" in conditions else ""
    axes.set_title(f"{simulated}Tokens a second by length of the answer", fontsize=11)
    axes.legend(fontsize=8)


def _call_points(result: BenchResult, *, streamed: bool, at_once: int) -> list[tuple[int, float]]:
    rows = [
        row for row in result.rows if (row.way, row.streamed, row.at_once) == ("direct", streamed, at_once)
    ]
    calls: list[MeasuredCall] = [call for row in rows if row.warm != "cold" for call in row.calls]
    return [(call.output, call.output / call.seconds) for call in calls if call.output and call.seconds > 0]
