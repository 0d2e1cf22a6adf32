"""The figures of `canvasgram report` and /usage: the question, a row a group, sums and percentiles.

Pure: sums of the database in, figures out. `tables`, `json_records` and `charts` decide how they look.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar, get_args

from bot.canvases import CANVASES, OutputUnit
from bot.db.usage.thinking_sums import ThinkingSums
from bot.db.usage.usage_sums import (
    ApprovalSums,
    BreakdownColumn,
    CallSums,
    GroupKey,
    RetrySums,
    Scope,
    ServerSums,
    ToolSums,
    TurnCounts,
    TurnSums,
)
from bot.db.usage.verdict_sums import VerdictSums

Grouping = Literal["day", "hour", "chat", "user", "thinking", "model", "tool", "purpose", "user-model"]
PercentileMethod = Literal["exact", "sample"]
TIME_GROUPINGS = frozenset({"day", "hour"})

INTERVAL_COLUMNS: tuple[BreakdownColumn, ...] = get_args(BreakdownColumn)
NO_TURN_LABEL = "(no turn)"
MAX_EXACT_TURNS = 20_000
"""Up to this many turns, percentiles are computed from the turns themselves."""
SAMPLED_TURNS = 5_000
"""Of more, so many are looked at: 95 % of such samples find a p95 from p94.4 to p95.6."""
_TURN_GROUPINGS = {
    "day",
    "hour",
    "chat",
    "user",
    "thinking",
}  # a turn has one of each, but may ask several models
_TOOL_GROUPINGS = {*_TURN_GROUPINGS, "tool"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

AddableSums = TypeVar("AddableSums", CallSums, TurnCounts)
KeyedSums = TypeVar("KeyedSums", ToolSums, ApprovalSums, RetrySums)
Durations = Mapping[tuple[GroupKey, str], Sequence[float]]
"""By group and interval: durations in seconds."""


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What a report is about; `by` None: everything together."""

    scope: Scope = field(default_factory=Scope)
    by: Grouping | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How long one interval takes, in seconds, over the `count` turns in which it occurred, and in all."""

    count: int
    total: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """Tool calls of a group: counts by outcome (None: not ended), and the seconds of the `timed` ones.

    `refusals` counts the refused ones by their reason (None: unknown).
    """

    calls: int = 0
    outcomes: Mapping[str | None, int] = field(default_factory=dict)
    timed: int = 0
    seconds: float = 0.0
    refusals: Mapping[str | None, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Calls that ended with another outcome than ok."""
        return self.calls - self.outcomes.get("ok", 0) - self.outcomes.get(None, 0)

    @property
    def refused(self) -> int:
        """Calls that were not run."""
        return self.outcomes.get("refused", 0)

    @property
    def malformed(self) -> int:
        """Calls that were not run because of their arguments, among the refused ones of a known reason."""
        return self.refusals.get("arguments", 0)


