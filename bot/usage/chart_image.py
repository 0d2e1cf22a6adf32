"""Draws a chart for the screen of a phone: portrait, large type, dark on white. Pure but for the font's file.

The font is DejaVu Sans, reduced to Latin, Greek and Cyrillic characters; others are drawn as boxes.
"""

import base64
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.usage.palette import COLOURS, PAPER

if TYPE_CHECKING:
    from PIL import Image, ImageFont

ChartJson = Mapping[str, Any]
"""What `charts` builds: title, labels of the days, panels with a value a day, notes at the end."""

FONT_FILE = Path(__file__).parent / "fonts" / "DejaVuSans.ttf"
WIDTH = 1080
MARGIN = 48
_TITLE_SIZE = 50
_TEXT_SIZE = 36
_LINE = 54  # pixels from one line of text to the next
_SINGLE_PANEL_HEIGHT = 820  # pixels of the columns, where there is one panel
_PANEL_HEIGHT = 400  # pixels of the columns, where there are several
_AXIS_WIDTH = 118  # pixels left of the columns
_COLUMN_SHARE = 0.74  # of a day's width
_GRID_LINES = 4  # at most
_LABEL_DAYS = 7  # days between two labels
_BACKGROUND = PAPER.light
_TEXT_COLOUR = "#0e1216"
_MUTED_COLOUR = "#5d6872"
_GRID_COLOUR = "#dde2e7"


def draw_png_base64(body: bytes) -> str:
    """The PNG of a chart's JSON; both are bytes that can be passed to a process of its own."""
    return base64.b64encode(draw_png(json.loads(body))).decode()


def draw_png(chart: ChartJson) -> bytes:
    """The PNG of a chart."""
    picture = _Picture(chart)
    output = io.BytesIO()
    picture.draw().save(output, format="PNG", optimize=True)
    return output.getvalue()


class _Picture:
    """A picture that grows downwards: `y` is where the next thing is drawn."""

    def __init__(self, chart: ChartJson) -> None:
        from PIL import (  # late: it takes a tenth of a second, and only this needs it
            Image,
            ImageDraw,
            ImageFont,
        )

        self._chart = chart
        self._panel_height = _SINGLE_PANEL_HEIGHT if len(chart["panels"]) == 1 else _PANEL_HEIGHT
        self._font = ImageFont.truetype(FONT_FILE, _TEXT_SIZE)
        self._title_font = ImageFont.truetype(FONT_FILE, _TITLE_SIZE)
        # At least the height that is needed; the picture is cropped at its end.
        height = 12 * _LINE + len(chart["panels"]) * (self._panel_height + 4 * _LINE)
        self._image = Image.new("RGB", (WIDTH, height), _BACKGROUND)
        self._draw = ImageDraw.Draw(self._image)
        self._y = MARGIN

    def draw(self) -> "Image.Image":
        for line in _wrap(self._chart["title"], self._title_font):
            self._draw.text((MARGIN, self._y), line, _TEXT_COLOUR, self._title_font)
            self._y += _LINE + 10
        for panel in self._chart["panels"]:
            self._y += 26
            self._write_line(f"{panel['heading']} · Σ {panel['total']}", _TEXT_COLOUR)
            self._draw_columns(panel)
        for note in self._chart["notes"]:
            self._write_line(note)
        return self._image.crop((0, 0, WIDTH, self._y + MARGIN))

    def _write_line(self, text: str, colour: str = _MUTED_COLOUR) -> None:
        self._draw.text((MARGIN, self._y), text, colour, self._font)
        self._y += _LINE

    def _draw_columns(self, panel: ChartJson) -> None:
        labels = self._chart["labels"]
        values = panel["values"]
        top = self._y + 40  # space for a mark above the highest column
        bottom = top + self._panel_height
        left = MARGIN + _AXIS_WIDTH
        ticks = list_ticks(max(value or 0 for value in values), are_whole=True)
        scale = (bottom - top) / ticks[-1]
        for tick in ticks:
            y = bottom - tick * scale
            self._draw.line((left, y, WIDTH - MARGIN, y), _GRID_COLOUR, 2)
            self._draw.text((left - 16, y), f"{tick:,g}", _MUTED_COLOUR, self._font, anchor="rm")
        slot = (WIDTH - MARGIN - left) / len(labels)
        half = slot * _COLUMN_SHARE / 2
        for index, (label, value) in enumerate(zip(labels, values, strict=True)):
            middle = left + (index + 0.5) * slot
            column_top = bottom - (value or 0) * scale
            if value:
                box = (round(middle - half), round(column_top), round(middle + half), bottom)
                self._draw.rectangle(box, COLOURS[panel["colour"]].light)
            mark = _get_mark(value, is_at_least=panel["at least"][index])
            if index == len(labels) - 1 and value is not None:
                mark += f"{value:,}"
            self._write_inside(mark, middle, column_top - 4, "mb")
            if (len(labels) - 1 - index) % _LABEL_DAYS == 0:
                self._draw.line((middle, bottom, middle, bottom + 10), _MUTED_COLOUR, 2)
                self._write_inside(label[5:], middle, bottom + 20, "mt")  # month and day
        self._y = bottom + 20 + _LINE

    def _write_inside(self, text: str, middle: float, y: float, anchor: str) -> None:
        """A text around `middle`, or as far left of it as the margin demands."""
        rightmost = WIDTH - MARGIN / 2 - self._font.getlength(text) / 2
        self._draw.text((min(middle, rightmost), y), text, _MUTED_COLOUR, self._font, anchor=anchor)


def list_ticks(highest: float, *, are_whole: bool) -> list[float]:
    """The values of the grid's lines: round (and whole) ones from 0 to `highest` or a little more."""
    if highest <= 0:
        return [0.0, 1.0]
    size = 10.0 ** math.floor(math.log10(highest / _GRID_LINES))
    steps = (size * factor for factor in (1, 2, 5, 10))
    step = next(step for step in steps if step * _GRID_LINES >= highest * (1 - 1e-9))
    if are_whole:
        step = max(step, 1.0)
    return [round(step * number, 9) for number in range(math.ceil(highest / step - 1e-9) + 1)]


def _wrap(text: str, font: "ImageFont.FreeTypeFont") -> list[str]:
    """The text in lines that fit; a word that is longer than a line is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= WIDTH - 2 * MARGIN:
            lines[-1] = longer
        else:
            lines.append(word)
    return [line for line in lines if line]


def _get_mark(value: int | None, *, is_at_least: bool) -> str:
    if value is None:
        return "?"
    return "≥" if is_at_least else ""
