"""Transactions on a PostgreSQL server."""

import asyncio

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError

from bot.db.engine import Database
from bot.db.postgresql.session_locks import open_session_locks
from bot.db.transaction import Transaction
from bot.domain import Changes, Lane
from bot.errors import ReadTooSlow, StoreUnavailable
from tests.support.commits import CommitRecord

INSERT = text("INSERT INTO words VALUES (:word)")
COUNT = "SELECT count(*) FROM words"
COUNT_SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'"


async def insert(database: Database, *words: str, durable: bool = True) -> None:
    async with database.transaction(durable=durable) as tx:
        for word in words:
            await tx.execute(INSERT, {"word": word})


async def count(database: Database) -> int:
    async with database.read_transaction() as tx:
        return int((await tx.exec_driver_sql(COUNT)).scalar_one())


async def test_a_transaction_is_committed_at_its_end_and_rolled_back_by_an_error(server_database: Database):
    await insert(server_database, "kept")
    await insert(server_database, "kept, too", durable=False)
    with pytest.raises(DBAPIError):
        await insert(server_database, "lost", "kept")
    assert await count(server_database) == 2


async def test_a_list_of_one_row_is_stored_without_pipeline_mode(server_database: Database):
    is_listed: list[bool] = []

    def note(*_arguments: object, executemany: bool, **_options: object) -> None:
        is_listed.append(executemany)

    event.listen(Engine, "before_cursor_execute", note, named=True)
    try:
        async with server_database.transaction() as tx:
            await tx.execute(INSERT, [{"word": "alone"}])
            await tx.execute(INSERT, [{"word": "first"}, {"word": "second"}])
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert is_listed == [False, True]
    assert await count(server_database) == 3


async def test_a_read_sees_one_state_and_cannot_write(server_database: Database):
    async with server_database.read_transaction() as tx:
        assert (await tx.exec_driver_sql(COUNT)).scalar_one() == 0
        await insert(server_database, "later")
        assert (await tx.exec_driver_sql(COUNT)).scalar_one() == 0
        with pytest.raises(DBAPIError, match="read-only"):
            await tx.execute(INSERT, {"word": "never"})


async def test_a_read_that_takes_too_long_is_ended(server_database: Database):
    with pytest.raises(ReadTooSlow, match=r"longer than 0\.1 seconds"):
        async with server_database.long_read_transaction(0.1) as tx:
            await tx.exec_driver_sql("SELECT pg_sleep(60)")
    assert await count(server_database) == 0


async def test_a_cancelled_transaction_leaves_nothing_behind(server_database: Database):
    is_asleep = asyncio.Event()

    async def sleep() -> None:
        async with server_database.transaction() as tx:
            await tx.execute(INSERT, {"word": "lost"})
            is_asleep.set()
            await tx.exec_driver_sql("SELECT pg_sleep(60)")

    async with asyncio.TaskGroup() as tasks:
        sleeping = tasks.create_task(sleep())
        await is_asleep.wait()
        sleeping.cancel()
    async with server_database.read_transaction() as tx:
        assert (await tx.exec_driver_sql(COUNT_SLEEPING)).scalar_one() == 0
    await insert(server_database, "kept")
    assert await count(server_database) == 1


async def test_tasks_that_share_a_transaction_take_turns(server_database: Database):
    async with server_database.transaction() as tx, asyncio.TaskGroup() as tasks:
        for word in ("one", "two", "three"):
            tasks.create_task(insert_slowly(tx, word))
    assert await count(server_database) == 3


async def insert_slowly(tx: Transaction, word: str) -> None:
    await tx.exec_driver_sql("SELECT pg_sleep(0.01)")
    await tx.execute(INSERT, {"word": word})


class LaneNotifier(CommitRecord):
    """Has other processes told of each lane."""

    def build_notifications(self, changes: Changes) -> list[str]:
        return [lane.key for lane in changes.outbox_lanes]


async def test_others_are_told_by_the_same_commit(server_database: Database, server_url: str):
    server_database.set_listener(LaneNotifier())

    async def fail() -> None:
        async with server_database.transaction() as tx:
            tx.changes.note_outbox(Lane(8))
            raise ZeroDivisionError

    async with open_session_locks(server_url) as other:
        with pytest.raises(ZeroDivisionError):
            await fail()
        async with server_database.transaction() as tx:
            tx.changes.note_outbox(Lane(7))
        assert await anext(other.wait_for_notifications(60.0)) == "7"


async def test_where_the_server_says_nothing_of_a_commit_its_work_is_done_all_the_same(
    server_database: Database,
):
    commits = CommitRecord()
    server_database.set_listener(commits)

    async def lose_session() -> None:
        async with server_database.transaction() as tx:
            tx.changes.note_outbox(Lane(7))
            [number] = (await tx.exec_driver_sql("SELECT pg_backend_pid()")).scalars()
            async with server_database.read_transaction() as other:
                await other.exec_driver_sql(f"SELECT pg_terminate_backend({number})")

    with pytest.raises(StoreUnavailable):
        await lose_session()
    assert set(commits.lanes) == {Lane(7)}
