"""Asks the database what a question needs, several readings side by side, and makes the Report of it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from bot.db.engine import Database, Transaction
from bot.db.usage import report_sums as reports
from bot.db.usage.usage_sums import GroupBy, GroupKey, Scope, TurnSums
from bot.usage.histogram import MIN_SECONDS
from bot.usage.report import (
    INTERVAL_COLUMNS,
    MAX_EXACT_TURNS,
    Durations,
    Grouping,
    PercentileMethod,
    ReportQuery,
    ReportSums,
    UsageReport,
    build_report,
)

T = TypeVar("T")


async def load_report(database: Database, query: ReportQuery) -> UsageReport:
    """The report, read side by side: a large ledger takes seconds, and each reading can have a core of its
    own.
    """
    scope = query.scope
    group = _turn_grouping(query.by)

    async def in_own_transaction(load: Callable[[Transaction], Awaitable[T]]) -> T:
        async with database.read_transaction() as tx:
            return await load(tx)

    async with asyncio.TaskGroup() as tasks:
        calls = tasks.create_task(in_own_transaction(partial(_load_call_sums, scope=scope, by=group)))
        others = tasks.create_task(in_own_transaction(partial(_load_turn_sums, query=query)))
    (called, again), (turns, tools, asked, server, (each, whole, method)) = calls.result(), others.result()
    return build_report(query, ReportSums(called, again, turns, tools, server, each, whole, method, asked))


async def load_report_in(tx: Transaction, query: ReportQuery) -> UsageReport:
    """The same inside a transaction, one reading after the other; for small questions."""
    called, again = await _load_call_sums(tx, query.scope, _turn_grouping(query.by))
    turns, tools, asked, server, (each, whole, method) = await _load_turn_sums(tx, query)
    return build_report(query, ReportSums(called, again, turns, tools, server, each, whole, method, asked))


def _turn_grouping(grouping: Grouping | None) -> GroupBy | None:
    if grouping == "tool":
        return None
    return grouping


async def _load_call_sums(tx: Transaction, scope: Scope, by: GroupBy | None) -> Any:
    return await reports.sum_calls(tx, scope, by), await reports.sum_retries(tx, scope, by)


async def _load_turn_sums(tx: Transaction, query: ReportQuery) -> Any:
    scope = query.scope
    group = _turn_grouping(query.by)
    turns = await reports.sum_turns(tx, scope, group)
    tools = await reports.sum_tool_calls(tx, scope, query.by)
    asked = await reports.sum_approvals(tx, scope, query.by)
    if scope.is_turns_only or scope.model:
        server = None
    else:
        server = await reports.sum_server_counters(tx, scope)
    return turns, tools, asked, server, await _load_durations(tx, query, turns)


async def _load_durations(
    tx: Transaction, query: ReportQuery, turns: Iterable[TurnSums]
) -> tuple[Durations, Durations, PercentileMethod | None]:
    """Durations by group, those of all together, and how they are known."""
    scope = query.scope
    group = _turn_grouping(query.by)
    settled = sum(one.settled for one in turns)
    if settled <= MAX_EXACT_TURNS:
        rows = await reports.list_breakdown_seconds(tx, scope, group)
        named: Sequence[tuple[str, float]] = ()
        if query.by == "tool":
            named = await reports.list_tool_seconds(tx, scope)
        return (
            _collect_durations(rows) | _collect_tool_durations(named),
            _collect_durations((None, *row[1:]) for row in rows),
            "exact",
        )
    if not scope.is_whole_days:
        return {}, {}, None
    if group == "day":
        daily = await reports.count_durations(tx, scope, daily=True)
    else:
        daily = []
    return (
        _collect_bucket_counts(daily),
        _collect_bucket_counts(await reports.count_durations(tx, scope, daily=False)),
        "buckets",
    )


def _collect_durations(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[GroupKey, str], list[float]]:
    found: dict[tuple[GroupKey, str], list[float]] = {}
    for key, *seconds in rows:
        for kind, value in zip(INTERVAL_COLUMNS, seconds, strict=True):
            if value >= MIN_SECONDS:
                found.setdefault((key, kind), []).append(value)
    return found


def _collect_tool_durations(rows: Iterable[tuple[str, float]]) -> dict[tuple[GroupKey, str], list[float]]:
    found: dict[tuple[GroupKey, str], list[float]] = {}
    for name, seconds in rows:
        found.setdefault((name, "tools"), []).append(seconds)
    return found


def _collect_bucket_counts(
    rows: Iterable[tuple[int | None, str, int, int]],
) -> dict[tuple[GroupKey, str], dict[int, int]]:
    found: dict[tuple[GroupKey, str], dict[int, int]] = {}
    for day, kind, number, count in rows:
        found.setdefault((day, kind), {})[number] = count
    return found
