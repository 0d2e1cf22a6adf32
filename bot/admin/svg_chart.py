"""Charts of bars in rows over time, as SVG without a script: printable, and testable by its text. Pure.

A chart is as wide as its place: shapes are stretched over the plot, texts keep their size.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import htpy as h

from bot.domain import DAY_SECONDS
from bot.usage.palette import ColourName

MAX_SHAPES = 200
WIDTH = 1000
"""Units from the left to the right of a plot; about a pixel each on a desktop."""
ROW_HEIGHT = 20
_BAR_HEIGHT = 14
_MIN_BAR_WIDTH = 2.0  # what took no time is still seen
_LETTER_WIDTH = 6.5  # pixels, of a text on a bar
_MAX_TICKS = 8
_STEPS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    21_600,
)

BarKind = Literal[ColourName, "frame"]
"""The colours of the palette, and a pale frame around others."""
FAULT_MARK = "✕"
HATCH = "url(#hatch)"
"""What waits are filled with: the pattern that each page has once."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of time (epoch seconds) in a row; `title` says what it is, `href` leads to it.

    With `moments`, lines at these are drawn instead, as one shape. The first of `texts` that fits
    stands on it.
    """

    row: int
    kind: BarKind
    begin: float
    end: float
    title: str
    href: str | None = None
    moments: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """The time that a chart covers; `ticks` are moments with their labels."""

    begin: float
    end: float
    ticks: tuple[tuple[float, str], ...]

    def place(self, moment: float) -> float:
        """Where a moment is, in units from the left; one outside is at the border."""
        share = (moment - self.begin) / max(self.end - self.begin, 0.001)
        return min(1.0, max(0.0, share)) * WIDTH


def choose_step(seconds: float) -> float:
    """The time between two ticks, so that there are few."""
    for step in _STEPS:
        if seconds / step <= _MAX_TICKS:
            return step
    return math.ceil(seconds / _MAX_TICKS / DAY_SECONDS) * DAY_SECONDS


def draw_chart(
    label: str,
    rows: Sequence[str],
    bars: Sequence[Bar],
    axis: Axis,
    *,
    behind: h.Node = None,
) -> h.Element:
    """A row for each label with its bars; `behind` is drawn behind them."""
    top = 4
    bottom = top + len(rows) * ROW_HEIGHT
    labels = (h.text(x="0", y=str(top + number * ROW_HEIGHT + 14))[text] for number, text in enumerate(rows))
    drawn = [_draw_bar(bar, axis, top) for bar in bars]
    shapes = (_draw_grid(axis, bottom), behind, [shape for shape, _ in drawn])
    texts = (_draw_ticks(axis, bottom + 14), [text for _, text in drawn])
    return draw_plot(".timeline", label, bottom + 20, shapes, texts, labels)


def draw_plot(
    selector: str, label: str, height: int, shapes: h.Node, texts: h.Node, labels: h.Node
) -> h.Element:
    """Shapes in units, with texts over them at shares of the width; `labels` stand left of the plot."""
    stretched = {"viewBox": f"0 0 {WIDTH} {height}", "preserveAspectRatio": "none"}
    return h.div(selector, role="group", aria_label=label)[
        h.svg(height=str(height))[labels],
        h.div(".plot")[
            h.svg(".chart", stretched, height=str(height))[shapes],
            h.svg(".texts", height=str(height))[texts],
        ],
    ]


def write_text(selector: str, x: float, y: float, text: str) -> h.Element:
    """A text of a plot; `x` in units."""
    return h.text(selector, x=f"{100 * x / WIDTH:.2f}%", y=f"{y:g}")[text]


def _draw_grid(axis: Axis, bottom: int) -> h.Element:
    lines = " ".join(f"M{axis.place(moment):.1f} 0V{bottom}" for moment, _ in axis.ticks)
    return h.path(".grid", d=lines)[h.title["The time below"]]


def _draw_ticks(axis: Axis, y: int) -> Iterator[h.Element]:
    """The labels of the axis; on a phone there is space for every second one."""
    for number, (moment, text) in enumerate(axis.ticks):
        place = axis.place(moment)
        anchor = ".end" if place > WIDTH - 38 else ""
        rank = ".fine" if number % 2 else ""
        yield write_text(f".tick{anchor}{rank}", place, y, text)


def _draw_bar(bar: Bar, axis: Axis, top: int) -> tuple[h.Element, h.Node]:
    """The shape of a bar, and the text on it."""
    y = top + bar.row * ROW_HEIGHT + 3
    if bar.moments:
        lines = " ".join(f"M{axis.place(moment):.1f} {y}v{_BAR_HEIGHT}" for moment in bar.moments)
        return h.path(".moments", d=lines)[h.title[bar.title]], None
    x = axis.place(bar.begin)
    width = max(_MIN_BAR_WIDTH, axis.place(bar.end) - x)
    shape = draw_piece(bar.kind, x, y, width, _BAR_HEIGHT)[h.title[bar.title]]
    if bar.href is not None:
        shape = h.a(href=bar.href, aria_label=bar.title)[shape]
    return shape, _write_on_bar(bar, x, y + _BAR_HEIGHT - 3, width)


def _write_on_bar(bar: Bar, x: float, y: int, width: float) -> h.Node:
    """The first text that fits, behind the cross of a fault, which stands behind a bar that is short."""
    mark = f"{FAULT_MARK} " if bar.kind == "fault" else ""
    texts = (f"{mark}{text}" for text in (*bar.texts, ""))
    fitting = next((text for text in texts if len(text) * _LETTER_WIDTH + 8 <= width), None)
    if fitting is None:
        return mark and write_text(".mark", x + width + 2, y, mark)
    return fitting and write_text(f".inside.on-{bar.kind}", x + 4, y, fitting)


def draw_piece(kind: BarKind, x: float, y: float, width: float, height: float) -> h.Element:
    """A rectangle of a colour; waits are filled with the hatch of the page."""
    place = {"x": f"{x:.1f}", "y": f"{y:g}", "width": f"{width:.1f}", "height": f"{height:g}"}
    return h.rect(f".{kind}", place, fill=HATCH if kind == "wait" else None)


def draw_hatch() -> h.Element:
    """The pattern of waits, once in each page."""
    pattern = {"id": "hatch", "width": "5", "height": "5", "patternUnits": "userSpaceOnUse"}
    lines = h.path(".wait-lines", d="M-1 1L1 -1M0 5L5 0M4 6L6 4")
    return h.svg(".hatch", aria_hidden="true", width="0", height="0")[h.defs[h.pattern(pattern)[lines]]]


def show_swatch(kind: BarKind) -> h.Element:
    """The colour of a bar, before its name in a text."""
    return h.span(f".swatch.{kind}", aria_hidden="true")


def show_legend(
    names: Iterable[tuple[BarKind, str]], used: Iterable[BarKind], note: h.Node = None
) -> h.Element:
    """What the colours mean that are used, and a note."""
    shown = set(used)
    items = ((h.span(".nowrap")[show_swatch(kind), text], " ") for kind, text in names if kind in shown)
    return h.p(".legend")[items, note]
