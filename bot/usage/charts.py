"""A report as a picture: seconds by interval stacked, canvases and cached share below. Pure.

Two steps, so that a gateway can have the second done in a process of its own: `chart` says what stands in the
picture as JSON, `drawn` makes the PNG of it. Only that imports matplotlib.
"""

import base64
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bot.usage.intervals import ORDER, column
from bot.usage.plain_text import plain
from bot.usage.report import KINDS, Entry, Report, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 31  # groups of one picture
_LABEL = 24  # characters of a group's name
_WIDTH = 11.0
_HEIGHT = 8.0
_DPI = 120
_COLOURS = (
    *("#4e79a7", "#a0cbe8", "#f1ce63", "#59a14f", "#8cd17d", "#b07aa1"),
    *("#d4a6c8", "#499894", "#ff9d9a", "#e15759", "#79706e"),
)
_COLOUR_OF = dict(zip(ORDER, _COLOURS, strict=True))
_OUTCOMES = {"ok": ("ok", "#59a14f"), "failed": ("not well", "#e15759"), "open": ("not ended", "#bab0ac")}
Json = Mapping[str, Any]


def chart(report: Report, title: str) -> Json:
    """What stands in the picture. A value that is not known is None, and leaves a gap; "at least" says of
    which parts are not known.
    """
    entries = report.shown
    if report.question.by == "day":
        entries = tuple(_every_day(report.shown))
    shown = entries[-MOST:] if report.question.by == "day" else entries[:MOST]
    left_out = len(entries) - len(shown)
    return {
        "title": plain(title) + (f" ({len(shown)} of {len(entries)} shown)" if left_out else ""),
        "labels": [plain(one.label)[:_LABEL] for one in shown],
        "stacks": _tool_calls(shown) if report.question.by == "tool" else _seconds(shown),
        "unit": "tool calls" if report.question.by == "tool" else "seconds",
        "stacks at least": [report.question.by != "tool" and _lacks_accounts(one) for one in shown],
        "canvases": [_canvases(one) for one in shown],
        "canvases at least": [_lacks_counts(one) for one in shown],
        "cached": [
            one.calls.cached / one.calls.cached_of if one.calls and one.calls.cached_of else None
            for one in shown
        ],
    }


def apart(body: bytes) -> str:
    """The PNG of a chart's JSON, both as bytes that can travel; for a process of its own."""
    return base64.b64encode(drawn(json.loads(body))).decode()


def drawn(chart: Json) -> bytes:
    """The PNG of a chart."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_meant(chart["title"]))
    has_canvases = any(value is not None for value in chart["canvases"])
    upper, *lower = figure.subplots(2 if has_canvases else 1, 1, squeeze=False)[:, 0]
    _stacked(upper, chart)
    if lower:
        _below(lower[0], chart)
    out = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # a sign without a glyph is drawn as a box
        figure.savefig(out, format="png")
    return out.getvalue()


def _seconds(shown: Sequence[Entry]) -> list[Json]:
    stacks = []
    for kind in ORDER:
        place = KINDS.index(column(kind))
        values = [_took(one, place) for one in shown]
        stacks.append({"name": kind, "colour": _COLOUR_OF[kind], "values": values})
    return [stack for stack in stacks if any(stack["values"])]


def _took(entry: Entry, place: int) -> float | None:
    if entry.turns is None:
        return 0.0  # nobody asked anything
    if entry.turns.settled:
        return entry.turns.seconds[place]
    return None


def _every_day(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The days, and those between them on which nothing happened."""
    expected = None
    for entry in entries:
        day = int(entry.key or 0)
        for missing in range(day if expected is None else expected, day):
            yield Entry(missing, label("day", missing))
        yield entry
        expected = day + 1


def _tool_calls(shown: Sequence[Entry]) -> list[Json]:
    tools = [one.tools for one in shown if one.tools]
    values = {
        "ok": [one.outcomes.get("ok", 0) for one in tools],
        "failed": [one.failed for one in tools],
        "open": [one.outcomes.get(None, 0) for one in tools],
    }
    return [{"name": _OUTCOMES[key][0], "colour": _OUTCOMES[key][1], "values": values[key]} for key in values]


def _canvases(entry: Entry) -> int | None:
    calls = entry.calls
    if calls is None:
        if entry.turns:
            return None
        return 0
    if calls.canvases_known or not calls.costing:
        return calls.canvases
    return None


def _lacks_accounts(entry: Entry) -> bool:
    return entry.turns is not None and 0 < entry.turns.settled < entry.turns.turns


def _lacks_counts(entry: Entry) -> bool:
    calls = entry.calls
    return (
        calls is not None
        and calls.canvases_known > 0
        and (calls.canvases_known < calls.costing or calls.partial > 0)
    )


def _stacked(axes: "Axes", chart: Json) -> None:
    places = range(len(chart["labels"]))
    floor = [0.0] * len(places)
    for stack in chart["stacks"]:
        values = [value or 0.0 for value in stack["values"]]
        axes.bar(places, values, bottom=floor, label=stack["name"], color=stack["colour"], width=0.8)
        floor = [below + value for below, value in zip(floor, values, strict=True)]
    unknown = [place for place in places if chart["stacks"] and chart["stacks"][0]["values"][place] is None]
    _mark_unknown(axes, unknown)
    _mark_least(axes, floor, chart["stacks at least"])
    axes.set_ylabel(chart["unit"])
    _name(axes, chart["labels"])
    if chart["stacks"]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, reverse=True)
    else:
        axes.text(0.5, 0.5, "no seconds are known here", ha="center", va="center", transform=axes.transAxes)


def _below(axes: "Axes", chart: Json) -> None:
    places = range(len(chart["labels"]))
    axes.bar(places, [value or 0 for value in chart["canvases"]], color="#4e79a7", width=0.8)
    _mark_unknown(axes, [place for place in places if chart["canvases"][place] is None])
    _mark_least(axes, [value or 0 for value in chart["canvases"]], chart["canvases at least"])
    axes.set_ylabel("canvases (estimated)")
    _name(axes, chart["labels"])
    shares = axes.twinx()
    known = [float("nan") if value is None else 100 * value for value in chart["cached"]]
    shares.plot(places, known, color="#f28e2b", marker="o", markersize=4)
    shares.set_ylabel("cached share of the input, %", color="#f28e2b")
    shares.set_ylim(0, 100)


def _mark_unknown(axes: "Axes", places: Sequence[int]) -> None:
    for place in places:
        axes.text(place, 0, "unknown", rotation=90, ha="center", va="bottom", color="#79706e", fontsize=8)


def _mark_least(axes: "Axes", heights: Sequence[float], least: Sequence[bool]) -> None:
    for place, height in enumerate(heights):
        if least[place]:
            axes.text(place, height, "≥", ha="center", va="bottom", color="#79706e", fontsize=9)


def _name(axes: "Axes", labels: Sequence[str]) -> None:
    axes.set_xticks(range(len(labels)), [_meant(one) for one in labels], rotation=45, ha="right", fontsize=8)
    axes.set_xlim(-0.6, max(len(labels), 1) - 0.4)


def _meant(text: str) -> str:
    """A text in which no sign begins a formula."""
    return text.replace("$", r"\$")
