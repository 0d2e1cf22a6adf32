"""Stored sums of past days equal the rows, in every grouping, zone and filter, also after late changes."""

import contextlib
import itertools
import math
import random
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, insert, select, union_all, update

from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.people import groups
from bot.db.sqlite.engine import SqliteDatabase
from bot.db.tables import (
    daily_calls,
    daily_tools,
    daily_turns,
    model_calls,
    summed_days,
    tool_calls,
    turns,
)
from bot.db.transaction import Transaction
from bot.db.usage import day_sums, report_sums, summed_scopes, tool_sums
from bot.db.usage.summed_scopes import CALL_COUNTS
from bot.db.usage.usage_sums import DAY_SECONDS, CallSums, GroupBy, GroupKey, Scope, ToolSums
from bot.maintenance.system_jobs import DaySumsTask
from tests.support.random_month import DAYS, RandomMonth, fill_month

GROUPS: tuple[GroupBy | None, ...] = (None, "day", "hour", "chat", "user", "model", "purpose", "user-model")
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns")
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"thinking": True},
    {"endpoint": "fallback", "thinking": False},
    {"model": "other"},
    {"purpose": "decision"},
    {"purpose": "warmup"},
    {"user": 8},
    {"chat": "-100"},
    {"tool": "clock"},
    {"tool": "clock", "thinking": True},
    {"tool": "clock", "model": "other"},
    {"tool": "clock", "purpose": "turn"},
    {"model": "other", "purpose": "turn"},
    {"tool": "nothing"},
)


async def fill_and_sum(database: Database, *, seed: int) -> RandomMonth:
    """A random month with calls of no turn, and the sums of its days that are over, five at least."""
    month = await fill_month(database, seed)
    turnless = [
        row | {"turn": None, "purpose": purpose}
        for row, purpose in zip(month.calls, itertools.cycle(("warmup", "summary")), strict=False)
    ]
    async with database.transaction() as tx:
        await tx.execute(insert(model_calls), turnless)
    await end_everything(database, until=time.time() - (DAYS - 6) * DAY_SECONDS)
    await sum_days(database)
    return month


async def sum_days(database: Database) -> None:
    await DaySumsTask(database, pause_seconds=0.0)()


async def end_everything(database: Database, *, until: float = math.inf) -> None:
    """End what began before a moment and is under way."""
    async with database.transaction() as tx:
        is_open_turn = turns.c.ending.is_(None) & (turns.c.received_at < until)
        await tx.execute(update(turns).where(is_open_turn).values(state="ended", ending="answered"))
        for table, began_at in ((model_calls, model_calls.c.created_at), (tool_calls, tool_calls.c.began_at)):
            is_open = table.c.outcome.is_(None) & (began_at < until)
            await tx.execute(update(table).where(is_open).values(outcome="failed"))


async def count_summed_days(database: Database) -> int:
    async with database.read_transaction() as tx:
        query = select(func.count()).where(summed_days.c.part == "time")
        return int((await tx.execute(query)).scalar_one())


async def check_all(database: Database, scopes: Iterable[Scope]) -> None:
    async with database.read_transaction() as tx:
        for scope in scopes:
            for group in GROUPS:
                await check_group(tx, scope, group)
            await check_tools(tx, scope)


async def check_group(tx: Transaction, scope: Scope, group: GroupBy | None) -> None:
    summed = await summed_scopes.sum_calls(tx, scope, group)
    calls = await report_sums.sum_calls(tx, scope, group)
    assert take_counts(summed) == take_counts(calls), (scope, group)
    summed_turns = await summed_scopes.count_turns(tx, scope, group)
    counts = await report_sums.sum_turns(tx, scope, group)
    assert {sums.key: (sums.turns, sums.failed, sums.settled) for sums in summed_turns} == {
        sums.key: (sums.turns, sums.failed, sums.settled) for sums in counts
    }, (scope, group)


def take_counts(sums: Iterable[CallSums]) -> dict[GroupKey, dict[str, int]]:
    """The figures that are stored, by group."""
    return {of_group.key: {name: getattr(of_group, name) for name in CALL_COUNTS} for of_group in sums}


def key_of(sums: ToolSums) -> tuple[GroupKey, str | None, str | None]:
    return sums.key, sums.outcome, sums.refusal


async def check_tools(tx: Transaction, scope: Scope) -> None:
    summed = {key_of(sums): sums for sums in await summed_scopes.sum_tool_calls(tx, scope)}
    rows = {key_of(sums): sums for sums in await tool_sums.sum_tool_calls(tx, scope, "tool")}
    assert summed.keys() == rows.keys()
    for key, sums in rows.items():
        assert replace(summed[key], seconds=0) == replace(sums, seconds=0)
        assert summed[key].seconds == pytest.approx(sums.seconds)


def list_scopes(now: float) -> list[Scope]:
    """Periods of all lengths that begin and end anywhere; a long one in every zone and with every filter."""
    midnight = now // DAY_SECONDS * DAY_SECONDS
    periods: list[tuple[float | None, float | None]] = [
        (now - 90 * DAY_SECONDS, None),
        (now - 7 * DAY_SECONDS, now),
        (now - DAY_SECONDS / 3, now),
        (midnight - 9 * DAY_SECONDS, midnight - 2 * DAY_SECONDS),
        (midnight - 5 * DAY_SECONDS + 5, midnight - 4 * DAY_SECONDS - 5),
        (None, midnight - 8 * DAY_SECONDS + 1_800),
        (None, None),
    ]
    since = now - 20.4 * DAY_SECONDS
    return [
        *(Scope(*period, zone=zone) for period, zone in zip(periods, itertools.cycle(ZONES), strict=False)),
        *(Scope(since, now, zone=zone) for zone in ZONES),
        *(
            Scope(since, now, zone=zone, **chosen)
            for chosen, zone in zip(FILTERS, itertools.cycle(ZONES), strict=False)
        ),
    ]


