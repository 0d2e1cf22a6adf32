"""The arithmetic of measuring: percentiles, overlaps, limits and verdicts. Pure; knows no processes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

BotName = Literal["ours", "memory", "bare"]
FigureValue = float | bool | None
"""A number, yes or no, or None where nothing was measured."""

BOT_ORDER: tuple[BotName, ...] = ("bare", "memory", "ours")


@dataclass(frozen=True, slots=True)
class FigureLimit:
    """What ours may be at most: `factor` times `base`, plus `extra`.

    `base` is the figure of a baseline bot (None: no base).
    `required` is for yes and no: then nothing else counts.
    """

    factor: float = 0.0
    base: float | None = None
    extra: float = 0.0
    required: bool | None = None
    text: str = ""

    @property
    def maximum(self) -> float:
        """The limit as a number in the row's unit."""
        return self.factor * (self.base or 0.0) + self.extra


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One line of figures. `key` is stable, for machines; `values` share one unit."""

    key: str
    label: str
    unit: str
    values: dict[BotName, FigureValue]
    limit: FigureLimit | None = None
    digits: int = 1

    @property
    def ratio(self) -> float | None:
        """Ours divided by the memory loop's; None for yes and no, or where one of the two is missing."""
        ours = self.values.get("ours")
        memory = self.values.get("memory")
        if isinstance(ours, bool) or isinstance(memory, bool) or ours is None or not memory:
            return None
        return ours / memory

    @property
    def verdict(self) -> Literal["ok", "over", ""]:
        """Whether ours keeps its limit; empty where there is no limit or no figure."""
        ours = self.values.get("ours")
        if self.limit is None or ours is None:
            return ""
        if self.limit.required is not None:
            is_kept = ours is self.limit.required
        else:
            is_kept = ours <= self.limit.maximum
        return "ok" if is_kept else "over"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """All figures of a run, and its conditions as (name, text).

    `is_complete` is False if the run was stopped before its end.
    """

    rows: tuple[FigureRow, ...]
    conditions: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    is_complete: bool = True

    @property
    def has_passed(self) -> bool:
        """Whether every limit is kept."""
        return all(row.verdict != "over" for row in self.rows)


def limit_to(maximum: float) -> FigureLimit:
    """An absolute limit, whatever the baseline bots do."""
    return FigureLimit(extra=maximum, text=f"{maximum:,g}")


def limit_to_memory_loop(factor: float, base: float | None, extra: float = 0.0) -> FigureLimit | None:
    """`factor` times the memory loop's figure plus `extra`; no limit where that was not measured."""
    if base is None:
        return None
    text = f"{factor:g} x memory"
    if extra:
        text = f"{text} + {extra:g}"
    return FigureLimit(factor, base, extra, text=text)


def limit_to_answer(*, value: bool) -> FigureLimit:
    """The one right answer."""
    return FigureLimit(required=value, text="yes" if value else "no")


def percentile(values: Iterable[float], fraction: float) -> float | None:
    """The value below which `fraction` (0 to 1) of them lie, interpolated; None for no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Iterable[float]) -> float | None:
    """The middle value; None for no values."""
    return percentile(values, 0.5)


def count_overlap(spans: Iterable[tuple[float, float]]) -> int:
    """How many of these (begin, end) overlap at most; one that ends as another begins does not overlap it."""
    moments = sorted((moment, step) for begin, end in spans for moment, step in ((begin, 1), (end, -1)))
    open_count = 0
    max_count = 0
    for _, step in moments:
        open_count += step
        max_count = max(max_count, open_count)
    return max_count


def order_rounds(bot_names: Sequence[BotName], count: int) -> list[tuple[BotName, ...]]:
    """The order of `count` rounds: forwards, then backwards.

    So drift of the machine affects all bots alike.
    """
    forwards = tuple(bot_names)
    return [forwards if number % 2 == 0 else forwards[::-1] for number in range(count)]
