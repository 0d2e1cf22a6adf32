"""A chart of canvases as columns and turns as a line, by hour or day, as SVG without a script. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import htpy as h

from bot.admin.svg_chart import WIDTH

_HEIGHT = 240
_LEFT = 64
_RIGHT = WIDTH - 56
_TOP = 14
_BOTTOM = _HEIGHT - 24
_COLUMN_SHARE = 0.7
_MAX_COLUMN_WIDTH = 60.0
_MAX_LABELS = 12
_MAX_TICKS = 5


@dataclass(frozen=True, slots=True)
class Column:
    """One hour or day; `canvases` None: unknown. `label` stands below it, `title` says all."""

    label: str
    title: str
    canvases: float | None
    turns: int


def draw_columns(label: str, columns: Sequence[Column]) -> h.Element:
    """The chart; canvases are read on the left, turns on the right."""
    canvas_ticks = list_ticks(max(column.canvases or 0 for column in columns))
    turn_ticks = list_ticks(max(column.turns for column in columns))
    view_box = {"viewBox": f"0 0 {WIDTH} {_HEIGHT}", "aria-label": label, "role": "group"}
    shapes = (
        _draw_column(column, _place_column(number, len(columns)), len(columns), canvas_ticks[-1])
        for number, column in enumerate(columns)
    )
    points = " ".join(
        f"{_place_column(number, len(columns)):.1f},{_place_value(column.turns, turn_ticks[-1]):.1f}"
        for number, column in enumerate(columns)
    )
    return h.div(".wide", tabindex="0", role="region", aria_label=label)[
        h.svg(".chart", view_box)[
            _draw_lines(canvas_ticks),
            _draw_ticks(canvas_ticks, ".tick.end", _LEFT - 6),
            _draw_ticks(turn_ticks, ".tick", _RIGHT + 6),
            shapes,
            h.polyline(".turns", points=points)[h.title["Turns"]],
            _draw_labels(columns),
        ]
    ]


def list_ticks(highest: float) -> list[int]:
    """At most six numbers from 0 to `highest` or beyond, in steps of 1, 2 or 5 times a power of ten."""
    power = 10 ** max(0, math.floor(math.log10(max(highest, 1) / _MAX_TICKS)))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if highest <= step * _MAX_TICKS)
    return [step * number for number in range(max(1, math.ceil(highest / step)) + 1)]


def _place_column(number: int, count: int) -> float:
    """The middle of a column, in pixels from the left."""
    return _LEFT + (number + 0.5) * (_RIGHT - _LEFT) / count


def _place_value(value: float, highest: int) -> float:
    """The height of a value, in pixels from the top."""
    return _BOTTOM - value / highest * (_BOTTOM - _TOP)


def _draw_column(column: Column, middle: float, count: int, highest: int) -> h.Element | None:
    if column.canvases is None:
        return None
    width = min(_MAX_COLUMN_WIDTH, _COLUMN_SHARE * (_RIGHT - _LEFT) / count)
    top = _place_value(column.canvases, highest)
    place = {"x": f"{middle - width / 2:.1f}", "y": f"{top:.1f}"}
    size = {"width": f"{width:.1f}", "height": f"{_BOTTOM - top:.1f}"}
    return h.rect(".canvas", place, size)[h.title[column.title]]


def _draw_lines(ticks: Sequence[int]) -> h.Element:
    lines = " ".join(f"M{_LEFT} {_place_value(tick, ticks[-1]):.1f}H{_RIGHT}" for tick in ticks)
    return h.path(".grid", d=lines)[h.title["Canvases on the left, turns on the right"]]


def _draw_ticks(ticks: Sequence[int], selector: str, x: int) -> h.Node:
    heights = [_place_value(tick, ticks[-1]) + 4 for tick in ticks]
    return [
        h.text(selector, x=str(x), y=f"{height:.1f}")[f"{tick:,}"]
        for tick, height in zip(ticks, heights, strict=True)
    ]


def _draw_labels(columns: Sequence[Column]) -> h.Node:
    """The label of each column, or of so few that they have space."""
    step = math.ceil(len(columns) / _MAX_LABELS)
    return [
        h.text(".tick.middle", x=f"{_place_column(number, len(columns)):.1f}", y=str(_HEIGHT - 8))[
            columns[number].label
        ]
        for number in range(0, len(columns), step)
    ]
