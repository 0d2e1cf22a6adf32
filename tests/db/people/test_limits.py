"""A person's canvases of a day, out of the ledger: estimated call by call, readings left out."""

from typing import Any

import pytest

from bot.db.engine import Database
from bot.db.people import limits
from bot.db.people.limits import EVERYBODY, Rule
from bot.db.tables import model_calls, turns

DAY = 86_400.0
TODAY = 100 * DAY


async def spend(
    database: Database, *calls: dict[str, Any], person: int = 5, began_at: float = TODAY + 1
) -> None:
    async with database.transaction() as tx:
        row = {
            "item": began_at * 100 + person,
            "lane": "5",
            "person": person,
            "conversation": 1,
            "state": "ended",
        }
        row |= {
            "tools": "[]",
            "thinking": False,
            "thinking_why": "",
            "received_at": began_at,
            "began_at": began_at,
        }
        turn = (await tx.execute(turns.insert().values(row).returning(turns.c.id))).scalar_one()
        for call in calls:
            made = {
                "turn": turn,
                "step": 1,
                "purpose": "turn",
                "endpoint": "e",
                "model": "m",
                "thinking": False,
            }
            made |= {"tools_offered": 0, "created_at": began_at}
            await tx.execute(model_calls.insert().values(made | call))


async def used(database: Database, person: int = 5) -> int:
    async with database.reading() as tx:
        return await limits.used(tx, person, TODAY)


@pytest.mark.parametrize(("tokens", "canvases"), [(0, 0), (1, 1), (256, 1), (257, 2), (1024, 4)])
async def test_a_call_costs_the_canvases_it_filled_or_began(database: Database, tokens: int, canvases: int):
    await spend(database, {"completion_tokens": tokens})
    assert await used(database) == canvases


async def test_a_call_that_was_not_counted_costs_the_blocks_it_sent(database: Database):
    await spend(database, {"blocks": 3}, {"outcome": "failed"})
    assert await used(database) == 3


async def test_readings_other_people_and_other_days_cost_nothing(database: Database):
    await spend(database, {"completion_tokens": 300, "purpose": "decision"})
    await spend(database, {"completion_tokens": 300}, person=6)
    await spend(database, {"completion_tokens": 300}, began_at=TODAY - 1)
    assert await used(database) == 0


async def test_a_call_of_today_counts_in_a_turn_of_yesterday(database: Database):
    await spend(database, {"completion_tokens": 300, "created_at": TODAY + 5}, began_at=TODAY - 60)
    assert await used(database) == 2


async def test_what_is_set_is_set_anew_and_taken_back(database: Database):
    async with database.transaction() as tx:
        assert await limits.rules_for(tx, 5) == (None, None)
        await limits.put(tx, EVERYBODY, 100, by=1, now=0.0)
        await limits.put(tx, 5, 200, by=1, now=0.0)
        await limits.put(tx, 5, None, by=1, now=1.0)
        assert await limits.rules_for(tx, 5) == (Rule(5, None), Rule(EVERYBODY, 100))
        assert await limits.rules_for(tx, 6) == (None, Rule(EVERYBODY, 100))
        await limits.remove(tx, EVERYBODY)
        assert await limits.rules(tx) == [Rule(5, None)]
