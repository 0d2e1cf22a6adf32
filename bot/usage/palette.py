"""The colours with which pages and pictures show what a turn's seconds went to. Pure.

What means the same looks the same everywhere. No set of hues is told apart by everybody, so waits are
hatched, too, and faults bear a cross.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from bot.usage.intervals import IntervalKind, column_name

TimeKind = Literal["wait", "canvas", "more", "tool", "delivery", "own", "fault"]
ColourName = Literal[TimeKind, "turn"]


class Colour(NamedTuple):
    """A colour on light paper, and the one for the same on dark paper."""

    light: str
    dark: str


PAPER = Colour("#ffffff", "#14181c")
COLOURS: Mapping[ColourName, Colour] = {
    "wait": Colour("#6b7580", "#9aa5b1"),
    "canvas": Colour("#143a76", "#3468c4"),
    "more": Colour("#5793ee", "#b4d2fb"),
    "tool": Colour("#d9701a", "#f0943d"),
    "delivery": Colour("#8a44b0", "#c98bee"),
    "own": Colour("#1b1f23", "#eef1f4"),
    "fault": Colour("#c0261e", "#ff6b60"),
    "turn": Colour("#57606a", "#9aa5b1"),
}
"""`turn` is for whole turns, which are of no kind."""

TIME_KIND_NAMES: Mapping[TimeKind, str] = {
    "wait": "waits",
    "canvas": "first text",
    "more": "further text",
    "tool": "tools",
    "delivery": "delivery",
    "own": "own work",
    "fault": "failures",
}
"""In the order in which they are drawn."""
TIME_KINDS: Mapping[IntervalKind, TimeKind] = {
    "intake": "own",
    "lane wait": "wait",
    "starting": "own",
    "preflight": "canvas",
    "seat wait": "wait",
    "server queue": "wait",
    "first canvas": "canvas",
    "further canvases": "more",
    "failed calls": "fault",
    "tools": "tool",
    "approval wait": "wait",
    "Telegram": "delivery",
    "back-off": "fault",
    "down": "fault",
    "own": "own",
}
INTERVAL_KINDS: Mapping[str, TimeKind] = {column_name(kind): time for kind, time in TIME_KINDS.items()}
"""The same by the names of the columns of accounts."""
_HATCH = "repeating-linear-gradient(135deg,var(--wait) 0 2px,transparent 2px 5px)"


def render_css() -> str:
    """Custom properties of CSS: the colours, such as `--canvas`, and as the background of waits `--hatch`."""
    light = "".join(f"--{name}:{colour.light};" for name, colour in COLOURS.items())
    dark = "".join(f"--{name}:{colour.dark};" for name, colour in COLOURS.items())
    return f":root{{{light}--hatch:{_HATCH}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
