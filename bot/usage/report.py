"""A question to the ledger and its answer as pure data: a Report, an Entry a group, with sums and
percentiles.

Pure: sums of the database room in, figures out. How they look is figures.py's and charts.py's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar, get_args

from bot.db.usage.usage_sums import (
    DAY_SECONDS,
    ApprovalSums,
    BreakdownColumn,
    CallSums,
    GroupKey,
    RetrySums,
    Scope,
    ServerSums,
    ToolSums,
    TurnSums,
)
from bot.usage.histogram import exact_percentile, percentile

Grouping = Literal["day", "chat", "user", "model", "tool", "purpose"]
PercentileMethod = Literal["exact", "buckets"]

INTERVAL_COLUMNS: tuple[BreakdownColumn, ...] = get_args(BreakdownColumn)
NO_TURN_LABEL = "(no turn)"
MAX_EXACT_TURNS = 20_000
"""Up to so many turns percentiles are taken from the turns themselves."""

T = TypeVar("T", CallSums, TurnSums)
S = TypeVar("S", ToolSums, ApprovalSums, RetrySums)
Durations = Mapping[tuple[GroupKey, str], Sequence[float] | Mapping[int, int]]
"""By group and kind: durations in seconds, or counts by bucket."""


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What a report is about; `by` None: everything together."""

    scope: Scope = field(default_factory=Scope)
    by: Grouping | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How durations of one kind are spread, in seconds, over the `count` that lasted at all."""

    count: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class ToolUsage:
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
class ApprovalCounts:
    """Tool calls of a group about which a person was asked: how many were answered how (None: not yet), and
    the seconds those waited that were answered.
    """

    answers: Mapping[str | None, int] = field(default_factory=dict)
    waited_seconds: float = 0.0

    @property
    def calls(self) -> int:
        return sum(self.answers.values())


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """The figures of one group; None: not told apart by it. `again` counts calls by the reason they were made
    for.

    `asked` None: nobody was asked about a tool call of it.
    """

    key: GroupKey
    label: str
    calls: CallSums | None = None
    turns: TurnSums | None = None
    tools: ToolUsage | None = None
    approvals: ApprovalCounts | None = None
    retries_by_reason: Mapping[str, int] = field(default_factory=dict)
    percentiles: Mapping[str, Percentiles] = field(default_factory=dict)

    @property
    def empty_replies(self) -> int | None:
        """Replies that held nothing: those asked again for, and those that ended a turn."""
        if self.calls is None:
            return None
        return (
            self.retries_by_reason.get("empty", 0)
            + self.retries_by_reason.get("silent", 0)
            + (self.turns.empty if self.turns else 0)
        )


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The answer: `whole` over everything in scope, `entries` a group each, none if nothing was to be told
    apart.

    `method` says how percentiles came to be; None: there are too many turns for this grouping.
    """

    query: ReportQuery
    total: ReportGroup
    groups: tuple[ReportGroup, ...]
    server: ServerSums | None
    percentile_method: PercentileMethod | None

    @property
    def shown_groups(self) -> tuple[ReportGroup, ...]:
        """What a table shows: the groups, or the whole."""
        return self.groups or (self.total,)

    @property
    def is_empty(self) -> bool:
        calls = self.total.calls
        tools = self.total.tools
        turns = self.total.turns.turns if self.total.turns else 0
        return not turns and not (calls and calls.calls) and not (tools and tools.calls)


@dataclass(frozen=True, slots=True)
class ReportSums:
    """What the database told for a question, group by group."""

    calls: Sequence[CallSums]
    again: Sequence[RetrySums]
    turns: Sequence[TurnSums]
    tools: Sequence[ToolSums]
    server: ServerSums | None = None
    durations: Durations = field(default_factory=dict)
    whole_durations: Durations = field(default_factory=dict)
    method: PercentileMethod | None = "exact"
    asked: Sequence[ApprovalSums] = ()


