"""A person's canvases of a day are summed from the ledger: estimated for each call, without typed reads."""

from typing import Any

import pytest

from bot.db.engine import Database
from bot.db.people import limits
from bot.db.people.limits import EVERYBODY, QuotaRule, UsedCanvases
from bot.db.tables import model_calls, turns

DAY = 86_400.0
TODAY = 100 * DAY


async def store_turn(
    database: Database,
    *calls: dict[str, Any],
    person: int = 5,
    began_at: float = TODAY + 1,
    ended_at: float | None = TODAY + 2,
    lane: str = "5",
) -> None:
    async with database.transaction() as tx:
        row = {
            "item": began_at * 100 + person,
            "lane": lane,
            "person": person,
            "conversation": 1,
            "state": "ended",
            "tools": "[]",
            "thinking": False,
            "thinking_why": "",
            "received_at": began_at,
            "began_at": began_at,
            "ended_at": ended_at,
        }
        turn = (await tx.execute(turns.insert().values(row).returning(turns.c.id))).scalar_one()
        for call in calls:
            defaults = {
                "turn": turn,
                "step": 1,
                "purpose": "turn",
                "endpoint": "e",
                "model": "m",
                "thinking": False,
                "tools_offered": 0,
                "created_at": began_at,
            }
            await tx.execute(model_calls.insert().values(defaults | call))


async def count_used(database: Database, person: int = 5) -> int:
    return (await load_used(database, person)).canvases


async def load_used(database: Database, person: int = 5) -> UsedCanvases:
    async with database.read_transaction() as tx:
        return await limits.count_used_canvases(tx, person, TODAY)


@pytest.mark.parametrize(("tokens", "canvases"), [(0, 0), (1, 1), (256, 1), (257, 2), (1024, 4)])
async def test_a_call_costs_its_canvases_rounded_up(database: Database, tokens: int, canvases: int):
    await store_turn(database, {"completion_tokens": tokens})
    assert await count_used(database) == canvases


async def test_calls_that_were_not_counted_cost_one_canvas_each_whatever_the_number_of_blocks(
    database: Database,
):
    await store_turn(database, *[{"blocks": 120, "outcome": "ok", "seat_at": TODAY + 1}] * 5)
    assert await load_used(database) == UsedCanvases(5, unknown_calls=5)
    await store_turn(database, {"blocks": 2, "completion_tokens": 400, "usage_partial": True}, person=6)
    await store_turn(database, {"blocks": 2, "completion_tokens": 400}, person=6, began_at=TODAY + 2)
    assert await load_used(database, 6) == UsedCanvases(4, unknown_calls=1)


async def test_a_call_stopped_before_its_first_block_costs_the_canvas_it_had_begun(database: Database):
    await store_turn(database, {"outcome": "cancelled", "seat_at": TODAY + 1})
    assert await load_used(database) == UsedCanvases(1, unknown_calls=1)
    never_asked = {"outcome": "cancelled"}
    refused = {"outcome": "failed", "seat_at": TODAY + 1}
    await store_turn(database, never_asked, refused, person=6)
    assert await load_used(database, 6) == UsedCanvases(0, unknown_calls=2)


async def test_typed_reads_other_people_and_other_days_cost_nothing(database: Database):
    await store_turn(database, {"completion_tokens": 300, "purpose": "decision"})
    await store_turn(database, {"completion_tokens": 300}, person=6)
    await store_turn(database, {"completion_tokens": 300}, began_at=TODAY - 1)
    assert await count_used(database) == 0


@pytest.mark.parametrize("holder", [5, -100])
@pytest.mark.parametrize("ended_at", [None, TODAY + 20])
async def test_a_call_of_today_counts_whenever_its_turn_began(
    database: Database, holder: int, ended_at: float | None
):
    lane = str(holder)
    for days in (0.001, 0.5, 1.5, 3, 30):  # a turn waits for an approval, or while the gateway is off
        call = {"completion_tokens": 300, "created_at": TODAY + 5}
        await store_turn(database, call, began_at=TODAY - days * DAY, ended_at=ended_at, lane=lane)
    assert await count_used(database, holder) == 10


async def test_a_call_of_today_counts_in_a_turn_that_ended_before_it(database: Database):
    summary = {"completion_tokens": 300, "created_at": TODAY + 5}
    await store_turn(database, summary, began_at=TODAY - 60, ended_at=TODAY - 1)
    assert await count_used(database) == 2


async def test_rules_are_set_replaced_and_removed(database: Database):
    async with database.transaction() as tx:
        assert await limits.find_rules(tx, 5) == (None, None)
        await limits.put(tx, EVERYBODY, 100, set_by=1, now=0.0)
        await limits.put(tx, 5, 200, set_by=1, now=0.0)
        await limits.put(tx, 5, None, set_by=1, now=1.0)
        assert await limits.find_rules(tx, 5) == (QuotaRule(5, None), QuotaRule(EVERYBODY, 100))
        assert await limits.find_rules(tx, 6) == (None, QuotaRule(EVERYBODY, 100))
        await limits.remove(tx, EVERYBODY)
        assert await limits.list_rules(tx) == [QuotaRule(5, None)]
