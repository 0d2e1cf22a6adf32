"""Answers count once for each model, tool and day, however many reactions they have."""

import pytest
from sqlalchemy import insert

from bot.db.engine import Database
from bot.db.tables import outbox, verdicts
from bot.db.usage.usage_sums import GroupBy, GroupKey, Scope
from bot.db.usage.verdict_sums import VerdictSums, sum_verdicts
from bot.domain import DAY_SECONDS
from tests.support.usage_rows import NOON, UsageRows


async def judge(database: Database, turn: int, *values: str | None) -> None:
    """Store an answer of this turn with one message for each reaction; None: it was taken back."""
    async with database.transaction() as tx:
        for value in values:
            message = {"lane": "5", "body": "", "final": True, "state": "done", "made_at": NOON}
            row = (await tx.execute(insert(outbox).values(message).returning(outbox.c.id))).scalar_one()
            verdict = {"outbox": row, "person": 5, "turn": turn, "value": value, "item": turn, "at": NOON}
            await tx.execute(insert(verdicts).values(verdict))


@pytest.fixture
async def judged(database: Database) -> Database:
    """A bad answer of two models and two calls of a tool, a good one of the next day, and one taken back."""
    rows = UsageRows(database)
    bad = await rows.add_turn(thinking=True)
    good = await rows.add_turn(received_at=NOON + DAY_SECONDS, person=6)
    taken_back = await rows.add_turn()
    await rows.add_turn()
    for turn, model in ((bad, "m"), (bad, "m"), (bad, "other"), (good, "m"), (taken_back, "m")):
        await rows.add_call(turn, model=model)
    for turn, tool in ((bad, "clock"), (bad, "clock"), (good, "clock"), (good, "recall")):
        await rows.add_tool_call(turn, tool)
    await judge(database, bad, "good", "bad")
    await judge(database, good, "good", "good", None)
    await judge(database, taken_back, None)
    return database


@pytest.mark.parametrize(
    ("group", "sums"),
    [
        (None, {None: (2, 1)}),
        ("purpose", {None: (2, 1)}),
        ("model", {"m": (2, 1), "other": (1, 1)}),
        ("tool", {"clock": (2, 1), "recall": (1, 0)}),
        ("day", {20_000: (1, 1), 20_001: (1, 0)}),
        ("thinking", {1: (1, 1), 0: (1, 0)}),
        ("user", {5: (1, 1), 6: (1, 0)}),
        ("chat", {"5": (2, 1)}),
    ],
)
async def test_judged_answers_are_counted_by(
    judged: Database, group: GroupBy | None, sums: dict[GroupKey, tuple[int, int]]
):
    async with judged.read_transaction() as tx:
        found = await sum_verdicts(tx, Scope(), group)
    assert {row.key: (row.judged, row.bad) for row in found} == sums


async def test_a_scope_bounds_the_answers_that_are_counted(judged: Database):
    async with judged.read_transaction() as tx:
        assert await sum_verdicts(tx, Scope(until=NOON + 1), None) == [VerdictSums(None, 1, 1)]
        assert await sum_verdicts(tx, Scope(model="other"), "tool") == [VerdictSums("clock", 1, 1)]
        assert await sum_verdicts(tx, Scope(user=7), None) == []
