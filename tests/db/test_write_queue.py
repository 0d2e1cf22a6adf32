"""Small writes keep their order, share commits and outlast a database that cannot be written."""

import asyncio
import sqlite3
from functools import partial

import pytest
from sqlalchemy import event, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.engine import Database, parse_database_path
from bot.db.tables import notices
from bot.db.write_queue import WriteQueue


async def insert_notice(tx: AsyncConnection, subject: str) -> str:
    await tx.execute(insert(notices).values(subject=subject, text="", told_at=0.0))
    return subject


async def list_subjects(database: Database) -> list[str]:
    async with database.read_transaction() as tx:
        return list((await tx.execute(select(notices.c.subject).order_by(text("rowid")))).scalars())


async def test_entries_are_written_in_order_with_one_commit(database: Database):
    commits: list[object] = []
    event.listen(database._engine.sync_engine, "commit", commits.append)
    ledger = WriteQueue(database)
    async with asyncio.TaskGroup() as tasks:
        posted = [ledger.enqueue(partial(insert_notice, subject=str(n))) for n in range(50)]
        last = tasks.create_task(ledger.write(partial(insert_notice, subject="last")))
        await asyncio.sleep(0)
        tasks.create_task(ledger.run())
        assert await last == "last"
        assert [one.result() for one in posted] == [str(n) for n in range(50)]
        ledger.close()
    assert len(commits) == 1
    assert await list_subjects(database) == [str(n) for n in range(50)] + ["last"]


async def test_an_entry_that_can_never_be_written_takes_no_other_with_it(database: Database):
    ledger = WriteQueue(database)
    async with asyncio.TaskGroup() as tasks:
        one, twice, other = (
            ledger.enqueue(partial(insert_notice, subject=name)) for name in ("one", "one", "other")
        )
        given_up = ledger.enqueue(partial(insert_notice, subject="given up"))
        given_up.cancel()
        given_up_twice = ledger.enqueue(partial(insert_notice, subject="one"))
        given_up_twice.cancel()
        tasks.create_task(ledger.run())
        with pytest.raises(IntegrityError):
            await twice
        assert await other == "other"
        assert one.result() == "one"
        ledger.close()
    assert await list_subjects(database) == ["one", "other", "given up"]


async def test_a_database_that_cannot_be_written_is_waited_for(
    database: Database, database_url: str, caplog: pytest.LogCaptureFixture
):
    async with database.transaction() as tx:
        await tx.execute(text("PRAGMA busy_timeout=1"))
    other = sqlite3.connect(parse_database_path(database_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ledger = WriteQueue(database)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ledger.run())
        waiting = ledger.enqueue(partial(insert_notice, subject="late"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.5)
        other.execute("ROLLBACK")
        other.close()
        assert await waiting == "late"
        ledger.close()
    assert await list_subjects(database) == ["late"]
    assert {record.action for record in caplog.records} == {"ledger.again"}  # type: ignore[attr-defined]


async def test_a_closed_ledger_does_not_wait_for_a_database_that_cannot_be_written(
    database: Database, database_url: str
):
    async with database.transaction() as tx:
        await tx.execute(text("PRAGMA busy_timeout=1"))
    other = sqlite3.connect(parse_database_path(database_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ledger = WriteQueue(database)
    async with asyncio.timeout(30.0), asyncio.TaskGroup() as tasks:
        tasks.create_task(ledger.run())
        ledger.enqueue(partial(insert_notice, subject="too late"))
        await asyncio.sleep(0.05)
        ledger.close()
    other.execute("ROLLBACK")
    other.close()
    assert await list_subjects(database) == []
