"""Draws a chart for the screen of a phone: portrait, large type, dark on white. Pure but for the font's file.

Days are columns; other groups, whose names are long, are rows. The font is DejaVu Sans, reduced to Latin,
Greek and Cyrillic characters; others are drawn as boxes.
"""

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.usage.palette import COLOURS, PAPER, ColourName

if TYPE_CHECKING:
    from PIL import Image, ImageFont

Box = tuple[float, float, float, float]
"""Pixels from the left and the top: left, top, right, bottom."""
ChartJson = Mapping[str, Any]
"""What `charts` builds: title, labels of the groups, panels of stacked values, notes at the end."""

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
_ROW_HEIGHT = 76  # pixels from one row to the next: its label, and its bar
_BAR_HEIGHT = 20
_BAR_OFFSET = 46  # pixels from a row's top to its bar
_GRID_LINES = 4  # at most
_LABEL_DAYS = 7  # days between two labels
_GAP = 2  # pixels of paper between two pieces
_HATCH_STEP = 9  # pixels from one line to the next
_MIN_CROSS = 6  # pixels
_MAX_CROSS = 26
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
        self._image = Image.new("RGB", (WIDTH, self._measure_height()), _BACKGROUND)
        self._draw = ImageDraw.Draw(self._image)
        self._hatch = Image.new("RGB", self._image.size, _BACKGROUND)
        lines = ImageDraw.Draw(self._hatch)
        for x in range(-self._image.height, WIDTH, _HATCH_STEP):
            end = (x + self._image.height, 0)
            lines.line((x, self._image.height, *end), COLOURS["wait"].light, 3)
        self._y = MARGIN

    def draw(self) -> "Image.Image":
        for line in _wrap(self._chart["title"], self._title_font):
            self._draw.text((MARGIN, self._y), line, _TEXT_COLOUR, self._title_font)
            self._y += _LINE + 10
        for panel in self._chart["panels"]:
            self._draw_panel(panel)
        for note in self._chart["notes"]:
            self._write_line(note)
        return self._image.crop((0, 0, WIDTH, self._y + MARGIN))

    def _measure_height(self) -> int:
        """At least the pixels that are needed; the picture is cropped at its end."""
        groups = len(self._chart["labels"])
        panel_height = max(self._panel_height, groups * _ROW_HEIGHT) + 16 * _LINE
        return 12 * _LINE + len(self._chart["panels"]) * panel_height

    def _write_line(self, text: str, colour: str = _MUTED_COLOUR) -> None:
        self._draw.text((MARGIN, self._y), text, colour, self._font)
        self._y += _LINE

    def _draw_panel(self, panel: ChartJson) -> None:
        self._y += 26
        total = f" · Σ {panel['total']}" if "total" in panel else ""
        self._write_line(panel["heading"] + total, _TEXT_COLOUR)
        sums = _sum_stacks(panel["stacks"], len(self._chart["labels"]))
        if not any(sums) and not panel["stacks"]:
            self._write_line("no seconds are known here")
        elif self._chart["is by day"]:
            self._draw_columns(panel, sums)
        else:
            self._draw_rows(panel, sums)
        if len(panel["stacks"]) > 1:
            self._draw_legend(panel["stacks"])

    def _draw_columns(self, panel: ChartJson, sums: Sequence[float]) -> None:
        labels = self._chart["labels"]
        top = self._y + 40  # space for a mark above the highest column
        bottom = top + self._panel_height
        left = MARGIN + _AXIS_WIDTH
        ticks = list_ticks(max(sums, default=0.0), are_whole=all(value.is_integer() for value in sums))
        scale = (bottom - top) / ticks[-1]
        for tick in ticks:
            y = bottom - tick * scale
            self._draw.line((left, y, WIDTH - MARGIN, y), _GRID_COLOUR, 2)
            self._draw.text((left - 16, y), f"{tick:,g}", _MUTED_COLOUR, self._font, anchor="rm")
        slot = (WIDTH - MARGIN - left) / len(labels)
        for index, label in enumerate(labels):
            middle = left + (index + 0.5) * slot
            half = slot * _COLUMN_SHARE / 2
            for stack, begin, end in _list_pieces(panel["stacks"], index):
                gap = _GAP if begin else 0
                box = (middle - half, bottom - end * scale, middle + half, bottom - begin * scale - gap)
                self._fill(box, stack["colour"])
            mark = _get_mark(panel, index)
            if index == len(labels) - 1:
                mark += _format_sum(panel, index, sums[index])
            self._write_inside(mark, middle, bottom - sums[index] * scale - 4, "mb")
            if (len(labels) - 1 - index) % _LABEL_DAYS == 0:
                self._draw.line((middle, bottom, middle, bottom + 10), _MUTED_COLOUR, 2)
                self._write_inside(label[5:], middle, bottom + 20, "mt")  # month and day
        self._y = bottom + 20 + _LINE

    def _write_inside(self, text: str, middle: float, y: float, anchor: str) -> None:
        """A text around `middle`, or as far left of it as the margin demands."""
        rightmost = WIDTH - MARGIN / 2 - self._font.getlength(text) / 2
        self._draw.text((min(middle, rightmost), y), text, _MUTED_COLOUR, self._font, anchor=anchor)

    def _draw_rows(self, panel: ChartJson, sums: Sequence[float]) -> None:
        scale = (WIDTH - 2 * MARGIN) / (max(sums, default=0.0) or 1.0)
        for index, label in enumerate(self._chart["labels"]):
            value = f"{_get_mark(panel, index)}{_format_sum(panel, index, sums[index])}"
            self._draw.text((WIDTH - MARGIN, self._y), value, _TEXT_COLOUR, self._font, anchor="ra")
            self._draw.text((MARGIN, self._y), label, _MUTED_COLOUR, self._font)
            y = self._y + _BAR_OFFSET
            for stack, begin, end in _list_pieces(panel["stacks"], index):
                gap = _GAP if begin else 0
                box = (MARGIN + begin * scale + gap, y, MARGIN + end * scale, y + _BAR_HEIGHT)
                self._fill(box, stack["colour"])
            self._y += _ROW_HEIGHT

    def _fill(self, box: Box, name: ColourName) -> None:
        """Fill a box with a colour of the palette; a wait is hatched, a fault bears a cross."""
        left, top = round(box[0]), round(box[1])
        right, bottom = max(left, round(box[2])), max(top, round(box[3]))
        colour = COLOURS[name].light
        if name == "wait":
            self._image.paste(self._hatch.crop((left, top, right, bottom)), (left, top))
            self._draw.rectangle((left, top, right, bottom), outline=colour)
            return
        self._draw.rectangle((left, top, right, bottom), colour)
        half = min(right - left, bottom - top, _MAX_CROSS) // 2 - 2
        if name == "fault" and half >= _MIN_CROSS // 2:
            x = (left + right) // 2
            y = (top + bottom) // 2
            self._draw.line((x - half, y - half, x + half, y + half), _BACKGROUND, 3)
            self._draw.line((x - half, y + half, x + half, y - half), _BACKGROUND, 3)

    def _draw_legend(self, stacks: Sequence[ChartJson]) -> None:
        """The names of the stacks beside their colours, in two columns."""
        for index, stack in enumerate(stacks):
            x = MARGIN + index % 2 * (WIDTH // 2 - MARGIN)
            y = self._y + index // 2 * _LINE
            self._fill((x, y + 6, x + 30, y + 36), stack["colour"])
            self._draw.text((x + 46, y), stack["name"], _MUTED_COLOUR, self._font)
        self._y += math.ceil(len(stacks) / 2) * _LINE


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


def _sum_stacks(stacks: Sequence[ChartJson], length: int) -> list[float]:
    return [math.fsum(stack["values"][index] or 0 for stack in stacks) for index in range(length)]


def _list_pieces(stacks: Sequence[ChartJson], index: int) -> list[tuple[ChartJson, float, float]]:
    """The stacks of which this group has something, each with the values where it begins and ends."""
    ends = [0.0]
    for stack in stacks:
        ends.append(ends[-1] + (stack["values"][index] or 0.0))
    pieces = zip(stacks, pairwise(ends), strict=True)
    return [(stack, begin, end) for stack, (begin, end) in pieces if end > begin]


def _get_mark(panel: ChartJson, index: int) -> str:
    if panel["at least"][index]:
        return "≥"
    if panel["stacks"][0]["values"][index] is None:
        return "?"
    return ""


def _format_sum(panel: ChartJson, index: int, value: float) -> str:
    if panel["stacks"][0]["values"][index] is None:
        return ""
    if value < 10:
        return f"{value:,.2g}"
    return f"{value:,.0f}"
