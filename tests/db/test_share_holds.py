"""Holds of shares: who loses one can write nothing more for its chats."""

import asyncio

import pytest
from sqlalchemy import func, select

from bot.db import share_holds, shares
from bot.db.engine import Database, open_database
from bot.db.queues import inbox, incoming_updates
from bot.db.shares import ShareHold
from bot.db.tables import lives
from bot.db.transaction import Transaction
from bot.db.usage import process_lives
from bot.db.write_queue import WriteQueue
from bot.domain import Lane
from bot.errors import ShareLost
from tests.db.queues.test_inbox import build_update
from tests.support.postgresql import PostgresServer

SHOW_LIMIT = "SHOW idle_in_transaction_session_timeout"


async def test_work_under_a_lost_hold_writes_nothing(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database, open_database(url) as other_database:
            async with database.transaction() as tx:
                first = await process_lives.begin(tx, began_at=1.0)
                second = await process_lives.begin(tx, began_at=2.0)
                [hold, kept] = await share_holds.take_over(tx, [4, 5], first, now=3.0)
            assert hold == ShareHold(4, epoch=1)
            async with database.transaction() as tx:
                assert await share_holds.take_over(tx, [4], first, now=3.5, kept=[hold]) == [hold]
            with shares.work_under(hold):
                async with asyncio.TaskGroup() as tasks, database.transaction() as tx:
                    await process_lives.record_heartbeat(tx, first, now=4.0)
                    taking_over = tasks.create_task(_take_over(other_database, 4, second))
                    await _wait_for_lock_wait(database)
                assert taking_over.result() == [ShareHold(4, epoch=2)]
                with pytest.raises(ShareLost):
                    async with database.transaction() as tx:
                        await process_lives.record_heartbeat(tx, first, now=6.0)
            with shares.work_under(kept):
                async with database.transaction() as tx:
                    assert await share_holds.lock_standing(tx, [hold, kept]) == {kept}
            async with database.read_transaction() as tx:
                assert await share_holds.list_gaps(tx, 4, since=0.0) == [(4.0, 5.0)]
                assert await share_holds.list_gaps(tx, 5, since=0.0) == []


async def test_a_claim_keeps_its_share_and_takes_nothing_of_a_lost_one(postgresql_server: PostgresServer):
    lane = Lane(5)
    with postgresql_server.open_database() as url:
        async with open_database(url) as database, open_database(url) as other_database:
            async with database.transaction() as tx:
                first = await process_lives.begin(tx, began_at=1.0)
                second = await process_lives.begin(tx, began_at=2.0)
                holds = await share_holds.take_over(tx, [lane.share, lane.share + 1], first, now=3.0)
                await incoming_updates.store(
                    tx, [build_update(1, lane=lane), build_update(2, lane=lane)], now=3.0
                )
            async with asyncio.TaskGroup() as tasks, database.transaction() as tx:
                [[one, two]] = (await inbox.claim(tx, now=4.0, holds=holds)).groups
                tasks.create_task(_take_over(other_database, lane.share, second))
                await _wait_for_lock_wait(other_database)
            async with database.transaction() as tx:
                await inbox.mark_done(tx, [one.id, two.id], now=5.0)
                await incoming_updates.store(tx, [build_update(3, lane=lane)], now=5.0)
            with pytest.raises(ShareLost):
                async with database.transaction() as tx:
                    await inbox.claim(tx, now=6.0, holds=holds)
            async with database.transaction() as tx:
                newer = ShareHold(lane.share, epoch=2)
                [[three]] = (await inbox.claim(tx, now=6.0, holds=[newer])).groups
            assert (three.id, three.attempt) == (3, 1)


@pytest.mark.parametrize("lost_first", [True, False])
async def test_small_writes_under_a_lost_hold_fail_alone(
    postgresql_server: PostgresServer, *, lost_first: bool
):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database:
            async with database.transaction() as tx:
                first = await process_lives.begin(tx, began_at=1.0)
                second = await process_lives.begin(tx, began_at=1.0)
                [kept, lost] = await share_holds.take_over(tx, [4, 5], first, now=2.0)
                await share_holds.take_over(tx, [5], second, now=3.0)
            queue = WriteQueue(database)
            writes = {}
            for hold in (lost, kept, None) if lost_first else (kept, None, lost):
                with shares.work_under(hold):
                    writes[hold] = queue.enqueue(_count_lives)
            queue.close()
            await queue.run()
            assert [await writes[kept], await writes[None]] == [2, 2]
            with pytest.raises(ShareLost):
                await writes[lost]


async def _count_lives(tx: Transaction) -> int:
    return int((await tx.execute(select(func.count()).select_from(lives))).scalar_one())


async def test_a_share_given_away_leaves_no_gap(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database:
            async with database.transaction() as tx:
                first = await process_lives.begin(tx, began_at=1.0)
                second = await process_lives.begin(tx, began_at=1.0)
                holds = await share_holds.take_over(tx, [7], first, now=2.0)
            async with database.transaction() as tx:
                await share_holds.end_holds(tx, holds, now=3.0)
            async with database.transaction() as tx:
                await share_holds.take_over(tx, [7], second, now=3.0)
            async with database.read_transaction() as tx:
                assert await share_holds.list_gaps(tx, 7, since=2.5) == [(3.0, 3.0)]


async def test_old_holds_are_deleted_but_the_last_of_each_share(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database:
            async with database.transaction() as tx:
                life = await process_lives.begin(tx, began_at=1.0)
                await share_holds.take_over(tx, [5], life, now=2.0)
                for moment in (10.0, 20.0, 30.0):
                    [hold] = await share_holds.take_over(tx, [7], life, now=moment)
                    await share_holds.end_holds(tx, [hold], now=moment + 4.0)
            async with database.transaction() as tx:
                assert await share_holds.list_gaps(tx, 7, since=0.0) == [(14.0, 20.0), (24.0, 30.0)]
                await share_holds.delete_old(tx, before=25.0)
                assert await share_holds.list_gaps(tx, 7, since=25.0) == [(24.0, 30.0)]
                assert await share_holds.list_gaps(tx, 7, since=0.0) == [(24.0, 30.0)]
                await share_holds.delete_old(tx, before=1000.0)
                assert await share_holds.take_over(tx, [5, 7], life, now=40.0) == [
                    ShareHold(5, epoch=2),
                    ShareHold(7, epoch=4),
                ]


async def _take_over(database: Database, share: int, life: int) -> list[ShareHold]:
    async with database.transaction() as tx:
        return await share_holds.take_over(tx, [share], life, now=5.0)


async def _wait_for_lock_wait(database: Database) -> None:
    """Wait until a session waits for what another one has locked."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    is_waiting = False
    while not is_waiting:
        async with database.read_transaction() as tx:
            is_waiting = bool((await tx.exec_driver_sql(waiting)).scalar_one())


async def test_a_process_paused_in_a_write_keeps_nobody_waiting_for_long(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database:
            async with database.read_transaction() as tx:
                readers_limit = (await tx.exec_driver_sql(SHOW_LIMIT)).scalar_one()
            async with database.transaction() as tx:
                assert (await tx.exec_driver_sql(SHOW_LIMIT)).scalar_one() == "5s"
            assert readers_limit == "0"
