"""The palette is seen on light and dark paper, and told apart by eyes that lack a kind of cone."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest

from bot.usage.intervals import INTERVAL_ORDER
from bot.usage.palette import COLOURS, PAPER, TIME_KIND_NAMES, TIME_KINDS, render_css

MIN_CONTRAST = 3.0  # of graphics to what is behind them: WCAG 2.2, 1.4.11
MIN_DIFFERENCE = 14.0  # CIE76, of neighbours on a bar
Matrix = tuple[tuple[float, ...], ...]
# Machado, Oliveira and Fernandes 2009, severity 1; applied to linear RGB.
EYES: dict[str, Matrix] = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
FORMER_PICTURE = {"canvas": "#59a14f", "fault": "#e15759", "tool": "#b07aa1", "delivery": "#499894"}


def linearize(colour: str) -> list[float]:
    """Linear red, green and blue of `#rrggbb`."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]


def measure_contrast(left: str, right: str) -> float:
    """The contrast of WCAG 2."""
    weights = (0.2126, 0.7152, 0.0722)
    lights = [sum(w * c for w, c in zip(weights, linearize(colour), strict=True)) for colour in (left, right)]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def to_lab(colour: str, matrix: Matrix) -> tuple[float, float, float]:
    """CIELAB of a colour as it is seen by eyes, under D65."""
    rgb = linearize(colour)
    seen = [min(1.0, max(0.0, sum(m * c for m, c in zip(row, rgb, strict=True)))) for row in matrix]
    red, green, blue = seen
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def list_confused(colours: Mapping[Any, str]) -> set[tuple[str, str, str]]:
    """Pairs of names that some eyes do not tell apart, with these eyes."""
    confused = set()
    for eyes, matrix in EYES.items():
        seen = {name: to_lab(colour, matrix) for name, colour in colours.items()}
        for left, right in combinations(sorted(seen), 2):
            distance = sum((a - b) ** 2 for a, b in zip(seen[left], seen[right], strict=True)) ** 0.5
            if distance < MIN_DIFFERENCE:
                confused.add((left, right, eyes))
    return confused


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_every_colour_is_seen_on_its_paper(paper: str):
    for name, colour in COLOURS.items():
        assert measure_contrast(getattr(colour, paper), getattr(PAPER, paper)) >= MIN_CONTRAST, name


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_whatever_is_side_by_side_on_a_bar_is_told_apart_by_everybody(paper: str):
    """Any two kinds may be neighbours, for what took no time is left out."""
    plain = {kind: getattr(COLOURS[kind], paper) for kind in TIME_KIND_NAMES if kind not in {"wait", "fault"}}
    assert list_confused(plain) == set()


def test_the_palette_that_pictures_had_would_not_pass():
    assert ("canvas", "fault", "deuteranopia") in list_confused(FORMER_PICTURE)
    assert measure_contrast("#e5b72f", PAPER.light) < MIN_CONTRAST


def test_every_interval_has_a_kind_and_every_kind_a_colour_in_the_style():
    assert set(TIME_KINDS) == set(INTERVAL_ORDER)
    assert set(TIME_KINDS.values()) == set(TIME_KIND_NAMES)
    light, dark = render_css().split("@media")
    for name, colour in COLOURS.items():
        assert f"--{name}:{colour.light};" in light
        assert f"--{name}:{colour.dark};" in dark
