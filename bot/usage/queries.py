"""Asks the database what a question needs, several readings side by side, and makes the Report of it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from bot.db.engine import Database, Transaction
from bot.db.usage import report_sums as reports
from bot.db.usage.usage_sums import Group, Key, Scope, TurnSums
from bot.usage.histogram import LEAST
from bot.usage.report import EXACT, KINDS, By, Durations, Found, Method, Question, Report, report

T = TypeVar("T")


async def answered(database: Database, question: Question) -> Report:
    """The report, read side by side: a large ledger takes seconds, and each reading can have a core of its
    own.
    """
    scope = question.scope
    group = _group(question.by)

    async def reading(read: Callable[[Transaction], Awaitable[T]]) -> T:
        async with database.reading() as tx:
            return await read(tx)

    async with asyncio.TaskGroup() as tasks:
        calls = tasks.create_task(reading(partial(_called, scope=scope, by=group)))
        others = tasks.create_task(reading(partial(_turned, question=question)))
    (called, again), (turns, tools, asked, server, (each, whole, method)) = calls.result(), others.result()
    return report(question, Found(called, again, turns, tools, server, each, whole, method, asked))


async def answered_in(tx: Transaction, question: Question) -> Report:
    """The same inside a transaction, one reading after the other; for small questions."""
    called, again = await _called(tx, question.scope, _group(question.by))
    turns, tools, asked, server, (each, whole, method) = await _turned(tx, question)
    return report(question, Found(called, again, turns, tools, server, each, whole, method, asked))


def _group(by: By | None) -> Group | None:
    if by == "tool":
        return None
    return by


async def _called(tx: Transaction, scope: Scope, by: Group | None) -> Any:
    return await reports.calls(tx, scope, by), await reports.again(tx, scope, by)


async def _turned(tx: Transaction, question: Question) -> Any:
    scope = question.scope
    group = _group(question.by)
    turns = await reports.turned(tx, scope, group)
    tools = await reports.tools(tx, scope, question.by)
    asked = await reports.asked(tx, scope, question.by)
    if scope.is_of_turns or scope.model:
        server = None
    else:
        server = await reports.server(tx, scope)
    return turns, tools, asked, server, await _durations(tx, question, turns)


async def _durations(
    tx: Transaction, question: Question, turns: Iterable[TurnSums]
) -> tuple[Durations, Durations, Method | None]:
    """Durations by group, those of all together, and how they are known."""
    scope = question.scope
    group = _group(question.by)
    settled = sum(one.settled for one in turns)
    if settled <= EXACT:
        rows = await reports.account_rows(tx, scope, group)
        named: Sequence[tuple[str, float]] = ()
        if question.by == "tool":
            named = await reports.tool_seconds(tx, scope)
        return _exact(rows) | _named(named), _exact((None, *row[1:]) for row in rows), "exact"
    if not scope.is_of_days:
        return {}, {}, None
    if group == "day":
        daily = await reports.counted(tx, scope, daily=True)
    else:
        daily = []
    return _counted(daily), _counted(await reports.counted(tx, scope, daily=False)), "buckets"


def _exact(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Key, str], list[float]]:
    found: dict[tuple[Key, str], list[float]] = {}
    for key, *seconds in rows:
        for kind, value in zip(KINDS, seconds, strict=True):
            if value >= LEAST:
                found.setdefault((key, kind), []).append(value)
    return found


def _named(rows: Iterable[tuple[str, float]]) -> dict[tuple[Key, str], list[float]]:
    found: dict[tuple[Key, str], list[float]] = {}
    for name, seconds in rows:
        found.setdefault((name, "tools"), []).append(seconds)
    return found


def _counted(rows: Iterable[tuple[int | None, str, int, int]]) -> dict[tuple[Key, str], dict[int, int]]:
    found: dict[tuple[Key, str], dict[int, int]] = {}
    for day, kind, number, count in rows:
        found.setdefault((day, kind), {})[number] = count
    return found