def build_report(query: ReportQuery, sums: ReportSums) -> UsageReport:
    """The report of what was found."""
    by = query.by
    turned = sums.turns if by in {"day", "chat", "user"} else ()
    tooled = sums.tools if by in {"day", "chat", "user", "tool"} else ()
    called = sums.calls if by != "tool" else ()
    again = sums.again if by != "tool" else ()
    spreads = _compute_percentiles(sums.durations)
    calls_of = {one.key: one for one in called}
    turns_of = {one.key: one for one in turned}
    tools_of = _group_by_key(tooled)
    asked_of = _group_by_key(sums.asked)
    again_of = _group_by_key(again)
    if by:
        keys = dict.fromkeys(one.key for some in (called, turned, tooled) for one in some)
    else:
        keys = {}
    entries = [
        ReportGroup(
            key=key,
            label=group_label(by, key),
            calls=calls_of.get(key),
            turns=turns_of.get(key),
            tools=_sum_tools(tools_of.get(key, ())) if tooled else None,
            approvals=_sum_approvals(asked_of.get(key, ())) if tooled else None,
            retries_by_reason=_sum_retries(again_of.get(key, ())),
            percentiles=spreads.get(key, {}),
        )
        for key in keys
    ]
    entries.sort(key=_day_sort_key if by == "day" else _weight_sort_key)
    return UsageReport(query, _build_total(sums), tuple(entries), sums.server, sums.method)


def group_label(by: Grouping | None, key: GroupKey) -> str:
    """What a group is called."""
    if key is None:
        if by:
            return NO_TURN_LABEL
        return "all"
    if by == "day":
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=int(key))).date().isoformat()
    return str(key)


def format_utc(seconds: float) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def start_of_day(now: float) -> float:
    """When the day of `now` began, in UTC."""
    return now - now % DAY_SECONDS


def _build_total(sums: ReportSums) -> ReportGroup:
    return ReportGroup(
        key=None,
        label="all",
        calls=_add_groups(sums.calls),
        turns=_add_groups(sums.turns),
        tools=_sum_tools(sums.tools),
        approvals=_sum_approvals(sums.asked),
        retries_by_reason=_sum_retries(sums.again),
        percentiles=_compute_percentiles(sums.whole_durations).get(None, {}),
    )


def _group_by_key(sums: Iterable[S]) -> dict[GroupKey, list[S]]:
    groups: dict[GroupKey, list[S]] = {}
    for one in sums:
        groups.setdefault(one.key, []).append(one)
    return groups


def _add_groups(sums: Sequence[T]) -> T | None:
    """All groups as one."""
    if not sums:
        return None
    names = [one.name for one in fields(sums[0]) if one.name != "key"]
    values: dict[str, Any] = {name: _add_values([getattr(one, name) for one in sums]) for name in names}
    return replace(sums[0], key=None, **values)


def _add_values(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(sum(column) for column in zip(*values, strict=True))
    return sum(values)


def _sum_tools(sums: Iterable[ToolSums]) -> ToolUsage:
    outcomes: dict[str | None, int] = {}
    timed = 0
    seconds = 0.0
    for one in sums:
        outcomes[one.outcome] = outcomes.get(one.outcome, 0) + one.calls
        timed = timed + one.timed
        seconds = seconds + one.seconds
    return ToolUsage(sum(outcomes.values()), outcomes, timed, seconds)


def _sum_approvals(sums: Sequence[ApprovalSums]) -> ApprovalCounts | None:
    answers: dict[str | None, int] = {}
    for one in sums:
        answers[one.answer] = answers.get(one.answer, 0) + one.calls
    if answers:
        return ApprovalCounts(answers, sum(one.waited for one in sums))
    return None


def _sum_retries(sums: Iterable[RetrySums]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for one in sums:
        reasons[one.again] = reasons.get(one.again, 0) + one.calls
    return reasons


def _compute_percentiles(durations: Durations) -> dict[GroupKey, dict[str, Percentiles]]:
    spreads: dict[GroupKey, dict[str, Percentiles]] = {}
    for (key, kind), found in durations.items():
        if found:
            spreads.setdefault(key, {})[kind] = _percentiles_of(found)
    return spreads


def _percentiles_of(durations: Sequence[float] | Mapping[int, int]) -> Percentiles:
    if isinstance(durations, Mapping):
        return Percentiles(
            sum(durations.values()), *(percentile(durations, share) for share in (0.5, 0.95, 0.99))
        )
    ordered = sorted(durations)
    return Percentiles(len(ordered), *(exact_percentile(ordered, share) for share in (0.5, 0.95, 0.99)))


def _day_sort_key(group: ReportGroup) -> tuple[int, str]:
    if group.key is None:
        return (1, "")
    return (0, group.label)


def _weight_sort_key(group: ReportGroup) -> tuple[int, int, str]:
    canvases = group.calls.canvases if group.calls else 0
    if group.calls:
        calls = group.calls.calls
    else:
        calls = group.tools.calls if group.tools else 0
    return -canvases, -calls, group.label
