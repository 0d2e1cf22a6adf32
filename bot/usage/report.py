"""A question to the ledger and its answer as pure data: a Report, an Entry a group, with sums and
percentiles.

Pure: sums of the database room in, figures out. How they look is figures.py's and charts.py's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar, get_args

from bot.db.usage.usage_sums import (
    DAY,
    AgainSums,
    AskedSums,
    CallSums,
    Key,
    Scope,
    Seconds,
    ServerSums,
    ToolSums,
    TurnSums,
)
from bot.usage.histogram import exactly, percentile

By = Literal["day", "chat", "user", "model", "tool", "purpose"]
Method = Literal["exact", "buckets"]

KINDS: tuple[Seconds, ...] = get_args(Seconds)
NO_TURN = "(no turn)"
EXACT = 20_000
"""Up to so many turns percentiles are taken from the turns themselves."""

T = TypeVar("T", CallSums, TurnSums)
S = TypeVar("S", ToolSums, AskedSums, AgainSums)
Durations = Mapping[tuple[Key, str], Sequence[float] | Mapping[int, int]]
"""By group and kind: durations in seconds, or counts by bucket."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a report is about; `by` None: everything together."""

    scope: Scope = field(default_factory=Scope)
    by: By | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """How durations of one kind are spread, in seconds, over the `count` that lasted at all."""

    count: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Tools:
    """Tool calls of a group: how many ended how (None: not ended), and the seconds of the `timed` ones."""

    calls: int = 0
    outcomes: Mapping[str | None, int] = field(default_factory=dict)
    timed: int = 0
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        """Calls that ended, and not well."""
        return self.calls - self.outcomes.get("ok", 0) - self.outcomes.get(None, 0)


@dataclass(frozen=True, slots=True)
class Asked:
    """Tool calls of a group about which a person was asked: how many were answered how (None: not yet), and
    the seconds those waited that were answered.
    """

    answers: Mapping[str | None, int] = field(default_factory=dict)
    waited: float = 0.0

    @property
    def calls(self) -> int:
        return sum(self.answers.values())