async def test_sums_of_any_scope_equal_its_rows_while_some_days_have_none(database: Database):
    await fill_and_sum(database, seed=random.randrange(10**6))
    some_days = await count_summed_days(database)
    assert 0 < some_days < 30  # on the others something is under way
    await check_all(database, select_scopes(database)[::2])


async def test_sums_of_any_scope_equal_its_rows_once_all_days_have_them(database: Database):
    await fill_and_sum(database, seed=random.randrange(10**6))
    await end_everything(database)
    await sum_days(database)
    assert await count_summed_days(database) >= 29
    await check_all(database, select_scopes(database))


def select_scopes(database: Database) -> list[Scope]:
    """All scopes on SQLite, two of them on PostgreSQL: each takes a hundred queries."""
    scopes = list_scopes(time.time())
    return scopes if isinstance(database, SqliteDatabase) else random.sample(scopes, 2)


async def test_a_day_is_not_summed_while_anything_of_it_is_under_way(database: Database):
    month = await fill_month(database, 3)
    await end_everything(database)
    turn = next(row for row in month.turns if month.list_tools(row["id"]) and month.list_calls(row["id"]))
    day = day_sums.find_day(turn["received_at"])
    now = time.time() + DAY_SECONDS
    of_turn = turns.c.id == turn["id"]
    unfinished = (
        update(turns).where(of_turn).values(state="parked"),
        update(turns).where(of_turn).values(state="running"),
        update(model_calls).where(model_calls.c.turn == turn["id"]).values(outcome=None),
        update(tool_calls).where(tool_calls.c.turn == turn["id"]).values(outcome=None),
        update(model_calls).where(model_calls.c.turn == turn["id"]).values(turn=None, outcome=None),
    )
    for change in unfinished:
        with contextlib.suppress(InterruptedError):
            async with database.transaction() as tx:
                await tx.execute(change)
                assert not await day_sums.store(tx, "time", day)
                raise InterruptedError  # rolls it back
    async with database.transaction() as tx:
        assert (("time", day) in await day_sums.list_missing(tx, now=now)) == day_sums.is_over(day, now)
        assert await day_sums.store(tx, "time", day)
        assert not await day_sums.store(tx, "time", day)
        assert ("time", day) not in await day_sums.list_missing(tx, now=now)
        last = day_sums.find_day(now)
        assert last not in {day for _, day in await day_sums.list_missing(tx, now=now)}


async def test_sums_are_deleted_with_a_late_change_and_made_again(database: Database):
    month = await fill_and_sum(database, seed=11)
    await end_everything(database)
    await sum_days(database)
    turn = min(month.turns, key=lambda row: float(row["received_at"]))
    before = await count_summed_days(database)
    now = time.time()
    async with database.transaction() as tx:
        # A message of that day is answered only now.
        late = {"id": 9_000, "item": 9_000, "state": "ended", "ending": "failed", "ended_at": now}
        await tx.execute(insert(turns), [turn | late])
        await day_sums.discard(tx, [turn["received_at"], now], now=now)
    assert await count_summed_days(database) == before - 1
    await check_all(database, [Scope(now - 40 * DAY_SECONDS, now), Scope()])
    await sum_days(database)
    assert await count_summed_days(database) == before
    await check_all(database, [Scope(now - 40 * DAY_SECONDS, now), Scope()])


async def test_a_group_that_moves_takes_its_sums_along(database: Database):
    await fill_and_sum(database, seed=12)
    now = time.time()
    before = await count_summed_days(database)
    async with database.transaction() as tx:
        await groups.move(tx, -100, -1009)
    assert await count_summed_days(database) == before
    await check_all(database, [Scope(now - 40 * DAY_SECONDS, now)])
    async with database.read_transaction() as tx:
        lanes = {sums.key for sums in await summed_scopes.sum_calls(tx, Scope(), "chat")}
    assert "-1009" in lanes
    assert "-100" not in lanes


async def test_forgotten_names_of_tools_leave_the_sums_too(database: Database):
    month = await fill_month(database, 13)
    invented = "what the model made up"
    async with database.transaction() as tx:
        first = min(row["turn"] for row in month.tools)
        of_turn = tool_calls.c.turn == first
        await tx.execute(update(tool_calls).where(of_turn).values(name=invented, outcome="refused"))
    await end_everything(database)
    await sum_days(database)
    now = time.time()
    has_name = union_all(
        select(daily_tools.c.id).where(daily_tools.c.tool == invented),
        select(daily_turns.c.id).where(daily_turns.c.called == f"tool {invented}"),
        select(daily_calls.c.id).where(daily_calls.c.called == f"tool {invented}"),
    )
    async with database.read_transaction() as tx:
        assert len((await tx.execute(has_name)).all()) >= 3
    await retention.forget(database, retention.build_age_scope(now))
    async with database.read_transaction() as tx:
        assert not (await tx.execute(has_name)).all()
    await check_all(database, [Scope(now - 40 * DAY_SECONDS, now)])
    await sum_days(database)
    await check_all(database, [Scope(now - 40 * DAY_SECONDS, now)])
