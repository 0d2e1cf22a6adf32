"""Loads from the database what a report query needs, and builds the report."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from bot.db.transaction import Transaction
from bot.db.usage import counter_readings, report_sums, tool_sums
from bot.db.usage.thinking_sums import sum_by_thinking
from bot.db.usage.usage_sums import (
    BreakdownColumn,
    GroupBy,
    GroupKey,
    Scope,
    TurnCounts,
)
from bot.db.usage.verdict_sums import sum_verdicts
from bot.usage.report import (
    INTERVAL_COLUMNS,
    MAX_EXACT_TURNS,
    SAMPLED_TURNS,
    Grouping,
    ReportQuery,
    ReportSums,
    UsageReport,
    build_report,
)

MIN_SECONDS = 0.001  # an interval that is shorter has not occurred
MAX_EXACT_TOOL_CALLS = 50_000  # whose seconds are read one by one, in some 0.2 s


async def load_report(tx: Transaction, query: ReportQuery) -> UsageReport:
    """All figures of a report; of a large database that takes seconds."""
    scope = query.scope
    group = _turn_grouping(query.by)
    turns = await report_sums.sum_turns(tx, scope, group)
    server = None
    if scope.is_everybody:
        server = await counter_readings.sum_server_counters(tx, scope)
    sums = ReportSums(
        calls=await report_sums.sum_calls(tx, scope, group),
        retries=await report_sums.sum_retries(tx, scope, group),
        turns=turns,
        tools=await tool_sums.sum_tool_calls(tx, scope, query.by),
        server=server,
        output_unit=await counter_readings.find_output_unit(tx),
        approvals=await tool_sums.sum_approvals(tx, scope, query.by),
        thinking=await sum_by_thinking(tx, scope) if query.by == "thinking" else (),
        verdicts=await sum_verdicts(tx, scope, query.by),
        all_verdicts=await sum_verdicts(tx, scope, None),
    )
    return build_report(query, await _add_durations(tx, query, sums, INTERVAL_COLUMNS))


async def load_tool_report(tx: Transaction, scope: Scope) -> UsageReport:
    """The report by tool, with the figures of tool calls alone, without those of approvals and turns.

    It has no percentiles where there are too many calls.
    """
    tools = await tool_sums.sum_tool_calls(tx, scope, "tool")
    sums = ReportSums(tools=tools)
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
    sums = ReportSums(calls=calls, turns=turns, percentile_method=None)
    if percentiles_of:
        sums = await _add_durations(tx, query, sums, percentiles_of)
    return build_report(query, sums)


def _turn_grouping(grouping: Grouping | None) -> GroupBy | None:
    if grouping == "tool":
        return None
    return grouping


async def _add_durations(
    tx: Transaction, query: ReportQuery, sums: ReportSums, intervals: Sequence[BreakdownColumn]
) -> ReportSums:
    """The sums with how long these intervals took: of each turn, or of a sample where there are many."""
    settled = sum(turn_sums.settled for turn_sums in sums.turns)
    if settled > MAX_EXACT_TURNS:
        share = SAMPLED_TURNS / settled
        sample = await report_sums.list_breakdown_seconds(tx, query.scope, None, intervals, share=share)
        total = _collect_durations(sample, intervals)
        return replace(sums, total_durations=total, percentile_method="sample")
    rows = await report_sums.list_breakdown_seconds(tx, query.scope, _turn_grouping(query.by), intervals)
    by_group = _collect_durations(rows, intervals)
    total_by_interval: dict[tuple[GroupKey, str], list[float]] = defaultdict(list)
    for (_, interval), durations in by_group.items():
        total_by_interval[None, interval] += durations
    if query.by == "tool":
        by_group |= _collect_tool_durations(await tool_sums.list_tool_seconds(tx, query.scope))
    return replace(sums, durations=by_group, total_durations=total_by_interval, percentile_method="exact")


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
