"""Small writes keep their order, share commits, and wait while the database cannot be written."""

import asyncio
import sqlite3
from functools import partial

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError

from bot.db.database_url import parse_database_path
from bot.db.engine import Database, open_database
from bot.db.retry import OutageLog
from bot.db.tables import notices
from bot.db.transaction import Transaction
from bot.db.write_queue import WriteQueue
from tests.support.sql_trace import trace_sql

pytestmark = pytest.mark.sqlite


async def insert_notice(tx: Transaction, subject: str) -> str:
    await tx.execute(insert(notices).values(subject=subject, text="", told_at=0.0))
    return subject


async def list_subjects(database: Database) -> list[str]:
    async with database.read_transaction() as tx:
        return list((await tx.execute(select(notices.c.subject).order_by(text("rowid")))).scalars())


async def test_operations_run_in_order_with_one_commit(database: Database):
    queue = WriteQueue(database)
    with trace_sql() as trace:
        async with asyncio.TaskGroup() as tasks:
            enqueued = [queue.enqueue(partial(insert_notice, subject=str(n))) for n in range(50)]
            last = tasks.create_task(queue.write(partial(insert_notice, subject="last")))
            await asyncio.sleep(0)
            tasks.create_task(queue.run())
            assert await last == "last"
            assert [done.result() for done in enqueued] == [str(n) for n in range(50)]
            queue.close()
    assert [commit.is_synced for commit in trace.commits] == [True]
    assert len(trace.statements) == 51
    assert await list_subjects(database) == [str(n) for n in range(50)] + ["last"]


async def test_what_has_to_be_synced_never_joins_a_commit_that_is_not(database: Database):
    queue = WriteQueue(database)
    with trace_sql() as trace:
        async with asyncio.TaskGroup() as tasks:
            async with database.transaction():
                queue.enqueue(partial(insert_notice, subject="first"), durable=False)
                tasks.create_task(queue.run())
                await asyncio.sleep(0)  # it waits for the transaction
                synced = queue.enqueue(partial(insert_notice, subject="synced"))
                last = queue.enqueue(partial(insert_notice, subject="last"), durable=False)
            await asyncio.wait([synced, last])
            queue.close()
    assert [commit.is_synced for commit in trace.commits] == [True, False, True]
    assert await list_subjects(database) == ["first", "synced", "last"]


async def test_an_operation_that_always_fails_does_not_affect_others(database: Database):
    queue = WriteQueue(database)
    async with asyncio.TaskGroup() as tasks:
        first = queue.enqueue(partial(insert_notice, subject="one"))
        duplicate = queue.enqueue(partial(insert_notice, subject="one"))
        second = queue.enqueue(partial(insert_notice, subject="other"))
        cancelled = queue.enqueue(partial(insert_notice, subject="given up"))
        cancelled.cancel()
        cancelled_duplicate = queue.enqueue(partial(insert_notice, subject="one"))
        cancelled_duplicate.cancel()
        tasks.create_task(queue.run())
        with pytest.raises(IntegrityError):
            await duplicate
        assert await second == "other"
        assert first.result() == "one"
        queue.close()
    assert await list_subjects(database) == ["one", "other", "given up"]


async def test_a_database_that_cannot_be_written_is_waited_for(
    database_url: str, caplog: pytest.LogCaptureFixture
):
    stop = asyncio.Event()
    stop.set()  # the database waits only briefly for the lock
    async with open_database(database_url, OutageLog(), stop) as database:
        assert await list_subjects(database) == []
        blocker = sqlite3.connect(parse_database_path(database_url), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        queue = WriteQueue(database)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(queue.run())
            waiting = queue.enqueue(partial(insert_notice, subject="late"))
            async with asyncio.timeout(60):
                while not caplog.records:  # noqa: ASYNC110  # it logs that it waits
                    await asyncio.sleep(0.01)
            assert not waiting.done()
            blocker.execute("ROLLBACK")
            blocker.close()
            assert await waiting == "late"
            queue.close()
        assert await list_subjects(database) == ["late"]
    actions = [record.action for record in caplog.records]  # type: ignore[attr-defined]
    assert actions == ["store.away", "store.back"]


async def test_a_closed_queue_does_not_wait_for_a_database_that_cannot_be_written(
    database: Database, database_url: str
):
    blocker = sqlite3.connect(parse_database_path(database_url), isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    queue = WriteQueue(database)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(queue.run())
        queue.enqueue(partial(insert_notice, subject="too late"))
        await asyncio.sleep(0.05)
        queue.close()
    blocker.execute("ROLLBACK")
    blocker.close()
    assert await list_subjects(database) == []