@dataclass(frozen=True, slots=True)
class ApprovalCounts:
    """Tool calls of a group that needed a person's approval.

    `answers` counts them by the answer (None: none yet); `waited_seconds` is over those that were answered.
    """

    answers: Mapping[str | None, int] = field(default_factory=dict)
    waited_seconds: float = 0.0

    @property
    def calls(self) -> int:
        return sum(self.answers.values())


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """The figures of one group. None where this grouping cannot separate them.

    `can_hold_turns` is False by model, purpose and tool: a turn may belong to several of them. `approvals` is
    None, too, if no tool call of the group needed one. `thinking` is None unless it is grouped by thinking,
    and `verdicts` if nobody has judged an answer of the group.
    """

    key: GroupKey
    label: str
    calls: CallSums | None = None
    turns: TurnCounts | None = None
    tools: ToolUsage | None = None
    approvals: ApprovalCounts | None = None
    retries_by_reason: Mapping[str, int] = field(default_factory=dict)
    percentiles: Mapping[str, Percentiles] = field(default_factory=dict)
    thinking: ThinkingSums | None = None
    verdicts: VerdictSums | None = None
    can_hold_turns: bool = True

    @property
    def turn_sums(self) -> TurnSums | None:
        """The sums of its turns; None if it has none, or they are only counted."""
        return self.turns if isinstance(self.turns, TurnSums) else None

    @property
    def empty_replies(self) -> int | None:
        """Replies without content: those that were requested again, and those that ended a turn.

        None by model and by purpose, where the turns that ended so belong to no group, and of turns that are
        only counted.
        """
        is_only_counted = self.turns is not None and self.turn_sums is None
        if self.calls is None or is_only_counted or not self.can_hold_turns:
            return None
        count = self.retries_by_reason.get("empty", 0) + self.retries_by_reason.get("silent", 0)
        if self.turn_sums is not None:
            count += self.turn_sums.empty
        return count


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The answer to a query: the total of everything in scope, and the groups (none without a grouping).

    `percentile_method` None: there is too much for percentiles. Only "exact" ones are known by group, too.
    `output_unit`: what it is told in.
    """

    query: ReportQuery
    total: ReportGroup
    groups: tuple[ReportGroup, ...]
    server: ServerSums | None
    percentile_method: PercentileMethod | None
    output_unit: OutputUnit = CANVASES

    @property
    def shown_groups(self) -> tuple[ReportGroup, ...]:
        """The rows of a table: the groups, or the total."""
        return self.groups or (self.total,)

    @property
    def is_empty(self) -> bool:
        calls = self.total.calls
        tools = self.total.tools
        turns = self.total.turns
        return not (turns and turns.turns) and not (calls and calls.calls) and not (tools and tools.calls)


@dataclass(frozen=True, slots=True)
class ReportSums:
    """What the database returns for a query, group by group; `total_durations` of everything together."""

    calls: Sequence[CallSums] = ()
    retries: Sequence[RetrySums] = ()
    turns: Sequence[TurnCounts] = ()
    tools: Sequence[ToolSums] = ()
    server: ServerSums | None = None
    durations: Durations = field(default_factory=dict)
    total_durations: Durations = field(default_factory=dict)
    percentile_method: PercentileMethod | None = "exact"
    output_unit: OutputUnit = CANVASES
    approvals: Sequence[ApprovalSums] = ()
    thinking: Sequence[ThinkingSums] = ()
    verdicts: Sequence[VerdictSums] = ()
    all_verdicts: Sequence[VerdictSums] = ()


def build_report(query: ReportQuery, sums: ReportSums) -> UsageReport:
    """The report of these sums; days and hours in order, other groups with the most canvases first."""
    groups = []
    if query.by in TIME_GROUPINGS:
        groups = sorted(_build_groups(query.by, sums), key=_time_sort_key)
    elif query.by is not None:
        groups = sorted(_build_groups(query.by, sums), key=_canvas_sort_key)
    total = _build_total(sums)
    return UsageReport(query, total, tuple(groups), sums.server, sums.percentile_method, sums.output_unit)


def group_label(by: Grouping | None, key: GroupKey) -> str:
    """What a group is called."""
    if by is None:
        return "all"
    if key is None:
        return NO_TURN_LABEL
    if by == "thinking":
        return "on" if key else "off"
    if by == "day":
        return (_EPOCH + timedelta(days=int(key))).date().isoformat()
    if by == "hour":
        return (_EPOCH + timedelta(hours=int(key))).strftime("%Y-%m-%d %H:%M")
    return str(key)


def name_people(report: UsageReport, names: Mapping[int, str]) -> UsageReport:
    """The report with names beside the numbers of people and chats."""
    if report.query.by not in {"user", "chat", "user-model"}:
        return report
    groups = (replace(group, label=_name_group(group.label, names)) for group in report.groups)
    return replace(report, groups=tuple(groups))


def _name_group(label: str, names: Mapping[int, str]) -> str:
    number, space, model = label.partition(" ")  # a model only where they are grouped by both
    return f"{format_person(number, names)}{space}{model}"


def format_person(number: str, names: Mapping[int, str]) -> str:
    """A person or a lane of a chat, such as `Ann (12:3)`; the number alone if it has no name."""
    name = None
    if re.fullmatch(r"-?\d{1,20}(:\d{1,20})?", number, re.ASCII):
        name = names.get(int(number.partition(":")[0]))
    if name is None:
        return number
    return f"{name} ({number})"


def _build_groups(by: Grouping, sums: ReportSums) -> list[ReportGroup]:
    """The groups in any order; what this grouping cannot separate is left out of them."""
    if by == "tool":
        sums = replace(sums, calls=(), retries=())
    if by not in _TURN_GROUPINGS:
        sums = replace(sums, turns=())
    if by not in _TOOL_GROUPINGS:
        sums = replace(sums, tools=(), approvals=())
    calls_by_key = {call_sums.key: call_sums for call_sums in sums.calls}
    turns_by_key = {turn_sums.key: turn_sums for turn_sums in sums.turns}
    tools_by_key = _group_by_key(sums.tools)
    approvals_by_key = _group_by_key(sums.approvals)
    retries_by_key = _group_by_key(sums.retries)
    percentiles_by_key = _compute_percentiles(sums.durations)
    verdicts_by_key = {verdict_sums.key: verdict_sums for verdict_sums in sums.verdicts}
    thinking_by_key = {thinking_sums.thinking: thinking_sums for thinking_sums in sums.thinking}
    return [
        ReportGroup(
            key=key,
            label=group_label(by, key),
            calls=calls_by_key.get(key),
            turns=turns_by_key.get(key),
            tools=_sum_tools(tools_by_key.get(key, ())) if tools_by_key else None,
            approvals=_sum_approvals(approvals_by_key.get(key, ())),
            retries_by_reason=_sum_retries(retries_by_key.get(key, ())),
            percentiles=percentiles_by_key.get(key, {}),
            thinking=thinking_by_key.get(bool(key)) if key is not None else None,
            verdicts=verdicts_by_key.get(key) if key is not None else None,
            can_hold_turns=by in _TURN_GROUPINGS,
        )
        for key in {**calls_by_key, **turns_by_key, **tools_by_key}
    ]


def _build_total(sums: ReportSums) -> ReportGroup:
    return ReportGroup(
        key=None,
        label="all",
        calls=_add_groups(sums.calls),
        turns=_add_groups(sums.turns),
        tools=_sum_tools(sums.tools),
        approvals=_sum_approvals(sums.approvals),
        retries_by_reason=_sum_retries(sums.retries),
        percentiles=_compute_percentiles(sums.total_durations).get(None, {}),
        verdicts=next(iter(sums.all_verdicts), None),
    )


def _group_by_key(sums: Iterable[KeyedSums]) -> dict[GroupKey, list[KeyedSums]]:
    groups: dict[GroupKey, list[KeyedSums]] = {}
    for keyed_sums in sums:
        groups.setdefault(keyed_sums.key, []).append(keyed_sums)
    return groups


def _add_groups(sums: Sequence[AddableSums]) -> AddableSums | None:
    """The sums of all groups together, under no key; None if there is no group."""
    if not sums:
        return None
    columns = [sums_field.name for sums_field in fields(sums[0]) if sums_field.name != "key"]
    totals: dict[str, Any] = {
        column: _add_values([getattr(group_sums, column) for group_sums in sums]) for column in columns
    }
    return replace(sums[0], key=None, **totals)


def _add_values(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(sum(column) for column in zip(*values, strict=True))
    return sum(values)


def _sum_tools(sums: Iterable[ToolSums]) -> ToolUsage:
    outcomes: dict[str | None, int] = {}
    refusals: dict[str | None, int] = {}
    timed = 0
    seconds = 0.0
    for tool_sums in sums:
        outcomes[tool_sums.outcome] = outcomes.get(tool_sums.outcome, 0) + tool_sums.calls
        if tool_sums.outcome == "refused":
            refusals[tool_sums.refusal] = refusals.get(tool_sums.refusal, 0) + tool_sums.calls
        timed += tool_sums.timed
        seconds += tool_sums.seconds
    return ToolUsage(sum(outcomes.values()), outcomes, timed, seconds, refusals)


def _sum_approvals(sums: Sequence[ApprovalSums]) -> ApprovalCounts | None:
    answers: dict[str | None, int] = {}
    for approval_sums in sums:
        answers[approval_sums.answer] = answers.get(approval_sums.answer, 0) + approval_sums.calls
    if not answers:
        return None
    return ApprovalCounts(answers, sum(approval_sums.waited for approval_sums in sums))


def _sum_retries(sums: Iterable[RetrySums]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for retry_sums in sums:
        reasons[retry_sums.again] = reasons.get(retry_sums.again, 0) + retry_sums.calls
    return reasons


def _compute_percentiles(durations: Durations) -> dict[GroupKey, dict[str, Percentiles]]:
    percentiles: dict[GroupKey, dict[str, Percentiles]] = {}
    for (key, interval), values in durations.items():
        if values:
            percentiles.setdefault(key, {})[interval] = _compute_interval_percentiles(values)
    return percentiles


def _compute_interval_percentiles(durations: Sequence[float]) -> Percentiles:
    ordered = sorted(durations)
    p50, p95, p99 = (find_percentile(ordered, share) for share in (0.5, 0.95, 0.99))
    return Percentiles(len(ordered), sum(ordered), p50, p95, p99)


def find_percentile(durations: Sequence[float], share: float) -> float:
    """What `share` (0 to 1) of these durations, in ascending order, do not exceed; there is at least one."""
    return durations[max(1, math.ceil(share * len(durations))) - 1]


def _time_sort_key(group: ReportGroup) -> tuple[int, str]:
    if group.key is None:
        return (1, "")
    return (0, group.label)


def _canvas_sort_key(group: ReportGroup) -> tuple[int, int, str]:
    if group.calls:
        return -group.calls.canvases, -group.calls.calls, group.label
    if group.tools:
        return 0, -group.tools.calls, group.label
    return 0, 0, group.label
