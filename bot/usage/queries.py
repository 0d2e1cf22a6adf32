"""Loads from the database what a report query needs, and builds the report."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from bot.db.engine import Database
from bot.db.transaction import Transaction
from bot.db.usage import counter_readings, report_sums, tool_sums
from bot.db.usage.thinking_sums import ThinkingSums, sum_by_thinking
from bot.db.usage.usage_sums import (
    BreakdownColumn,
    CallSums,
    GroupBy,
    GroupKey,
    RetrySums,
    Scope,
    TurnCounts,
)
from bot.db.usage.verdict_sums import sum_verdicts
from bot.usage.report import (
    INTERVAL_COLUMNS,
    MAX_EXACT_TURNS,
    SAMPLED_TURNS,
    Durations,
    Grouping,
    PercentileMethod,
    ReportQuery,
    ReportSums,
    UsageReport,
    build_report,
)

T = TypeVar("T")
MIN_SECONDS = 0.001  # an interval that is shorter has not occurred
MAX_EXACT_TOOL_CALLS = 50_000  # whose seconds are read one by one, in some 0.2 s


@dataclass(frozen=True, slots=True)
class _DurationRows:
    """Durations by group, those of everything together, and how they are known."""

    by_group: Durations = field(default_factory=dict)
    total: Durations = field(default_factory=dict)
    percentile_method: PercentileMethod | None = None


async def load_report(database: Database, query: ReportQuery) -> UsageReport:
    """The report, read in two transactions at once.

    A large database takes seconds, and each of them can use a core of its own.
    """

    async def in_own_transaction(load: Callable[[Transaction], Awaitable[T]]) -> T:
        async with database.long_read_transaction() as tx:
            return await load(tx)

    async with asyncio.TaskGroup() as tasks:
        of_calls = tasks.create_task(in_own_transaction(partial(_load_call_sums, query=query)))
        of_turns = tasks.create_task(in_own_transaction(partial(_load_turn_sums, query=query)))
    calls, retries = of_calls.result()
    return build_report(query, replace(of_turns.result(), calls=calls, retries=retries))


async def load_report_in(tx: Transaction, query: ReportQuery) -> UsageReport:
    """The same inside a transaction, one statement after the other; for small scopes."""
    calls, retries = await _load_call_sums(tx, query)
    return build_report(query, replace(await _load_turn_sums(tx, query), calls=calls, retries=retries))


async def load_tool_report(tx: Transaction, scope: Scope) -> UsageReport:
    """The report by tool, with the figures of tool calls alone, without those of approvals and turns.

    It has no percentiles where there are too many calls.
    """
    tools = await tool_sums.sum_tool_calls(tx, scope, "tool")
    sums = ReportSums(calls=(), retries=(), turns=(), tools=tools)
    if sum(tool.timed for tool in tools) > MAX_EXACT_TOOL_CALLS:
        return build_report(ReportQuery(scope, "tool"), replace(sums, percentile_method=None))
    durations = _collect_tool_durations(await tool_sums.list_tool_seconds(tx, scope))
    return build_report(ReportQuery(scope, "tool"), replace(sums, durations=durations))


async def load_sums_in(
    tx: Transaction, query: ReportQuery, *, percentiles_of: Sequence[BreakdownColumn] = ()
) -> UsageReport:
    """A report of turns, calls and tokens alone, with percentiles of these intervals.

    It is for the admins' page, which has little time; of thoughts and seconds it knows nothing. For tools
    there is `load_tool_report`.
    """
    group = _turn_grouping(query.by)
    calls = await report_sums.sum_calls(tx, query.scope, group)
    turns: Sequence[TurnCounts] = ()
    if group is None or group in report_sums.TURN_GROUPS:
        turns = await report_sums.count_turns(tx, query.scope, group)
    durations = _DurationRows()
    if percentiles_of:
        durations = await _load_durations(tx, query, turns, percentiles_of)
    sums = ReportSums(
        calls=calls,
        retries=(),
        turns=turns,
        tools=(),
        durations=durations.by_group,
        total_durations=durations.total,
        percentile_method=durations.percentile_method,
    )
    return build_report(query, sums)


def _turn_grouping(grouping: Grouping | None) -> GroupBy | None:
    if grouping == "tool":
        return None
    return grouping


async def _load_call_sums(
    tx: Transaction, query: ReportQuery
) -> tuple[Sequence[CallSums], Sequence[RetrySums]]:
    group = _turn_grouping(query.by)
    calls = await report_sums.sum_calls(tx, query.scope, group)
    return calls, await report_sums.sum_retries(tx, query.scope, group)


async def _load_turn_sums(tx: Transaction, query: ReportQuery) -> ReportSums:
    """All but the sums of calls."""
    scope = query.scope
    turns = await report_sums.sum_turns(tx, scope, _turn_grouping(query.by))
    tools = await tool_sums.sum_tool_calls(tx, scope, query.by)
    approvals = await tool_sums.sum_approvals(tx, scope, query.by)
    thinking: Sequence[ThinkingSums] = ()
    if query.by == "thinking":
        thinking = await sum_by_thinking(tx, scope)
    server = None
    if scope.is_everybody:
        server = await counter_readings.sum_server_counters(tx, scope)
    verdicts = await sum_verdicts(tx, scope, query.by)
    all_verdicts = await sum_verdicts(tx, scope, None)
    durations = await _load_durations(tx, query, turns, INTERVAL_COLUMNS)
    return ReportSums(
        calls=(),
        retries=(),
        turns=turns,
        tools=tools,
        server=server,
        durations=durations.by_group,
        total_durations=durations.total,
        percentile_method=durations.percentile_method,
        output_unit=await counter_readings.find_output_unit(tx),
        approvals=approvals,
        thinking=thinking,
        verdicts=verdicts,
        all_verdicts=all_verdicts,
    )


async def _load_durations(
    tx: Transaction, query: ReportQuery, turns: Iterable[TurnCounts], intervals: Sequence[BreakdownColumn]
) -> _DurationRows:
    settled = sum(turn_sums.settled for turn_sums in turns)
    if settled <= MAX_EXACT_TURNS:
        return await _load_exact_durations(tx, query, intervals)
    sample = await report_sums.list_breakdown_seconds(
        tx, query.scope, None, intervals, share=SAMPLED_TURNS / settled
    )
    return _DurationRows(total=_collect_durations(sample, intervals), percentile_method="sample")


async def _load_exact_durations(
    tx: Transaction, query: ReportQuery, intervals: Sequence[BreakdownColumn]
) -> _DurationRows:
    rows = await report_sums.list_breakdown_seconds(tx, query.scope, _turn_grouping(query.by), intervals)
    by_group = _collect_durations(rows, intervals)
    total: dict[tuple[GroupKey, str], list[float]] = defaultdict(list)
    for (_, interval), durations in by_group.items():
        total[None, interval] += durations
    if query.by == "tool":
        by_group |= _collect_tool_durations(await tool_sums.list_tool_seconds(tx, query.scope))
    return _DurationRows(by_group, total, "exact")


def _collect_durations(
    rows: Iterable[tuple[Any, ...]], intervals: Sequence[BreakdownColumn]
) -> dict[tuple[GroupKey, str], list[float]]:
    rows_by_key: dict[GroupKey, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        rows_by_key[row[0]].append(row)
    durations: dict[tuple[GroupKey, str], list[float]] = {}
    for key, rows_of_key in rows_by_key.items():
        _, *columns = zip(*rows_of_key, strict=True)  # by column: the page has little time for 20,000 rows
        for interval, column in zip(intervals, columns, strict=True):
            counted = [seconds for seconds in column if seconds >= MIN_SECONDS]
            if counted:
                durations[key, interval] = counted
    return durations


def _collect_tool_durations(rows: Iterable[tuple[str, float]]) -> dict[tuple[GroupKey, str], list[float]]:
    seconds_by_name: dict[str, list[float]] = defaultdict(list)
    for name, seconds in rows:
        seconds_by_name[name].append(seconds)
    return {(name, "tools"): seconds for name, seconds in seconds_by_name.items()}
