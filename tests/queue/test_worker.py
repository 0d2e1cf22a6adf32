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
from bot.db.queues.inbox import IncomingUpdate
from bot.db.tables import inbox as table
from bot.domain import InboxItem, Lane
from bot.errors import StoreUnavailable
from bot.queue import worker as room
from bot.queue.worker import Worker

LANE = Lane(7)
RunItems = Callable[[tuple[InboxItem, ...]], Awaitable[None]]


class FlakyDatabase(Database):
    """A database that cannot be written while `full` is set; `durable` is what was asked of its last
    transaction.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.full = False
        self.refused_count = 0
        self.durable = False

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        if self.full:
            self.refused_count += 1
            raise StoreUnavailable("the disk is full")
        self.durable = durable
        async with self.database.transaction(durable=durable) as tx:
            yield tx

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self.database.read_transaction() as tx:
            yield tx


@dataclass
class WorkerHarness:
    database: FlakyDatabase
    run: RunItems
    give_up_reasons: list[str] = field(default_factory=list)
    item_ended: asyncio.Event = field(default_factory=asyncio.Event)
    cannot_give_up: bool = False

    async def store_items(self, *numbers: int, lane: Lane | None = LANE) -> None:
        arrived = [
            IncomingUpdate(number, "text", lane, 7, "{}", stale=False, not_before=None) for number in numbers
        ]
        async with self.database.database.transaction() as tx:
            await inbox.store(tx, arrived, now=time.time())

    async def load_states(self) -> list[tuple[str, str | None]]:
        async with self.database.read_transaction() as tx:
            return [(row.state, row.error) for row in await tx.execute(select(table).order_by(table.c.id))]

    async def mark_done(self, items: tuple[InboxItem, ...]) -> None:
        async with self.database.transaction() as tx:
            await inbox.mark_done(tx, [item.id for item in items], now=time.time())
        self.item_ended.set()

    async def give_up(self, items: tuple[InboxItem, ...], reason: str) -> None:
        if self.cannot_give_up:
            raise UnicodeEncodeError("utf-8", "", 0, 1, "no such letter")
        self.give_up_reasons.append(reason)
        async with self.database.transaction() as tx:
            await inbox.mark_dead(tx, [item.id for item in items], error=reason, now=time.time())
        self.item_ended.set()

    def build_worker(self, grace_seconds: float = 5.0) -> Worker:
        async def run(items: tuple[InboxItem, ...]) -> None:
            await self.run(items)

        return Worker(
            self.database,
            {"update": run},
            stop_lane=lambda lane, item: None,
            give_up=self.give_up,
            grace_seconds=grace_seconds,
        )

    @contextlib.asynccontextmanager
    async def run_worker(self, grace_seconds: float = 5.0) -> AsyncIterator[Worker]:
        worker = self.build_worker(grace_seconds)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            try:
                yield worker
            finally:
                worker.drain()


@pytest.fixture
def corridor(database: Database, monkeypatch: pytest.MonkeyPatch) -> WorkerHarness:
    monkeypatch.setattr(patience, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(room, "AGAIN_SECONDS", 0.01)
    made = WorkerHarness(FlakyDatabase(database), run=lambda items: made.mark_done(items))
    return made


async def test_what_arrives_is_run_and_the_lane_is_busy_meanwhile(corridor: WorkerHarness):
    busy: list[bool] = []

    async def look(items: tuple[InboxItem, ...]) -> None:
        busy.append(worker.is_busy(LANE))
        await corridor.mark_done(items)

    corridor.run = look
    await corridor.store_items(1)
    async with corridor.run_worker() as worker:
        await corridor.item_ended.wait()
    assert busy == [True]
    assert not worker.is_busy(LANE)


async def test_a_runner_that_fails_has_its_item_set_aside_and_its_words_stay_in_the_log(
    corridor: WorkerHarness,
):
    async def fail(items: tuple[InboxItem, ...]) -> None:
        raise RuntimeError("https://api.telegram.org/bot123:SECRET/getMe")

    corridor.run = fail
    await corridor.store_items(1)
    async with corridor.run_worker():
        await corridor.item_ended.wait()
    assert await corridor.load_states() == [("dead", "The log says why.")]
    assert corridor.give_up_reasons == ["The log says why."]


async def test_a_lane_goes_on_even_if_nobody_can_be_told_of_a_failure(corridor: WorkerHarness):
    async def fail_once(items: tuple[InboxItem, ...]) -> None:
        if items[0].id == 1:
            await corridor.store_items(2)
            worker.wake()
            raise RuntimeError
        await corridor.mark_done(items)

    corridor.run, corridor.cannot_give_up = fail_once, True
    await corridor.store_items(1)
    async with corridor.run_worker() as worker:
        await corridor.item_ended.wait()
    assert [state for state, _ in await corridor.load_states()] == ["dead", "done"]


async def test_a_database_that_cannot_be_written_is_waited_for(corridor: WorkerHarness):
    async def run(items: tuple[InboxItem, ...]) -> None:
        if corridor.database.refused_count < 3:
            corridor.database.full = True
            asyncio.get_running_loop().call_later(0.1, setattr, corridor.database, "full", False)
        await corridor.mark_done(items)

    corridor.run = run
    corridor.database.full = True
    await corridor.store_items(1)
    async with corridor.run_worker():
        asyncio.get_running_loop().call_later(0.05, setattr, corridor.database, "full", False)
        await corridor.item_ended.wait()
    assert await corridor.load_states() == [("done", None)]
    assert corridor.give_up_reasons == []
    assert corridor.database.refused_count >= 2


async def test_it_ends_while_the_database_cannot_be_written(corridor: WorkerHarness):
    corridor.database.full = True
    async with asyncio.timeout(30.0), corridor.run_worker(grace_seconds=0.05):
        await asyncio.sleep(0.05)
    assert corridor.database.refused_count


async def test_giving_up_waits_for_the_database_too(corridor: WorkerHarness):
    async def fail(items: tuple[InboxItem, ...]) -> None:
        corridor.database.full = True
        asyncio.get_running_loop().call_later(0.05, setattr, corridor.database, "full", False)
        raise RuntimeError

    corridor.run = fail
    await corridor.store_items(1)
    async with corridor.run_worker():
        await corridor.item_ended.wait()
    assert [state for state, _ in await corridor.load_states()] == ["dead"]


async def test_what_runs_longer_than_the_grace_is_cancelled_and_new_at_the_next_start(
    corridor: WorkerHarness,
):
    began = asyncio.Event()

    async def hang(items: tuple[InboxItem, ...]) -> None:
        began.set()
        await asyncio.Event().wait()

    corridor.run = hang
    await corridor.store_items(1)
    async with corridor.run_worker(grace_seconds=0.01):
        await began.wait()
    assert [state for state, _ in await corridor.load_states()] == ["running"]
    corridor.run = corridor.mark_done
    async with corridor.run_worker():
        await corridor.item_ended.wait()
    assert [state for state, _ in await corridor.load_states()] == ["done"]


async def test_a_failure_in_a_group_of_tasks_is_no_end_of_the_house(corridor: WorkerHarness):
    """A group whose task failed leaves its parent marked as being cancelled, which it is not."""

    async def fail(items: tuple[InboxItem, ...]) -> None:
        async def one() -> None:
            raise RuntimeError

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one())

    corridor.run = fail
    await corridor.store_items(1)
    async with corridor.run_worker():
        await corridor.item_ended.wait()
    assert [state for state, _ in await corridor.load_states()] == ["dead"]


async def test_what_stumbles_over_its_own_end_is_not_set_aside(corridor: WorkerHarness):
    began = asyncio.Event()

    async def hang(items: tuple[InboxItem, ...]) -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("nobody takes this any more")

    corridor.run = hang
    await corridor.store_items(1)
    async with corridor.run_worker(grace_seconds=0.01):
        await began.wait()
    assert [state for state, _ in await corridor.load_states()] == ["running"]
    assert corridor.give_up_reasons == []


async def test_what_arrives_while_it_drains_waits_for_the_next_start(corridor: WorkerHarness):
    worker = corridor.build_worker()
    worker.drain()
    await corridor.store_items(1)
    await worker.run()
    assert [state for state, _ in await corridor.load_states()] == ["new"]


async def test_a_lane_stays_busy_when_its_next_item_begins_before_the_last_one_has_left(
    corridor: WorkerHarness,
):
    second, leave = asyncio.Event(), asyncio.Event()
    busy: list[bool] = []

    async def linger(items: tuple[InboxItem, ...]) -> None:
        if items[0].id == 1:
            await corridor.store_items(2)
            await corridor.mark_done(items)  # a courtesy call after this takes a while
            worker.wake()
            await second.wait()
            asyncio.get_running_loop().call_later(0.01, leave.set)
        else:
            second.set()
            await leave.wait()
            busy.append(worker.is_busy(LANE))
            await corridor.mark_done(items)

    corridor.run = linger
    await corridor.store_items(1)
    async with corridor.run_worker() as worker:
        await leave.wait()
    assert busy == [True]
    assert not worker.is_busy(LANE)
