"""The arithmetic of measuring: percentiles, overlaps, limits and verdicts. Pure; knows no processes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Name = Literal["ours", "memory", "bare"]
Value = float | bool | None
"""A number, yes or no, or None where nothing was measured."""

ORDER: tuple[Name, ...] = ("bare", "memory", "ours")


@dataclass(frozen=True, slots=True)
class Limit:
    """What ours may be at most: `base` of a yardstick (None: no yardstick) times `factor`, and `extra`.

    `wanted` is for yes and no: then nothing else counts.
    """

    factor: float = 0.0
    base: float | None = None
    extra: float = 0.0
    wanted: bool | None = None
    words: str = ""

    @property
    def most(self) -> float:
        """The limit as a number in the row's unit."""
        return self.factor * (self.base or 0.0) + self.extra


@dataclass(frozen=True, slots=True)
class Row:
    """One line of figures. `key` is stable, for machines; `values` are of one unit."""

    key: str
    label: str
    unit: str
    values: dict[Name, Value]
    limit: Limit | None = None
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
        if self.limit.wanted is not None:
            if ours is self.limit.wanted:
                return "ok"
            return "over"
        if ours <= self.limit.most:
            return "ok"
        return "over"


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of a run, and its conditions as (name, text); not `whole`, if it was stopped before its
    end.
    """

    rows: tuple[Row, ...]
    conditions: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    whole: bool = True

    @property
    def holds(self) -> bool:
        """Whether no limit is missed."""
        return all(row.verdict != "over" for row in self.rows)


def at_most(most: float) -> Limit:
    """A limit of its own, whatever the yardsticks do."""
    return Limit(extra=most, words=f"{most:,g}")


def times(factor: float, base: float | None, extra: float = 0.0) -> Limit | None:
    """`factor` times the memory loop's figure and `extra`; no limit where that was not measured."""
    if base is None:
        return None
    return Limit(factor, base, extra, words=f"{factor:g} x memory" + (f" + {extra:g}" if extra else ""))


def wanted(*, value: bool) -> Limit:
    """The one right answer."""
    return Limit(wanted=value, words="yes" if value else "no")


def percentile(values: Iterable[float], share: float) -> float | None:
    """The value below which `share` (0 to 1) of them lie, between the two nearest; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Iterable[float]) -> float | None:
    """The middle one; None of nothing."""
    return percentile(values, 0.5)


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """How many of these (begin, end) overlap at most; one that ends as another begins does not overlap it."""
    moments = sorted((moment, step) for begin, end in spans for moment, step in ((begin, 1), (end, -1)))
    open_now = most = 0
    for _, step in moments:
        open_now += step
        most = max(most, open_now)
    return most


def rounds(names: Sequence[Name], count: int) -> list[tuple[Name, ...]]:
    """The order of `count` rounds: there and back again, so that a drift of the machine meets all alike."""
    forth = tuple(names)
    return [forth if number % 2 == 0 else forth[::-1] for number in range(count)]
