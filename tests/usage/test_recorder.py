"""The keeper stores what is measured with every heartbeat, makes accounts once they can be made, and takes up
what an earlier process has left.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.tables import accounts, durations, inbox, lives, outbox, turns
from bot.db.usage import breakdowns as rows
from bot.domain import InboxItem, Lane
from bot.usage import recorder as room
from bot.usage.intervals import Span, read, written
from bot.usage.recorder import Keeper
from bot.usage.timers import Watches
from tests.db.usage.test_breakdowns import item, part, turn
from tests.queue.test_worker import Flaky

LANE = Lane(5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "BEAT", 0.005)


@asynccontextmanager
async def keeping(database: Database, watches: Watches) -> AsyncIterator[None]:
    """A keeper at work; it is stopped in good order."""
    keeper = Keeper(database, watches)
    await keeper.begin()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(keeper.run())
        try:
            yield
        finally:
            keeper.stop()


async def column(database: Database, query: Any) -> list[Any]:
    async with database.reading() as tx:
        return list((await tx.execute(query)).scalars())


async def until(so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await so():  # noqa: ASYNC110 another task writes it
            await asyncio.sleep(0.002)


async def accounted(database: Database) -> bool:
    async with database.reading() as tx:
        return await rows.accounted(tx)


def taken(id: int, attempt: int = 1) -> InboxItem:
    return InboxItem(id, "update", "text", LANE, 5, {}, attempt, False, 100.0, 100.5)


async def test_a_process_says_when_it_began_and_that_it_ended_in_good_order(database: Database):
    async with keeping(database, Watches(50.0)):
        assert await column(database, select(lives.c.ended_at)) == [None]
    assert await column(database, select(lives.c.began_at)) == [50.0]
    assert await column(database, select(lives.c.seen_at)) == await column(database, select(lives.c.ended_at))


async def test_what_a_turn_is_at_is_stored_with_every_heartbeat(database: Database):
    watches, first = Watches(), await item(database, 1, "running")
    await turn(database, first, state="running", ended_at=None)
    watch = watches.open(taken(first), LANE)
    async with keeping(database, watches):
        with watch.at("seat wait"):
            await until(lambda: stored(database, first, "seat wait"))
    assert await column(database, select(accounts.c.turn)) == []


async def stored(database: Database, item: int, kind: str) -> bool:
    [text] = await column(database, select(inbox.c.spans).where(inbox.c.id == item))
    return kind in {span.kind for span in read(text)}


async def test_a_delivered_turn_gets_its_account_and_is_measured_no_more(database: Database):
    watches, first = Watches(), await item(database, 1)
    made = await turn(database, first)
    await part(database, first, "open")
    watch = watches.open(taken(first), LANE)
    watch.add(Span("first canvas", 101.0, 104.5))
    watch.hand_on()
    async with keeping(database, watches):
        await until(lambda: stored(database, first, "first canvas"))
        watch.add(Span("Telegram", 104.5, 105.0))
        async with database.transaction() as tx:
            await tx.execute(outbox.update().values(state="done"))
        await until(lambda: accounted(database))
        await until(lambda: done(watches))
    assert await column(database, select(accounts.c.turn)) == [made]
    assert await column(database, select(accounts.c.telegram)) == [0.5]
    assert await column(database, select(inbox.c.spans)) == [None]
    assert await column(database, select(durations.c.kind).where(durations.c.kind == "whole")) == ["whole"]


async def done(watches: Watches) -> bool:
    return not [*watches]


async def test_what_an_earlier_process_left_is_taken_up_with_the_time_without_one(database: Database):
    async with keeping(database, Watches(90.0)):
        pass
    async with database.transaction() as tx:
        await tx.execute(lives.update().values(seen_at=103.0, ended_at=None))
    measured = written([Span("own", 101.0, 103.0)])
    first = await item(database, 1, spans=measured)
    await turn(database, first)
    await part(database, first, "done", done_at=106.0)
    async with keeping(database, Watches(104.0)):
        await until(lambda: accounted(database))
    assert await column(database, select(accounts.c.down)) == [1.0]
    assert await column(database, select(accounts.c.own)) == [4.5]
    assert await column(database, select(accounts.c.whole)) == [6.0]


async def test_a_turn_found_running_is_ours_again_since_the_process_began(database: Database):
    first = await item(database, 1, "running", turn=1)
    await turn(database, first, state="running", ended_at=None)
    watches = Watches(104.0)
    async with keeping(database, watches):
        assert watches.open(taken(first, attempt=2), LANE).spans(105.0) == [Span("own", 104.0, 105.0)]


async def test_missing_seconds_are_told_and_not_made_up(database: Database, caplog: pytest.LogCaptureFixture):
    first = await item(database, 1, spans="[]")
    await turn(database, first)
    await part(database, first, "done")
    with caplog.at_level(logging.WARNING):
        async with keeping(database, Watches(200.0)):
            await until(lambda: accounted(database))
    assert [record.__dict__["action"] for record in caplog.records] == ["keeper.gap"]
    assert await column(database, select(accounts.c.own)) == [0.5]


async def test_a_database_that_cannot_be_written_loses_no_account(database: Database):
    watches, first = Watches(), await item(database, 1)
    await turn(database, first)
    await part(database, first, "done")
    flaky = Flaky(database)
    watches.open(taken(first), LANE)
    async with keeping(flaky, watches):
        flaky.full = True
        await asyncio.sleep(0.02)
        assert not await column(database, select(turns.c.id).join(accounts, accounts.c.turn == turns.c.id))
        flaky.full = False
        await until(lambda: done(watches))
    assert await column(database, select(accounts.c.turn)) == [1]


async def test_a_process_ends_even_if_nothing_can_be_written(database: Database):
    flaky = Flaky(database)
    async with keeping(flaky, Watches()):
        flaky.full = True
    assert await column(database, select(lives.c.ended_at)) == [None]
