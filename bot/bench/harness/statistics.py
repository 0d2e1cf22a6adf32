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
    """What ours may be at most: `base` of a yardstick (None: no yardstick) times `factor`, and `extra`.

    `wanted` is for yes and no: then nothing else counts.
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
    """One line of figures. `key` is stable, for machines; `values` are of one unit."""

    key: str
    label: str
    unit: str
    values: dict[BotName, FigureValue]
    limit: FigureLimit | None = None
    digits: int = 1

    @property
    def ratio(self) -> float | None:
        """Ours in terms of the memory loop; None for yes and no, or where one of the two is missing."""
        ours = self.values.get("ours")
        memory = self.values.get("memory")
        if isinstance(ours, bool) or isinstance(memory, bool) or ours is None or not memory:
            return None
        return ours / memory

    @property
    def verdict(self) -> Literal["ok", "over", ""]:
        """Whether ours keeps its limit; nothing where there is no limit or no figure."""
        ours = self.values.get("ours")
        if self.limit is None or ours is None:
            return ""
        if self.limit.required is not None:
            if ours is self.limit.required:
                return "ok"
            return "over"
        if ours <= self.limit.maximum:
            return "ok"
        return "over"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """All figures of a run, and its conditions as (name, text); not `whole`, if it was stopped before its
    end.
    """

    rows: tuple[FigureRow, ...]
    conditions: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    is_complete: bool = True

    @property
    def has_passed(self) -> bool:
        """Whether no limit is missed."""
        return all(row.verdict != "over" for row in self.rows)


def limit_to(maximum: float) -> FigureLimit:
    """A limit of its own, whatever the yardsticks do."""
    return FigureLimit(extra=maximum, text=f"{maximum:,g}")


def limit_to_memory_loop(factor: float, base: float | None, extra: float = 0.0) -> FigureLimit | None:
    """`factor` times the memory loop's figure and `extra`; no limit where that was not measured."""
    if base is None:
        return None
    return FigureLimit(factor, base, extra, text=f"{factor:g} x memory" + (f" + {extra:g}" if extra else ""))


def limit_to_answer(*, value: bool) -> FigureLimit:
    """The one right answer."""
    return FigureLimit(required=value, text="yes" if value else "no")


def percentile(values: Iterable[float], fraction: float) -> float | None:
    """The value below which `share` (0 to 1) of them lie, between the two nearest; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = fraction * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Iterable[float]) -> float | None:
    """The middle one; None of nothing."""
    return percentile(values, 0.5)


def count_overlap(spans: Iterable[tuple[float, float]]) -> int:
    """How many of these (begin, end) overlap at most; one that ends as another begins does not overlap it."""
    moments = sorted((moment, step) for begin, end in spans for moment, step in ((begin, 1), (end, -1)))
    open_now = most = 0
    for _, step in moments:
        open_now += step
        most = max(most, open_now)
    return most


def order_rounds(bot_names: Sequence[BotName], count: int) -> list[tuple[BotName, ...]]:
    """The order of `count` rounds: there and back again, so that a drift of the machine meets all alike."""
    forth = tuple(bot_names)
    return [forth if number % 2 == 0 else forth[::-1] for number in range(count)]
