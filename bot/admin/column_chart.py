"""A chart of columns by hour or day, as SVG without a script. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import htpy as h

from bot.admin.svg_chart import WIDTH, BarKind, draw_piece, draw_plot, write_text
from bot.usage.chart_image import list_ticks

_HEIGHT = 140
_TOP = 24  # space for the marks of the highest columns
_BOTTOM = _HEIGHT - 24
_COLUMN_SHARE = 0.7
_MAX_COLUMN_WIDTH = 60.0
_MAX_LABELS = 8


@dataclass(frozen=True, slots=True)
class Column:
    """One hour or day: its stacked pieces, and a `mark` above them.

    `label` stands below, `title` says all.
    """

    label: str
    title: str
    pieces: tuple[tuple[BarKind, float], ...]
    mark: str = ""

    @property
    def height(self) -> float:
        """The sum of its pieces."""
        return math.fsum(value for _, value in self.pieces)


def draw_columns(label: str, columns: Sequence[Column], unit: str = "") -> h.Element:
    """The chart, with numbers on the left: whole ones, if they have no unit."""
    ticks = list_ticks(max(column.height for column in columns), are_whole=not unit)
    highest = ticks[-1]
    shapes = (
        _draw_lines(ticks),
        [_draw_column(column, x, width, highest) for column, x, width in _place_columns(columns)],
    )
    marks = [
        write_text(".tick.middle", x, _place_value(column.height, highest) - 4, column.mark)
        for column, x, _ in _place_columns(columns)
        if column.mark
    ]
    labels = [
        h.text(".tick.end", x="56", y=f"{_place_value(tick, highest) + 4:.1f}")[f"{tick:,g}{unit}"]
        for tick in ticks
    ]
    return draw_plot(".columns", label, _HEIGHT, shapes, (marks, _write_labels(columns)), labels)


def _place_columns(columns: Sequence[Column]) -> list[tuple[Column, float, float]]:
    """Each column with its middle and its width, in units."""
    slot = WIDTH / len(columns)
    width = min(_MAX_COLUMN_WIDTH, _COLUMN_SHARE * slot)
    return [(column, (number + 0.5) * slot, width) for number, column in enumerate(columns)]


def _place_value(value: float, highest: float) -> float:
    """The height of a value, in pixels from the top."""
    return _BOTTOM - value / highest * (_BOTTOM - _TOP)


def _draw_column(column: Column, middle: float, width: float, highest: float) -> Iterator[h.Element]:
    ends = accumulate(value for _, value in column.pieces)
    for (kind, value), end in zip(column.pieces, ends, strict=True):
        top = _place_value(end, highest)
        height = _place_value(end - value, highest) - top
        yield draw_piece(kind, middle - width / 2, top, width, height)[h.title[column.title]]


def _draw_lines(ticks: Sequence[float]) -> h.Element:
    lines = " ".join(f"M0 {_place_value(tick, ticks[-1]):.1f}H{WIDTH}" for tick in ticks)
    return h.path(".grid", d=lines)


def _write_labels(columns: Sequence[Column]) -> Iterator[h.Element]:
    """The label of each column, or of so few that they have space: on a phone of each second of them."""
    step = math.ceil(len(columns) / _MAX_LABELS)
    shown = _place_columns(columns)[::-step]
    for number, (column, x, _) in enumerate(shown):
        if column is columns[-1] and step > 1:  # in a narrow slot it would stand out beyond the chart
            yield write_text(".tick.end", WIDTH, _HEIGHT - 8, column.label)
            continue
        rank = ".fine" if number % 2 else ""
        yield write_text(f".tick.middle{rank}", x, _HEIGHT - 8, column.label)
