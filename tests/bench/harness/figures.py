"""Figures of several bots and runs: their spread, overlaps, limits and verdicts. Pure; knows no processes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bot.bench.harness.statistics import median

BotName = Literal["ours", "memory", "bare"]
FigureValue = float | bool | None
"""A number, yes or no, or None where nothing was measured."""

BOT_ORDER: tuple[BotName, ...] = ("bare", "memory", "ours")


@dataclass(frozen=True, slots=True)
class FigureLimit:
    """What ours should be: at most or at least a number, a ratio to the memory loop's, or an answer."""

    kind: Literal["at most", "of memory loop", "at least", "answer"]
    value: float | bool

    def is_kept(self, ours: FigureValue, ratio: float | None) -> bool | None:
        """Whether ours is within the limit; None where nothing was measured."""
        figure = ratio if self.kind == "of memory loop" else ours
        if figure is None:
            return None
        if self.kind == "answer":
            return figure is self.value
        if self.kind == "at least":
            return figure >= self.value
        return figure <= self.value


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One line of figures of one run. `key` is stable, for machines; `values` share one unit."""

    key: str
    label: str
    unit: str
    values: Mapping[BotName, FigureValue]
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


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle, the lowest and the highest of some numbers."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Figure:
    """The same row of several runs: at least one."""

    runs: tuple[FigureRow, ...]

    @property
    def row(self) -> FigureRow:
        """The row of the first run, for what does not change: key, label, unit, limit."""
        return self.runs[0]

    @property
    def ratio(self) -> Spread | None:
        """The ratio to the memory loop, taken within each run."""
        return measure_spread(row.ratio for row in self.runs)

    @property
    def verdict(self) -> Literal["ok", "missed", ""]:
        """Whether the median of ours keeps its limit; empty where there is no limit or no figure."""
        if self.row.limit is None:
            return ""
        ratio = self.ratio
        is_kept = self.row.limit.is_kept(self.get_value("ours"), ratio.median if ratio else None)
        if is_kept is None:
            return ""
        return "ok" if is_kept else "missed"

    def get_value(self, name: BotName) -> FigureValue:
        """A bot's median, or its answer: of several runs one that is not as it should be, if there is one."""
        answers = [value for value in self._list_values(name) if isinstance(value, bool)]
        if answers:
            wanted = self.row.limit.value if self.row.limit else answers[0]
            return next((answer for answer in answers if answer is not wanted), answers[0])
        spread = self.get_spread(name)
        return spread.median if spread else None

    def get_spread(self, name: BotName) -> Spread | None:
        """The spread of a bot's numbers over the runs; None for answers, or where nothing was measured."""
        return measure_spread(value for value in self._list_values(name) if not isinstance(value, bool))

    def _list_values(self, name: BotName) -> list[FigureValue]:
        return [row.values.get(name) for row in self.runs]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """All figures, and their conditions as (name, text).

    `is_complete` is False if the measurement was stopped before its end. `failures`: of sections that have no
    figures therefore.
    """

    figures: tuple[Figure, ...]
    conditions: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    is_complete: bool = True
    failures: tuple[str, ...] = ()

    @property
    def has_passed(self) -> bool:
        """Whether every limit is kept."""
        return all(figure.verdict != "missed" for figure in self.figures)


def limit_to(maximum: float) -> FigureLimit:
    """A limit that does not depend on the baseline bots."""
    return FigureLimit("at most", maximum)


def limit_to_memory_loop(factor: float) -> FigureLimit:
    """At most `factor` times the memory loop's figure of the same run."""
    return FigureLimit("of memory loop", factor)


def require_at_least(minimum: float) -> FigureLimit:
    """The more, the better."""
    return FigureLimit("at least", minimum)


def require_answer(*, value: bool) -> FigureLimit:
    """The one right answer."""
    return FigureLimit("answer", value)


def merge_runs(rows: Iterable[FigureRow]) -> tuple[Figure, ...]:
    """One figure for all rows with the same key, in the order in which the keys came."""
    rows_by_key: dict[str, list[FigureRow]] = {}
    for row in rows:
        rows_by_key.setdefault(row.key, []).append(row)
    return tuple(Figure(tuple(runs)) for runs in rows_by_key.values())


def measure_spread(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that are there; None of none."""
    known = [value for value in values if value is not None]
    middle = median(known)
    if middle is None:
        return None
    return Spread(middle, min(known), max(known))


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
