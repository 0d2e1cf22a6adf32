"""Charts of bars in rows over time, as SVG without a script: printable, and testable by its text. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import htpy as h

from bot.domain import DAY_SECONDS
from bot.usage.palette import ColourName

MAX_SHAPES = 200
LABEL_WIDTH = 150
WIDTH = 1000
ROW_HEIGHT = 18
_BAR_HEIGHT = 12
_MIN_BAR_WIDTH = 1.5  # what took no time is still seen
_MAX_TICKS = 8
_MARK_WIDTH = 12
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

    With `moments`, lines at these are drawn instead, as one shape.
    """

    row: int
    kind: BarKind
    begin: float
    end: float
    title: str
    href: str | None = None
    moments: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """The time that a chart covers; `ticks` are moments with their labels."""

    begin: float
    end: float
    ticks: tuple[tuple[float, str], ...]

    def place(self, moment: float) -> float:
        """Where a moment is, in pixels from the left; one outside is at the border."""
        share = (moment - self.begin) / max(self.end - self.begin, 0.001)
        return LABEL_WIDTH + min(1.0, max(0.0, share)) * (WIDTH - LABEL_WIDTH)


def choose_step(seconds: float) -> float:
    """The time between two ticks, so that there are few."""
    for step in _STEPS:
        if seconds / step <= _MAX_TICKS:
            return step
    return math.ceil(seconds / _MAX_TICKS / DAY_SECONDS) * DAY_SECONDS


def draw_chart(
    label: str,
    rows: Sequence[str],
    bars: Iterable[Bar],
    axis: Axis,
    *,
    above: h.Node = None,
    height_above: int = 0,
) -> h.Element:
    """A row for each label with its bars; `above` is drawn over the first row."""
    top = height_above + 4
    bottom = top + len(rows) * ROW_HEIGHT
    view_box = {"viewBox": f"0 0 {WIDTH} {bottom + 20}", "aria-label": label, "role": "group"}
    labels = (h.text(x="0", y=str(top + number * ROW_HEIGHT + 13))[text] for number, text in enumerate(rows))
    return h.div(".wide", tabindex="0", role="region", aria_label=label)[
        h.svg(".chart", view_box)[
            _draw_grid(axis, bottom), above, labels, (_draw_bar(bar, axis, top) for bar in bars)
        ]
    ]


def _draw_grid(axis: Axis, bottom: int) -> h.Node:
    lines = " ".join(f"M{axis.place(moment):.1f} 0V{bottom}" for moment, _ in axis.ticks)
    labels = (
        h.text(".tick", x=f"{min(axis.place(moment), WIDTH - 38):.1f}", y=str(bottom + 14))[text]
        for moment, text in axis.ticks
    )
    return h.path(".grid", d=lines)[h.title["The time below"]], labels


def _draw_bar(bar: Bar, axis: Axis, top: int) -> h.Element:
    y = top + bar.row * ROW_HEIGHT + 3
    if bar.moments:
        lines = " ".join(f"M{axis.place(moment):.1f} {y}v{_BAR_HEIGHT}" for moment in bar.moments)
        return h.path(".moments", d=lines)[h.title[bar.title]]
    x = axis.place(bar.begin)
    width = max(_MIN_BAR_WIDTH, axis.place(bar.end) - x)
    shape = draw_piece(bar.kind, x, y, width, _BAR_HEIGHT)[h.title[bar.title]]
    if bar.kind == "fault":
        shape = h.g[shape, _draw_mark(x, width, y + _BAR_HEIGHT - 2)]
    if bar.href is None:
        return shape
    return h.a(href=bar.href, aria_label=bar.title)[shape]


def _draw_mark(x: float, width: float, y: int) -> h.Element:
    """The cross of a fault: on its bar, or behind one that is too short."""
    if width < _MARK_WIDTH:
        return h.text(".mark", x=f"{x + width + 1:.1f}", y=str(y))[FAULT_MARK]
    return h.text(".mark.inside", x=f"{x + (width - _MARK_WIDTH) / 2 + 1:.1f}", y=str(y))[FAULT_MARK]


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
