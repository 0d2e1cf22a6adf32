"""The seconds of a turn as a small stacked bar, on the scale of the list that it stands in. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import htpy as h

from bot.admin.components import format_duration
from bot.admin.svg_chart import FAULT_MARK, draw_piece, show_legend
from bot.usage.intervals import INTERVAL_LABELS, list_intervals
from bot.usage.palette import TIME_KIND_NAMES, TIME_KINDS

_WIDTH = 84
_HEIGHT = 12
_MARGIN = 10  # behind the longest bar, for a mark
_OUTLIER_FACTOR = 1.5  # so much longer than nine of ten, and it does not set the scale


def choose_scale(turns: Iterable[Mapping[str, float]]) -> float:
    """The seconds of a full bar: of the longest turn, or less if a few are far longer than the others."""
    wholes = sorted(turn["whole"] for turn in turns if turn)
    if not wholes:
        return 1.0
    return max(0.001, min(wholes[-1], _OUTLIER_FACTOR * wholes[len(wholes) * 9 // 10]))


def draw_turn_bar(seconds: Mapping[str, float], scale: float) -> h.Node:
    """The bar of an account by column; nothing without one."""
    if not seconds:
        return None
    text = describe_seconds(seconds)
    return h.svg(".bar", role="img", aria_label=text, viewBox=f"0 0 {_WIDTH} {_HEIGHT}")[
        h.title[text], _draw_pieces(seconds, (_WIDTH - _MARGIN) / scale)
    ]


def _draw_pieces(seconds: Mapping[str, float], pixels_a_second: float) -> Iterator[h.Element]:
    begin = 0.0
    limit = _WIDTH - _MARGIN
    has_fault = False
    for kind, intervals in groupby(list_intervals(seconds), key=lambda interval: TIME_KINDS[interval[0]]):
        end = begin + pixels_a_second * sum(value for _, value in intervals)
        if begin < limit:
            yield draw_piece(kind, begin, 1, min(end, limit) - begin, _HEIGHT - 2)
        has_fault = has_fault or kind == "fault"
        begin = end
    if begin > limit + 0.5:
        yield h.text(x=str(limit + 1), y=str(_HEIGHT - 2))["›"]
    elif has_fault:
        yield h.text(".fault", x=f"{begin + 1:.1f}", y=str(_HEIGHT - 2))[FAULT_MARK]


def describe_seconds(seconds: Mapping[str, float]) -> str:
    """The intervals of an account as a sum."""
    parts = (f"{INTERVAL_LABELS[kind]} {format_duration(value)}" for kind, value in list_intervals(seconds))
    return f"{' + '.join(parts)} = {format_duration(seconds['whole'])}"


def show_bar_legend(turns: Iterable[Mapping[str, float]], scale: float) -> h.Node:
    """What the colours of bars mean, of those that occur, and how long the longest bar is."""
    known = [turn for turn in turns if turn]
    if not known:
        return None
    used = (TIME_KINDS[interval] for turn in known for interval, _ in list_intervals(turn))
    return show_legend(TIME_KIND_NAMES.items(), used, f"A full bar is {format_duration(scale)}; › is longer.")
