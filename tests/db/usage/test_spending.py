"""What turns took is summed from their calls; unknown is never taken for zero."""

from typing import Any

from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import accounts, model_calls, turns
from bot.db.usage import spending
from bot.db.usage.spending import SpendingSums
from bot.db.usage.usage_sums import Scope
from bot.domain import Lane

LANE = Lane(5)


async def store_turn(
    database: Database, item: int, *calls: tuple[int | None, int | None, bool], **changes: Any
) -> None:
    row = {"item": item, "lane": LANE.key, "person": 5, "conversation": 1, "state": "ended", "tools": "[]"}
    row |= {"thinking": False, "thinking_why": "", "received_at": 100.0, "began_at": 101.0, "ended_at": 104.5}
    async with database.transaction() as tx:
        turn = (await tx.execute(turns.insert().values(row | changes).returning(turns.c.id))).scalar_one()
        for step, (inputs, outputs, partial) in enumerate(calls):
            call = {
                "turn": turn,
                "step": step,
                "purpose": "turn",
                "endpoint": "e",
                "model": "m",
                "thinking": False,
            }
            counts = {"prompt_tokens": inputs, "completion_tokens": outputs, "usage_partial": partial}
            await tx.execute(
                model_calls.insert().values(call | counts | {"tools_offered": 0, "created_at": 101.0})
            )


async def sum_last_turn(database: Database, lane: Lane = LANE) -> SpendingSums | None:
    async with database.read_transaction() as tx:
        last = await spending.load_newest_turn(tx, lane)
        return None if last is None else last.spending


async def sum_person(database: Database, person: int = 5, begin: float = 0.0) -> SpendingSums:
    async with database.read_transaction() as tx:
        return await spending.sum_turns(tx, Scope(since=begin, user=person))


async def test_a_lane_without_turns_has_no_last_one(database: Database):
    assert await sum_last_turn(database) is None
    assert await sum_person(database) == SpendingSums(0, 0, None, None, None, 0.0, is_complete=True)


async def test_canvases_are_rounded_up_call_by_call(database: Database):
    await store_turn(database, 1, (100, 257, False), (400, 1, False), (500, 256, False))
    assert await sum_last_turn(database) == SpendingSums(1, 3, 1000, 514, 4, 4.5, is_complete=True)


async def test_a_call_without_counts_makes_the_sum_a_lower_bound(database: Database):
    await store_turn(database, 1, (100, 10, False), (None, None, False))
    assert await sum_last_turn(database) == SpendingSums(1, 2, 100, 10, 1, 4.5, is_complete=False)


async def test_a_cut_call_makes_the_sum_a_lower_bound(database: Database):
    await store_turn(database, 1, (100, 10, True))
    sums = await sum_last_turn(database)
    assert sums is not None
    assert not sums.is_complete


async def test_without_any_counts_the_sums_are_unknown(database: Database):
    await store_turn(database, 1, (None, None, False))
    assert await sum_last_turn(database) == SpendingSums(1, 1, None, None, None, 4.5, is_complete=False)


async def test_a_turn_without_calls_counts_its_seconds(database: Database):
    await store_turn(database, 1)
    assert await sum_last_turn(database) == SpendingSums(1, 0, None, None, None, 4.5, is_complete=True)


async def test_the_last_turn_is_the_lanes_newest_ended_one(database: Database):
    await store_turn(database, 1, (1, 1, False), ended_at=200.0, received_at=199.0)
    await store_turn(database, 2, (2, 2, False), ended_at=150.0, received_at=149.0)
    await store_turn(database, 3, (3, 3, False), ended_at=None, state="running")
    await store_turn(database, 4, (4, 4, False), ended_at=300.0, lane="6")
    await store_turn(database, 5, ended_at=250.0, ending="limit")  # refused: no answer
    assert await sum_last_turn(database) == SpendingSums(1, 1, 1, 1, 1, 1.0, is_complete=True)


