"""Sums of a scope from the stored sums of its whole days, and from the rows of what is left of it.

They equal what `report_sums` and `tool_sums` make of all rows, which they call for the rest, and for scopes
that the stored sums do not tell apart. Only reads.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Table, cast, func, literal, select

from bot.db.tables import daily_calls, daily_tools, daily_turns, summed_days
from bot.db.transaction import Transaction
from bot.db.usage import report_sums, tool_sums
from bot.db.usage.day_sums import CALL_SUMS, SLOT_SECONDS, SumPart
from bot.db.usage.ledger_columns import join_person_and_model
from bot.db.usage.local_days import build_time_column
from bot.db.usage.usage_sums import DAY_SECONDS, CallSums, GroupBy, Scope, ToolSums, TurnSums

CALL_COUNTS: Final = tuple(CALL_SUMS)
_NO_CALL_SUMS: Final = {field.name: 0 for field in fields(CallSums)}
_TURN_COUNTS: Final = ("turns", "failed", "settled")


async def sum_calls(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[CallSums]:
    """Counts and tokens of model calls by group, as `report_sums.sum_calls`; all other sums are left 0."""
    days = await _list_summed_days(tx, scope, group)
    rows: list[tuple[Any, ...]] = []
    if days:
        rows += await _sum_stored(tx, daily_calls, CALL_COUNTS, scope, group, days)
    for rest in _list_rests(scope, days):
        for sums in await report_sums.sum_calls(tx, rest, group, tokens_only=True):
            rows.append((sums.key, *(getattr(sums, name) for name in CALL_COUNTS)))
    return [
        CallSums(**_NO_CALL_SUMS | {"key": key} | dict(zip(CALL_COUNTS, counts, strict=True)))
        for key, *counts in _add_up(rows, 1)
        if counts[0]
    ]


async def count_turns(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[TurnSums]:
    """Turns, those that failed and those with an account by group, as `report_sums.count_turns`."""
    turn_group = group if group in report_sums.TURN_GROUPS else None
    days: Sequence[int] = ()
    if scope.model is None and scope.purpose is None:  # a turn may have called several
        days = await _list_summed_days(tx, scope, turn_group)
    rows: list[tuple[Any, ...]] = []
    if days:
        rows += await _sum_stored(tx, daily_turns, _TURN_COUNTS, scope, turn_group, days)
    for rest in _list_rests(scope, days):
        for sums in await report_sums.count_turns(tx, rest, turn_group):
            rows.append((sums.key, sums.turns, sums.failed, sums.settled))
    return [report_sums.build_turn_counts(*row) for row in _add_up(rows, 1) if row[1]]


async def sum_tool_calls(tx: Transaction, scope: Scope) -> list[ToolSums]:
    """Tool calls by tool, outcome and refusal, as `tool_sums.sum_tool_calls`."""
    days: Sequence[int] = ()
    if scope.model is None and scope.purpose is None:
        days = await _list_summed_days(tx, scope, "tool")
    rows: list[tuple[Any, ...]] = []
    if days:
        stored = daily_tools.c
        keys = (stored.tool, stored.outcome, stored.refusal)
        sums = (func.sum(stored.calls), func.sum(stored.timed), func.sum(stored.seconds))
        query = select(*keys, *sums).where(*_build_filter(daily_tools, scope, days)).group_by(*keys)
        rows += [tuple(row) for row in await tx.execute(query)]
    for rest in _list_rests(scope, days):
        for tool in await tool_sums.sum_tool_calls(tx, rest, "tool"):
            rows.append((tool.key, tool.outcome, tool.refusal, tool.calls, tool.timed, tool.seconds))
    return [
        ToolSums(tool, outcome, calls, timed, seconds, refusal)
        for tool, outcome, refusal, calls, timed, seconds in _add_up(rows, 3)
    ]


async def _list_summed_days(tx: Transaction, scope: Scope, group: str | None) -> Sequence[int]:
    """The days of the scope whose sums tell what it asks for, in order."""
    if scope.chat is not None or scope.user is not None or scope.tool is not None or group == "thinking":
        return ()
    query = select(summed_days.c.day).where(summed_days.c.part == _choose_part(group))
    if scope.since is not None:
        query = query.where(summed_days.c.day >= math.ceil(scope.since / DAY_SECONDS))
    if scope.until is not None:
        query = query.where(summed_days.c.day < math.floor(scope.until / DAY_SECONDS))
    return (await tx.execute(query.order_by(summed_days.c.day))).scalars().all()


def _choose_part(group: str | None) -> SumPart:
    match group:
        case "user" | "user-model":
            return "user"
        case "chat":
            return "chat"
        case "tool":
            return "tool"
    return "time"


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
    names: Sequence[str],
    scope: Scope,
    group: GroupBy | None,
    days: Sequence[int],
) -> list[tuple[Any, ...]]:
    """Rows of (key, *sums) of the named columns."""
    key = _build_key(table, scope, group)
    # Cast, since PostgreSQL adds up its large integers as decimals.
    query = select(key, *(cast(func.coalesce(func.sum(table.c[name]), 0), BigInteger) for name in names))
    query = query.where(table.c.part == _choose_part(group), *_build_filter(table, scope, days))
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


def _build_filter(table: Table, scope: Scope, days: Sequence[int]) -> list[ColumnElement[bool]]:
    """Conditions for stored sums; between the first and the last of `days` only these have any."""
    conditions = [table.c.day >= days[0], table.c.day <= days[-1]]
    for name in ("endpoint", "thinking", "model", "purpose"):
        wanted = getattr(scope, name)
        if wanted is not None:
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
