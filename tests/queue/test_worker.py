"""The corridor goes on whatever a runner does, and ends when it is told to."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db import retry as patience
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.queues.inbox import Arrival
from bot.db.tables import inbox as table
from bot.domain import InboxItem, Lane
from bot.errors import StoreUnavailable
from bot.queue import worker as room
from bot.queue.worker import Worker

LANE = Lane(7)
Run = Callable[[tuple[InboxItem, ...]], Awaitable[None]]


class Flaky(Database):
    """A database that cannot be written while `full` is set; `durable` is what was asked of its last
    transaction.
    """

    def __init__(self, whole: Database) -> None:
        self.whole = whole
        self.full = False
        self.refused = 0
        self.durable = False

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        if self.full:
            self.refused += 1
            raise StoreUnavailable("the disk is full")
        self.durable = durable
        async with self.whole.transaction(durable=durable) as tx:
            yield tx

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        async with self.whole.reading() as tx:
            yield tx


@dataclass
class Corridor:
    database: Flaky
    run: Run
    aside: list[str] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    speechless: bool = False

    async def arrive(self, *numbers: int, lane: Lane | None = LANE) -> None:
        arrived = [Arrival(number, "text", lane, 7, "{}", stale=False, not_before=None) for number in numbers]
        async with self.database.whole.transaction() as tx:
            await inbox.store(tx, arrived, now=time.time())

    async def states(self) -> list[tuple[str, str | None]]:
        async with self.database.reading() as tx:
            return [(row.state, row.error) for row in await tx.execute(select(table).order_by(table.c.id))]

    async def done(self, items: tuple[InboxItem, ...]) -> None:
        async with self.database.transaction() as tx:
            await inbox.done(tx, [item.id for item in items], now=time.time())
        self.ended.set()

    async def give_up(self, items: tuple[InboxItem, ...], why: str) -> None:
        if self.speechless:
            raise UnicodeEncodeError("utf-8", "", 0, 1, "no such letter")
        self.aside.append(why)
        async with self.database.transaction() as tx:
            await inbox.dead(tx, [item.id for item in items], error=why, now=time.time())
        self.ended.set()

    def worker(self, grace: float = 5.0) -> Worker:
        async def run(items: tuple[InboxItem, ...]) -> None:
            await self.run(items)

        return Worker(
            self.database, {"update": run}, cut=lambda lane, item: None, give_up=self.give_up, grace=grace
        )

    @contextlib.asynccontextmanager
    async def open(self, grace: float = 5.0) -> AsyncIterator[Worker]:
        worker = self.worker(grace)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            try:
                yield worker
            finally:
                worker.drain()


@pytest.fixture
def corridor(database: Database, monkeypatch: pytest.MonkeyPatch) -> Corridor:
    monkeypatch.setattr(patience, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(room, "AGAIN_SECONDS", 0.01)
    made = Corridor(Flaky(database), run=lambda items: made.done(items))
    return made


async def test_what_arrives_is_run_and_the_lane_is_busy_meanwhile(corridor: Corridor):
    busy: list[bool] = []

    async def look(items: tuple[InboxItem, ...]) -> None:
        busy.append(worker.busy(LANE))
        await corridor.done(items)

    corridor.run = look
    await corridor.arrive(1)
    async with corridor.open() as worker:
        await corridor.ended.wait()
    assert busy == [True]
    assert not worker.busy(LANE)


async def test_a_runner_that_fails_has_its_item_set_aside_and_its_words_stay_in_the_log(corridor: Corridor):
    async def fail(items: tuple[InboxItem, ...]) -> None:
        raise RuntimeError("https://api.telegram.org/bot123:SECRET/getMe")

    corridor.run = fail
    await corridor.arrive(1)
    async with corridor.open():
        await corridor.ended.wait()
    assert await corridor.states() == [("dead", "The log says why.")]
    assert corridor.aside == ["The log says why."]


async def test_a_lane_goes_on_even_if_nobody_can_be_told_of_a_failure(corridor: Corridor):
    async def fail_once(items: tuple[InboxItem, ...]) -> None:
        if items[0].id == 1:
            await corridor.arrive(2)
            worker.wake()
            raise RuntimeError
        await corridor.done(items)

    corridor.run, corridor.speechless = fail_once, True
    await corridor.arrive(1)
    async with corridor.open() as worker:
        await corridor.ended.wait()
    assert [state for state, _ in await corridor.states()] == ["dead", "done"]


async def test_a_database_that_cannot_be_written_is_waited_for(corridor: Corridor):
    async def run(items: tuple[InboxItem, ...]) -> None:
        if corridor.database.refused < 3:
            corridor.database.full = True
            asyncio.get_running_loop().call_later(0.1, setattr, corridor.database, "full", False)
        await corridor.done(items)

    corridor.run = run
    corridor.database.full = True
    await corridor.arrive(1)
    async with corridor.open():
        asyncio.get_running_loop().call_later(0.05, setattr, corridor.database, "full", False)
        await corridor.ended.wait()
    assert await corridor.states() == [("done", None)]
    assert corridor.aside == []
    assert corridor.database.refused >= 2


async def test_it_ends_while_the_database_cannot_be_written(corridor: Corridor):
    corridor.database.full = True
    async with asyncio.timeout(30.0), corridor.open(grace=0.05):
        await asyncio.sleep(0.05)
    assert corridor.database.refused


async def test_giving_up_waits_for_the_database_too(corridor: Corridor):
    async def fail(items: tuple[InboxItem, ...]) -> None:
        corridor.database.full = True
        asyncio.get_running_loop().call_later(0.05, setattr, corridor.database, "full", False)
        raise RuntimeError

    corridor.run = fail
    await corridor.arrive(1)
    async with corridor.open():
        await corridor.ended.wait()
    assert [state for state, _ in await corridor.states()] == ["dead"]


async def test_what_runs_longer_than_the_grace_is_cancelled_and_new_at_the_next_start(corridor: Corridor):
    began = asyncio.Event()

    async def hang(items: tuple[InboxItem, ...]) -> None:
        began.set()
        await asyncio.Event().wait()

    corridor.run = hang
    await corridor.arrive(1)
    async with corridor.open(grace=0.01):
        await began.wait()
    assert [state for state, _ in await corridor.states()] == ["running"]
    corridor.run = corridor.done
    async with corridor.open():
        await corridor.ended.wait()
    assert [state for state, _ in await corridor.states()] == ["done"]


async def test_a_failure_in_a_group_of_tasks_is_no_end_of_the_house(corridor: Corridor):
    """A group whose task failed leaves its parent marked as being cancelled, which it is not."""

    async def fail(items: tuple[InboxItem, ...]) -> None:
        async def one() -> None:
            raise RuntimeError

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one())

    corridor.run = fail
    await corridor.arrive(1)
    async with corridor.open():
        await corridor.ended.wait()
    assert [state for state, _ in await corridor.states()] == ["dead"]


async def test_what_stumbles_over_its_own_end_is_not_set_aside(corridor: Corridor):
    began = asyncio.Event()

    async def hang(items: tuple[InboxItem, ...]) -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("nobody takes this any more")

    corridor.run = hang
    await corridor.arrive(1)
    async with corridor.open(grace=0.01):
        await began.wait()
    assert [state for state, _ in await corridor.states()] == ["running"]
    assert corridor.aside == []


async def test_what_arrives_while_it_drains_waits_for_the_next_start(corridor: Corridor):
    worker = corridor.worker()
    worker.drain()
    await corridor.arrive(1)
    await worker.run()
    assert [state for state, _ in await corridor.states()] == ["new"]


async def test_a_lane_stays_busy_when_its_next_item_begins_before_the_last_one_has_left(corridor: Corridor):
    second, leave = asyncio.Event(), asyncio.Event()
    busy: list[bool] = []

    async def linger(items: tuple[InboxItem, ...]) -> None:
        if items[0].id == 1:
            await corridor.arrive(2)
            await corridor.done(items)  # a courtesy call after this takes a while
            worker.wake()
            await second.wait()
            asyncio.get_running_loop().call_later(0.01, leave.set)
        else:
            second.set()
            await leave.wait()
            busy.append(worker.busy(LANE))
            await corridor.done(items)

    corridor.run = linger
    await corridor.arrive(1)
    async with corridor.open() as worker:
        await leave.wait()
    assert busy == [True]
    assert not worker.busy(LANE)