async def test_seconds_are_those_of_the_account_until_the_answer_is_delivered(database: Database):
    await store_turn(database, 1, (100, 10, False))
    await store_turn(database, 2, (100, 10, False), person=6, lane="6")
    account = dict.fromkeys((column.name for column in accounts.columns), 0.0)
    account |= {"turn": 1, "whole": 7.25, "own": 7.25}
    async with database.transaction() as tx:
        await tx.execute(accounts.insert().values(account))
    sums = await sum_last_turn(database)
    assert sums is not None
    assert sums.seconds == 7.25
    assert (await sum_person(database)).seconds == 7.25
    async with database.read_transaction() as tx:
        overview = await spending.load_overview(tx, 0.0, 9)
    assert (overview.total.turns, overview.total.seconds) == (2, 7.25 + 4.5)
    assert {spender.name: spender.spending.seconds for spender in overview.people} == {"5": 7.25, "6": 4.5}


async def test_a_day_holds_all_turns_of_a_person_since_it_began(database: Database):
    await store_turn(database, 1, (1, 1, False), received_at=99.0, began_at=99.0)
    await store_turn(database, 2, (2, 300, False))
    await store_turn(database, 3, (3, 3, False), lane="5:7")
    await store_turn(database, 4, (4, 4, False), person=6)
    await store_turn(database, 5, (5, 5, False), ended_at=None)
    assert await sum_person(database, begin=100.0) == SpendingSums(3, 3, 10, 308, 4, 9.0, is_complete=True)


async def test_a_turn_belongs_to_the_day_of_its_receipt_for_one_person_and_for_everybody(database: Database):
    await store_turn(database, 1, (1, 300, False), received_at=99.0, began_at=101.0)
    await store_turn(database, 2, (2, 300, False), received_at=100.0, began_at=101.0)
    async with database.read_transaction() as tx:
        overview = await spending.load_overview(tx, 100.0, 3)
    assert overview.total == await sum_person(database, begin=100.0)
    assert overview.total.turns == 1


async def add_call(database: Database, **columns: Any) -> None:
    row = {"turn": 1, "step": 9, "purpose": "turn", "endpoint": "main", "model": "m", "thinking": False}
    row |= {"tools_offered": 0, "created_at": 101.0}
    async with database.transaction() as tx:
        await tx.execute(model_calls.insert().values(row | columns))


async def test_a_decision_read_costs_no_canvas(database: Database):
    await store_turn(database, 1, (100, 257, False))
    await add_call(database, purpose="decision", prompt_tokens=141, completion_tokens=4)
    assert await sum_last_turn(database) == SpendingSums(1, 2, 241, 261, 2, 4.5, is_complete=True)


async def test_the_overview_names_those_who_took_the_most(database: Database):
    await store_turn(database, 1, (100, 257, False))
    await store_turn(database, 2, (100, 10, False), person=6, lane="6")
    await store_turn(database, 3, (100, 1000, False), person=6, lane="6:2")
    await store_turn(database, 4, (None, None, False), person=7, lane="7")
    await store_turn(database, 5, (100, 99_999, False), person=8, lane="8", received_at=50.0)
    async with database.transaction() as tx:
        await people.put(tx, 6, "Bob", "member", now=0.0)
        await people.remove(tx, 6, now=1.0)  # and is still named
    async with database.read_transaction() as tx:
        few = await spending.load_overview(tx, 100.0, 2)
        overview = await spending.load_overview(tx, 100.0, 9)
    ranked = [(spender.name, spender.spending.canvases, spender.spending.turns) for spender in few.people]
    assert ranked == [("Bob", 5, 2), ("5", 2, 1)]
    assert [spender.name for spender in overview.chats] == ["Bob (6:2)", "5", "Bob (6)", "7"]
    assert overview.chats[-1].spending.canvases is None
    assert overview.total == few.total == SpendingSums(4, 4, 300, 1267, 7, 18.0, is_complete=False)
