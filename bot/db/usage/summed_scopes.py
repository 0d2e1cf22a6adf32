"""Sums of a scope from the stored sums of its whole days, and from the rows of what is left of it.

They equal what `report_sums` and `tool_sums` make of all rows, which they call for the rest, and for scopes
that the stored sums do not tell apart. Only reads.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Table, cast, func, literal, select

from bot.db.tables import daily_calls, daily_tools, daily_turns, summed_days
from bot.db.transaction import Transaction
from bot.db.usage import report_sums, tool_sums
from bot.db.usage.day_sums import (
    CALL_SUMS,
    CALLED_KINDS,
    SLOT_SECONDS,
    CalledKind,
    SumPart,
    name_called,
)
from bot.db.usage.ledger_columns import join_person_and_model
from bot.db.usage.local_days import build_time_column
from bot.db.usage.usage_sums import DAY_SECONDS, CallSums, GroupBy, Scope, ToolSums, TurnSums

CALL_COUNTS: Final = tuple(CALL_SUMS)
_NO_CALL_SUMS: Final = {field.name: 0 for field in fields(CallSums)}
_COUNTS: Final = {daily_calls: CALL_COUNTS, daily_turns: ("turns", "failed", "settled")}


async def sum_calls(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[CallSums]:
    """Counts and tokens of model calls by group, as `report_sums.sum_calls`; all other sums are left 0."""
    kept = _find_call_sums(scope, group)
    days = await _list_summed_days(tx, scope, kept)
    rows = await _sum_stored(tx, daily_calls, scope, group, kept, days)
    for rest in _list_rests(scope, days):
        rows += await report_sums.sum_calls_by_group(tx, rest, group, tuple(CALL_SUMS.values()))
    return [
        CallSums(**_NO_CALL_SUMS | {"key": key} | dict(zip(CALL_COUNTS, counts, strict=True)))
        for key, *counts in _add_up(rows, 1)
        if counts[0]
    ]


async def count_turns(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[TurnSums]:
    """Turns, those that failed and those with an account by group, as `report_sums.count_turns`."""
    turn_group = group if group in report_sums.TURN_GROUPS else None
    part = _find_part(scope, turn_group)
    kept = part and _find_sums_of_callers(scope, part)
    days = await _list_summed_days(tx, scope, kept)
    rows = await _sum_stored(tx, daily_turns, scope, turn_group, kept, days)
    for rest in _list_rests(scope, days):
        for sums in await report_sums.count_turns(tx, rest, turn_group):
            rows.append((sums.key, sums.turns, sums.failed, sums.settled))
    return [report_sums.build_turn_counts(*row) for row in _add_up(rows, 1) if row[1]]


async def sum_tool_calls(tx: Transaction, scope: Scope) -> list[ToolSums]:
    """Tool calls by tool, outcome and refusal, as `tool_sums.sum_tool_calls`."""
    of_any_tool = replace(scope, tool=None)  # of one tool, the rows of its name are taken
    kept = _find_part(scope, None) and _find_sums_of_callers(of_any_tool, "tool")
    days = await _list_summed_days(tx, scope, kept)
    rows: list[tuple[Any, ...]] = []
    if kept and days:
        stored = daily_tools.c
        keys = (stored.tool, stored.outcome, stored.refusal)
        sums = (func.sum(stored.calls), func.sum(stored.timed), func.sum(stored.seconds))
        query = select(*keys, *sums).where(*_build_filter(daily_tools, scope, kept, days)).group_by(*keys)
        rows += [tuple(row) for row in await tx.execute(query)]
    for rest in _list_rests(scope, days):
        for tool in await tool_sums.sum_tool_calls(tx, rest, "tool"):
            rows.append((tool.key, tool.outcome, tool.refusal, tool.calls, tool.timed, tool.seconds))
    return [
        ToolSums(tool, outcome, calls, timed, seconds, refusal)
        for tool, outcome, refusal, calls, timed, seconds in _add_up(rows, 3)
    ]


@dataclass(frozen=True, slots=True)
class _KeptSums:
    """Stored sums that tell what is asked for: those of a part, about turns that called this (empty: all)."""

    part: SumPart
    called: str


def _find_call_sums(scope: Scope, group: GroupBy | None) -> _KeptSums | None:
    part = _find_part(scope, group)
    if part is None or scope.tool is None:
        return part and _KeptSums(part, "")
    called = name_called("tool", scope.tool)
    if group in {None, "model", "purpose"}:
        return _KeptSums("tool", called)
    if part == "time" and scope.model is None and scope.purpose is None:
        return _KeptSums(part, called)
    return None


def _find_part(scope: Scope, group: GroupBy | None) -> SumPart | None:
    if scope.chat is not None or scope.user is not None:
        return None
    match group:
        case "user" | "user-model":
            return "user"
        case "chat":
            return "chat"
        case "thinking":
            return None
    return "time"


def _find_sums_of_callers(scope: Scope, part: SumPart) -> _KeptSums | None:
    """Sums about the turns that called what the scope wants, if that is one thing."""
    wanted: dict[CalledKind, str | None] = {
        "model": scope.model,
        "purpose": scope.purpose,
        "tool": scope.tool,
    }
    if scope.model is not None and scope.purpose is not None:
        wanted = {"call": f"{scope.purpose} {scope.model}", "tool": scope.tool}
    called = [(kind, name) for kind, name in wanted.items() if name is not None]
    if not called:
        return _KeptSums(part, "")
    kind, name = called[0]
    if len(called) > 1 or kind not in CALLED_KINDS[part]:
        return None
    return _KeptSums(part, name_called(kind, name))


async def _list_summed_days(tx: Transaction, scope: Scope, kept: _KeptSums | None) -> Sequence[int]:
    """The days of the scope that have these sums, in order."""
    if kept is None:
        return ()
    query = select(summed_days.c.day).where(summed_days.c.part == kept.part)
    if scope.since is not None:
        query = query.where(summed_days.c.day >= math.ceil(scope.since / DAY_SECONDS))
    if scope.until is not None:
        query = query.where(summed_days.c.day < math.floor(scope.until / DAY_SECONDS))
    return (await tx.execute(query.order_by(summed_days.c.day))).scalars().all()


def _list_rests(scope: Scope, days: Sequence[int]) -> list[Scope]:
    """What the scope covers beside these days."""
    rests = []
    begin = scope.since
    for day in days:
        if begin is None or begin < day * DAY_SECONDS:
            rests.append(replace(scope, since=begin, until=day * DAY_SECONDS))
        begin = (day + 1) * DAY_SECONDS
    if begin is None or scope.until is None or begin < scope.until:
        rests.append(replace(scope, since=begin))
    return rests


async def _sum_stored(
    tx: Transaction,
    table: Table,
    scope: Scope,
    group: GroupBy | None,
    kept: _KeptSums | None,
    days: Sequence[int],
) -> list[tuple[Any, ...]]:
    """Rows of (key, *sums) of a table's sums; none without days."""
    if kept is None or not days:
        return []
    key = _build_key(table, scope, group)
    # Cast, since PostgreSQL adds up its large integers as decimals.
    query = select(
        key, *(cast(func.coalesce(func.sum(table.c[name]), 0), BigInteger) for name in _COUNTS[table])
    )
    query = query.where(table.c.part == kept.part, *_build_filter(table, scope, kept, days))
    if group is not None:
        query = query.group_by(key)
    return [tuple(row) for row in await tx.execute(query)]


