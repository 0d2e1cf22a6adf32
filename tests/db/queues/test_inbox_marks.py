"""The inbox stores when a message was first skipped, asked about and claimed again, and its turn's spans."""

from typing import Any

from sqlalchemy import select

from bot.db.engine import Database
from bot.db.queues import inbox, requeued_items
from bot.db.tables import inbox as inbox_table
from tests.db.queues.test_inbox import LANE, OTHER, build_update, claim, finish, store


async def load_columns(database: Database, *names: str) -> list[tuple[Any, ...]]:
    async with database.read_transaction() as tx:
        query = select(*(inbox_table.c[name] for name in names)).order_by(inbox_table.c.id)
        return [tuple(row) for row in await tx.execute(query)]


async def test_a_message_claimed_at_once_was_never_seen_waiting(database: Database):
    await store(database, build_update(1))
    claimed = await claim(database, now=101.0)
    assert claimed.groups[0][0].taken_at == 101.0
    assert await load_columns(database, "seen_at", "taken_at") == [(None, 101.0)]


async def test_a_message_behind_another_was_seen_when_it_was_first_skipped(database: Database):
    await store(database, build_update(1))
    await claim(database, now=101.0)
    await store(database, build_update(2), build_update(3, lane=OTHER))
    await claim(database, now=102.0)
    await claim(database, now=103.0)
    await finish(database, 1, 3)
    await claim(database, now=104.0)
    assert await load_columns(database, "seen_at", "taken_at") == [
        (None, 101.0),
        (102.0, 104.0),
        (None, 102.0),
    ]


async def test_a_part_of_an_album_was_seen_when_it_waited_for_the_rest(database: Database):
    await store(database, build_update(1, not_before=102.0))
    await claim(database, now=101.0)
    await claim(database, now=102.5)
    assert await load_columns(database, "seen_at", "taken_at") == [(101.0, 102.5)]


async def test_a_claim_after_a_restart_keeps_the_first_time(database: Database):
    await store(database, build_update(1))
    await claim(database, now=101.0)
    async with database.transaction() as tx:
        await inbox.recover(tx, now=102.0)
    await claim(database, now=103.0)
    assert await load_columns(database, "taken_at", "retaken_at") == [(101.0, None)]


async def test_a_wait_for_consent_stores_when_it_began_and_ended_and_the_next_claim(database: Database):
    await store(database, build_update(1, shape="deep"))
    await claim(database, now=101.0)
    await finish(database, 1)
    async with database.transaction() as tx:
        assert await requeued_items.requeue(tx, 1, LANE, now=105.0)
    await claim(database, now=106.0)
    async with database.transaction() as tx:
        await inbox.recover(tx, now=107.0)
    await claim(database, now=108.0)
    assert await load_columns(database, "taken_at", "asked_at", "agreed_at", "retaken_at") == [
        (101.0, 101.0, 105.0, 106.0)
    ]


async def test_spans_are_stored_with_the_first_item_of_a_turn(database: Database):
    await store(database, build_update(1), build_update(2))
    await claim(database)
    async with database.transaction() as tx:
        await inbox.mark_done(tx, [1, 2], spans="[]", now=101.0)
    assert await load_columns(database, "state", "spans") == [("done", "[]"), ("done", None)]
