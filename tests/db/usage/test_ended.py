"""What has ended is reported once, in any order; what had ended before the first poll is not."""

import asyncio
from typing import Any

from sqlalchemy import insert, update

from bot.db.engine import Database
from bot.db.tables import accounts, inbox, model_calls, outbox, turns
from bot.db.usage.ended import INTERVALS, MAX_COMMIT_SECONDS, MAX_SETTLE_SECONDS, EndedWatcher, QueueDepths

TURN = {"lane": "7", "person": 7, "conversation": 1, "tools": "[]", "thinking": False, "thinking_why": ""}
CALL = {"step": 1, "purpose": "turn", "endpoint": "e", "model": "m", "thinking": False, "tools_offered": 0}


async def open_watcher(database: Database) -> EndedWatcher:
    watcher = EndedWatcher(database, page_rows=2)
    await watcher.begin()
    return watcher


async def insert_row(database: Database, table: Any, **row: Any) -> None:
    async with database.transaction() as tx:
        await tx.execute(insert(table).values(row))


async def update_row(database: Database, table: Any, number: int, **row: Any) -> None:
    async with database.transaction() as tx:
        await tx.execute(update(table).where(table.c.id == number).values(row))


async def poll_call_ids(watcher: EndedWatcher) -> list[int]:
    return [row.id for row in (await watcher.poll(now=0.0)).calls]


async def test_calls_are_reported_once_in_any_order(database: Database):
    await insert_row(database, model_calls, **CALL, created_at=1.0, outcome="ok")
    watcher = await open_watcher(database)
    for _ in range(5):
        await insert_row(database, model_calls, **CALL, created_at=1.0)
    assert await poll_call_ids(watcher) == []
    await update_row(database, model_calls, 4, outcome="ok")
    await update_row(database, model_calls, 6, outcome="ok")
    assert await poll_call_ids(watcher) == [4, 6]
    await update_row(database, model_calls, 2, outcome="cut")
    assert await poll_call_ids(watcher) == [2]
    for number in (3, 5):
        await update_row(database, model_calls, number, outcome="ok")
    assert await poll_call_ids(watcher) == [3, 5]
    assert await poll_call_ids(watcher) == []


async def test_a_call_whose_number_is_lower_than_that_of_one_reported_is_not_missed(database: Database):
    """On PostgreSQL a transaction may commit later than one that got higher ids."""
    watcher = await open_watcher(database)
    now = 1_000.0
    for number, also_wanted in ((5, []), (3, []), (4, []), (1, [2])):
        for call in (number, *also_wanted):
            await insert_row(database, model_calls, **CALL, id=call, created_at=1.0, outcome="ok")
        assert [row.id for row in (await watcher.poll(now=now)).calls] == [number, *also_wanted]
        now += MAX_COMMIT_SECONDS / 4
    for _ in range(10):
        now += MAX_COMMIT_SECONDS / 4
        assert (await watcher.poll(now=now)).calls == ()


async def test_a_poll_yields_to_the_event_loop_between_pages(database: Database):
    watcher = await open_watcher(database)
    for _ in range(5):
        await insert_row(database, model_calls, **CALL, created_at=1.0, outcome="ok")
    polling = asyncio.get_running_loop().create_task(poll_call_ids(watcher))
    await asyncio.sleep(0)
    assert not polling.done()
    assert await polling == [1, 2, 3, 4, 5]


async def test_an_active_turn_is_reported_when_it_ends_and_its_account_when_it_is_made(
    database: Database,
):
    for item in (1, 2):
        row = {"item": item, "received_at": 1.0, "began_at": 1.0}
        await insert_row(database, turns, **TURN, **row, state="ended", ending="answered", ended_at=2.0)
    await insert_row(database, turns, **TURN, item=3, received_at=1.0, began_at=1.0, state="running")
    pending = {"kind": "update", "shape": "text", "lane": "7", "received_at": 1.0}
    await insert_row(database, inbox, **pending, id=2, state="done", turn=2)
    await insert_row(database, outbox, item=2, lane="7", final=True, state="new", made_at=1.0)
    await insert_row(database, inbox, **pending, id=3, state="new", turn=3)
    watcher = await open_watcher(database)
    assert await watcher.count_waiting() == QueueDepths(1, 1, 1.0, 0)
    assert (await watcher.poll(now=3.0)).turns == ()
    await update_row(database, turns, 3, ending="stopped", ended_at=5.0)
    seconds = dict.fromkeys(INTERVALS, 0.0)
    for turn in (2, 3):
        await insert_row(database, accounts, turn=turn, settled_at=6.0, **seconds | {"whole": float(turn)})
    result = await watcher.poll(now=6.0)
    assert [row.ending for row in result.turns] == ["stopped"]
    assert [row.whole for row in result.accounts] == [2.0, 3.0]
    again = await watcher.poll(now=6.0)
    assert (again.turns, again.accounts) == ((), ())


async def test_a_turn_without_an_account_is_not_waited_for_forever(database: Database):
    watcher = await open_watcher(database)
    for item in (1, 2, 3):
        row = {"item": item, "received_at": 1.0, "began_at": 1.0, "ended_at": 5.0}
        await insert_row(database, turns, **TURN, **row, state="ended", ending="limit")
    assert (await watcher.poll(now=10.0)).accounts == ()
    assert (await watcher.poll(now=10.0 + MAX_SETTLE_SECONDS)).accounts == ()
    await insert_row(database, accounts, turn=1, settled_at=6.0, **dict.fromkeys(INTERVALS, 1.0))
    assert (await watcher.poll(now=10.0 + MAX_SETTLE_SECONDS)).accounts == ()
