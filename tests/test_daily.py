"""The house's own jobs: written down at start, never twice, each given to the runner that its item names."""

import asyncio

import pytest
from sqlalchemy import select

from bot.db import inbox
from bot.db.engine import Database
from bot.db.tables import inbox as inbox_table
from bot.domain import InboxItem
from bot.house import Daily, Jobs


async def begun(database: Database) -> list[str]:
    """What has been written down once a process has begun."""
    woken = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(Daily(database, ("retention",), woken.set).run())
        await woken.wait()
        running.cancel()
    async with database.reading() as tx:
        return list((await tx.execute(select(inbox_table.c.body))).scalars())


async def test_a_job_is_written_down_at_start_unless_it_waits_still(database: Database):
    assert await begun(database) == ['{"job": "retention"}']
    assert await begun(database) == ['{"job": "retention"}']
    async with database.transaction() as tx:
        await inbox.done(tx, [1], now=1.0)
    assert len(await begun(database)) == 2


async def test_a_house_without_daily_jobs_writes_nothing_down(database: Database):
    await Daily(database, (), lambda: None).run()
    async with database.reading() as tx:
        assert (await tx.execute(select(inbox_table.c.id))).all() == []


async def test_an_item_goes_to_the_runner_of_its_job(database: Database):
    ran: list[int] = []

    async def run(items: tuple[InboxItem, ...]) -> None:
        ran.append(items[0].id)

    await begun(database)
    async with database.transaction() as tx:
        [items] = (await inbox.claim(tx, now=1.0)).groups
    await Jobs({"retention": run, "other": run})(items)
    assert ran == [1]
    with pytest.raises(KeyError):
        await Jobs({"other": run})(items)