def _build_key(table: Table, scope: Scope, group: GroupBy | None) -> ColumnElement[Any]:
    match group:
        case "day" | "hour":
            return build_time_column(table.c.slot * float(SLOT_SECONDS), scope, group)
        case "user":
            return table.c.person
        case "chat":
            return table.c.lane
        case "model":
            return table.c.model
        case "purpose":
            return table.c.purpose
        case "user-model":
            return join_person_and_model(table.c.person, table.c.model)
    return literal(None)


def _build_filter(
    table: Table, scope: Scope, kept: _KeptSums, days: Sequence[int]
) -> list[ColumnElement[bool]]:
    """Conditions for the rows of these sums and days; the days one by one, for which the index is made."""
    conditions = [table.c.day.in_(days), table.c.called == kept.called]
    for name in ("endpoint", "thinking", "model", "purpose", "tool"):
        wanted = getattr(scope, name)
        if wanted is not None and name in table.c:
            conditions.append(table.c[name] == wanted)
    return conditions


def _add_up(rows: Iterable[tuple[Any, ...]], key_count: int) -> list[tuple[Any, ...]]:
    """Rows that share their first `key_count` columns become one, with the sums of all others."""
    sums_by_key: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        key = row[:key_count]
        sums = row[key_count:]
        if key in sums_by_key:
            sums = tuple(a + b for a, b in zip(sums_by_key[key], sums, strict=True))
        sums_by_key[key] = sums
    return [key + sums for key, sums in sums_by_key.items()]