@dataclass(frozen=True, slots=True)
class Entry:
    """The figures of one group; None: not told apart by it. `again` counts calls by the reason they were made
    for.

    `asked` None: nobody was asked about a tool call of it.
    """

    key: Key
    label: str
    calls: CallSums | None = None
    turns: TurnSums | None = None
    tools: Tools | None = None
    asked: Asked | None = None
    again: Mapping[str, int] = field(default_factory=dict)
    spreads: Mapping[str, Spread] = field(default_factory=dict)

    @property
    def empty(self) -> int | None:
        """Replies that held nothing: those asked again for, and those that ended a turn."""
        if self.calls is None:
            return None
        return (
            self.again.get("empty", 0) + self.again.get("silent", 0) + (self.turns.empty if self.turns else 0)
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The answer: `whole` over everything in scope, `entries` a group each, none if nothing was to be told
    apart.

    `method` says how percentiles came to be; None: there are too many turns for this grouping.
    """

    question: Question
    whole: Entry
    entries: tuple[Entry, ...]
    server: ServerSums | None
    method: Method | None

    @property
    def shown(self) -> tuple[Entry, ...]:
        """What a table shows: the groups, or the whole."""
        return self.entries or (self.whole,)

    @property
    def is_empty(self) -> bool:
        calls = self.whole.calls
        tools = self.whole.tools
        turns = self.whole.turns.turns if self.whole.turns else 0
        return not turns and not (calls and calls.calls) and not (tools and tools.calls)


@dataclass(frozen=True, slots=True)
class Found:
    """What the database told for a question, group by group."""

    calls: Sequence[CallSums]
    again: Sequence[AgainSums]
    turns: Sequence[TurnSums]
    tools: Sequence[ToolSums]
    server: ServerSums | None = None
    durations: Durations = field(default_factory=dict)
    whole_durations: Durations = field(default_factory=dict)
    method: Method | None = "exact"
    asked: Sequence[AskedSums] = ()


def report(question: Question, found: Found) -> Report:
    """The report of what was found."""
    by = question.by
    turned = found.turns if by in {"day", "chat", "user"} else ()
    tooled = found.tools if by in {"day", "chat", "user", "tool"} else ()
    called = found.calls if by != "tool" else ()
    again = found.again if by != "tool" else ()
    spreads = _spreads(found.durations)
    calls_of = {one.key: one for one in called}
    turns_of = {one.key: one for one in turned}
    tools_of = _grouped(tooled)
    asked_of = _grouped(found.asked)
    again_of = _grouped(again)
    if by:
        keys = dict.fromkeys(one.key for some in (called, turned, tooled) for one in some)
    else:
        keys = {}
    entries = [
        Entry(
            key=key,
            label=label(by, key),
            calls=calls_of.get(key),
            turns=turns_of.get(key),
            tools=_tools(tools_of.get(key, ())) if tooled else None,
            asked=_asked(asked_of.get(key, ())) if tooled else None,
            again=_reasons(again_of.get(key, ())),
            spreads=spreads.get(key, {}),
        )
        for key in keys
    ]
    entries.sort(key=_by_day if by == "day" else _by_weight)
    return Report(question, _whole(found), tuple(entries), found.server, found.method)


def label(by: By | None, key: Key) -> str:
    """What a group is called."""
    if key is None:
        if by:
            return NO_TURN
        return "all"
    if by == "day":
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=int(key))).date().isoformat()
    return str(key)


def moment(seconds: float) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def today(now: float) -> float:
    """When the day of `now` began, in UTC."""
    return now - now % DAY


def _whole(found: Found) -> Entry:
    return Entry(
        key=None,
        label="all",
        calls=_added(found.calls),
        turns=_added(found.turns),
        tools=_tools(found.tools),
        asked=_asked(found.asked),
        again=_reasons(found.again),
        spreads=_spreads(found.whole_durations).get(None, {}),
    )


def _grouped(sums: Iterable[S]) -> dict[Key, list[S]]:
    groups: dict[Key, list[S]] = {}
    for one in sums:
        groups.setdefault(one.key, []).append(one)
    return groups


def _added(sums: Sequence[T]) -> T | None:
    """All groups as one."""
    if not sums:
        return None
    names = [one.name for one in fields(sums[0]) if one.name != "key"]
    values: dict[str, Any] = {name: _plus([getattr(one, name) for one in sums]) for name in names}
    return replace(sums[0], key=None, **values)


def _plus(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(sum(column) for column in zip(*values, strict=True))
    return sum(values)


def _tools(sums: Iterable[ToolSums]) -> Tools:
    outcomes: dict[str | None, int] = {}
    timed = 0
    seconds = 0.0
    for one in sums:
        outcomes[one.outcome] = outcomes.get(one.outcome, 0) + one.calls
        timed = timed + one.timed
        seconds = seconds + one.seconds
    return Tools(sum(outcomes.values()), outcomes, timed, seconds)


def _asked(sums: Sequence[AskedSums]) -> Asked | None:
    answers: dict[str | None, int] = {}
    for one in sums:
        answers[one.answer] = answers.get(one.answer, 0) + one.calls
    if answers:
        return Asked(answers, sum(one.waited for one in sums))
    return None


def _reasons(sums: Iterable[AgainSums]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for one in sums:
        reasons[one.again] = reasons.get(one.again, 0) + one.calls
    return reasons


def _spreads(durations: Durations) -> dict[Key, dict[str, Spread]]:
    spreads: dict[Key, dict[str, Spread]] = {}
    for (key, kind), found in durations.items():
        if found:
            spreads.setdefault(key, {})[kind] = _spread(found)
    return spreads


def _spread(found: Sequence[float] | Mapping[int, int]) -> Spread:
    if isinstance(found, Mapping):
        return Spread(sum(found.values()), *(percentile(found, share) for share in (0.5, 0.95, 0.99)))
    ordered = sorted(found)
    return Spread(len(ordered), *(exactly(ordered, share) for share in (0.5, 0.95, 0.99)))


def _by_day(entry: Entry) -> tuple[int, str]:
    if entry.key is None:
        return (1, "")
    return (0, entry.label)


def _by_weight(entry: Entry) -> tuple[int, int, str]:
    canvases = entry.calls.canvases if entry.calls else 0
    if entry.calls:
        calls = entry.calls.calls
    else:
        calls = entry.tools.calls if entry.tools else 0
    return -canvases, -calls, entry.label
