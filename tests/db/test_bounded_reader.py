"""Reads of the admin page end in time, write nothing, and notice another version."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from bot.db.bounded_reader import BoundedReader, open_bounded_reader
from bot.db.engine import Database, open_database
from bot.db.readonly import open_readonly
from bot.errors import ReadTooSlow, SchemaUnknown, StoreUnavailable

pytestmark = pytest.mark.sqlite

COUNT_FOREVER = text(
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT count(*) FROM numbers"
)
COUNT_TO_A_HUNDRED_THOUSAND = text(
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 100000)"
    " SELECT count(*) FROM numbers"
)


async def test_a_read_that_takes_too_long_is_ended_and_the_next_one_works(database_url: str):
    async with open_readonly(database_url) as database:
        reader = BoundedReader(database, read_seconds=0.05)
        with pytest.raises(ReadTooSlow, match=r"longer than 0\.05 seconds"):
            async with reader.read() as tx:
                await tx.execute(COUNT_FOREVER)
        async with reader.read() as tx:
            assert (await tx.execute(text("SELECT 1"))).scalar_one() == 1


@pytest.fixture
def pause_function() -> Iterator[None]:
    """SQL's `pause(seconds)` in every connection: time that passes without work."""

    def add_pause(connection: Any, _record: object) -> None:
        connection.create_function("pause", 1, time.sleep)

    event.listen(Engine, "connect", add_pause)
    yield
    event.remove(Engine, "connect", add_pause)


@pytest.mark.usefixtures("pause_function")
async def test_a_read_that_waits_for_the_processor_is_given_more_time(database_url: str):
    async with (
        open_readonly(database_url) as database,
        BoundedReader(database, read_seconds=1.0).read() as tx,
    ):
        await tx.execute(text("SELECT pause(1.1)"))
        assert (await tx.execute(COUNT_TO_A_HUNDRED_THOUSAND)).scalar_one() == 100_000


async def test_a_long_read_holds_up_no_writer(database_url: str):
    async with open_database(database_url) as gateway, open_readonly(database_url) as database:
        async with gateway.transaction():
            pass  # from here on the file has a write-ahead log
        reader = BoundedReader(database, read_seconds=5.0)
        reading = asyncio.Event()

        async def count_forever() -> None:
            async with reader.read() as tx:
                reading.set()
                await tx.execute(COUNT_FOREVER)

        async def count_in_vain() -> None:
            with pytest.raises(ReadTooSlow):
                await count_forever()

        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(count_in_vain())
            await reading.wait()
            async with gateway.transaction() as tx:
                await tx.execute(text("INSERT INTO revisions VALUES ('tools', 1)"))
            async with reader.read_briefly() as tx:
                assert (await tx.execute(text("SELECT 1"))).scalar_one() == 1
            assert not counting.done()


async def test_nothing_can_be_written(database_url: str):
    async with open_bounded_reader(database_url) as reader:
        with pytest.raises(StoreUnavailable, match="readonly"):
            async with reader.read() as tx:
                await tx.execute(text("DELETE FROM people"))


async def test_a_schema_that_changes_below_it_is_said(database_url: str, database: Database):
    async with open_bounded_reader(database_url) as reader:
        async with database.transaction() as tx:
            await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        for read in (reader.read, reader.read_briefly):
            with pytest.raises(SchemaUnknown, match="schema 9999"):
                async with read():
                    pass
