"""The worker continues whatever a runner does, and ends when it is drained."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy import select

from bot.db import retry
from bot.db.engine import Database
from bot.db.queues import inbox, incoming_updates
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.tables import inbox as inbox_table
from bot.domain import InboxItem, Lane
from bot.errors import ShareLost
from bot.queue.worker import BusyLanes, Worker, WorkerCallbacks
from tests.support.flaky_database import FlakyDatabase

LANE = Lane(7)
RunItems = Callable[[tuple[InboxItem, ...]], Awaitable[None]]


@dataclass
class WorkerHarness:
    database: FlakyDatabase
    run: RunItems
    give_up_reasons: list[str] = field(default_factory=list)
    item_ended: asyncio.Event = field(default_factory=asyncio.Event)
    cannot_give_up: bool = False
    busy_lanes: BusyLanes = field(default_factory=BusyLanes)

    async def store_items(self, *numbers: int, lane: Lane | None = LANE) -> None:
        updates = [
            IncomingUpdate(number, "text", lane, 7, "{}", stale=False, not_before=None) for number in numbers
        ]
        async with self.database.database.transaction() as tx:
            await incoming_updates.store(tx, updates, now=time.time())

    async def load_states(self) -> list[tuple[str, str | None]]:
        async with self.database.read_transaction() as tx:
            return [
                (row.state, row.error)
                for row in await tx.execute(select(inbox_table).order_by(inbox_table.c.id))
            ]

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
            WorkerCallbacks(lambda lane, item: None, self.give_up, busy_lanes=self.busy_lanes),
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
def harness(database: Database, monkeypatch: pytest.MonkeyPatch) -> WorkerHarness:
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.01)
    worker_harness = WorkerHarness(FlakyDatabase(database), run=lambda items: worker_harness.mark_done(items))
    return worker_harness


async def test_what_arrives_is_run_and_the_lane_is_busy_meanwhile(harness: WorkerHarness):
    was_busy: list[bool] = []

    async def check_busy(items: tuple[InboxItem, ...]) -> None:
        was_busy.append(harness.busy_lanes.has(LANE))
        await harness.mark_done(items)

    harness.run = check_busy
    await harness.store_items(1)
    async with harness.run_worker():
        await harness.item_ended.wait()
    assert was_busy == [True]
    assert not harness.busy_lanes.has(LANE)


async def test_of_many_chats_at_once_each_goes_on_before_the_next_one_begins(harness: WorkerHarness):
    steps: list[str] = []

    async def run(items: tuple[InboxItem, ...]) -> None:
        steps.append(f"prepare {items[0].id}")
        await asyncio.sleep(0)
        steps.append(f"call {items[0].id}")
        await harness.mark_done(items)

    harness.run = run
    for number in (1, 2, 3):
        await harness.store_items(number, lane=Lane(number))
    async with harness.run_worker():
        while len(steps) < 6:
            await harness.item_ended.wait()
            harness.item_ended.clear()
    assert steps == ["prepare 1", "call 1", "prepare 2", "call 2", "prepare 3", "call 3"]


async def test_an_item_whose_runner_fails_is_set_aside_and_the_error_stays_in_the_log(
    harness: WorkerHarness,
):
    async def fail(items: tuple[InboxItem, ...]) -> None:
        raise RuntimeError("https://api.telegram.org/bot123:SECRET/getMe")

    harness.run = fail
    await harness.store_items(1)
    async with harness.run_worker():
        await harness.item_ended.wait()
    assert await harness.load_states() == [("dead", "The log says why.")]
    assert harness.give_up_reasons == ["The log says why."]


async def test_a_lane_continues_even_if_nobody_can_be_notified_of_a_failure(harness: WorkerHarness):
    async def fail_once(items: tuple[InboxItem, ...]) -> None:
        if items[0].id == 1:
            await harness.store_items(2)
            worker.wake()
            raise RuntimeError
        await harness.mark_done(items)

    harness.run = fail_once
    harness.cannot_give_up = True
    await harness.store_items(1)
    async with harness.run_worker() as worker:
        await harness.item_ended.wait()
    assert [state for state, _ in await harness.load_states()] == ["dead", "done"]


async def test_a_database_that_cannot_be_written_is_waited_for(harness: WorkerHarness):
    has_begun = asyncio.Event()

    async def run(items: tuple[InboxItem, ...]) -> None:
        if not has_begun.is_set():
            harness.database.refused.clear()
            harness.database.full = True
            has_begun.set()
        await harness.mark_done(items)

    harness.run = run
    harness.database.full = True
    await harness.store_items(1)
    async with harness.run_worker():
        for is_reached in (harness.database.refused, has_begun, harness.database.refused):
            await is_reached.wait()
            harness.database.full = is_reached is has_begun
        await harness.item_ended.wait()
    assert await harness.load_states() == [("done", None)]
    assert harness.give_up_reasons == []


async def test_it_ends_while_the_database_cannot_be_written(harness: WorkerHarness):
    harness.database.full = True
    async with asyncio.timeout(60), harness.run_worker(grace_seconds=0.05):
        await asyncio.sleep(0.05)
    assert harness.database.refused_count


async def test_giving_up_waits_for_the_database_too(harness: WorkerHarness):
    async def fail(items: tuple[InboxItem, ...]) -> None:
        harness.database.full = True
        asyncio.get_running_loop().call_later(0.05, setattr, harness.database, "full", False)
        raise RuntimeError

    harness.run = fail
    await harness.store_items(1)
    async with harness.run_worker():
        await harness.item_ended.wait()
    assert [state for state, _ in await harness.load_states()] == ["dead"]


async def test_what_runs_longer_than_the_grace_period_is_cancelled_and_new_at_the_next_start(
    harness: WorkerHarness,
):
    has_begun = asyncio.Event()

    async def hang(items: tuple[InboxItem, ...]) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    harness.run = hang
    await harness.store_items(1)
    async with harness.run_worker(grace_seconds=0.01):
        await has_begun.wait()
    assert [state for state, _ in await harness.load_states()] == ["running"]
    harness.run = harness.mark_done
    async with harness.run_worker():
        await harness.item_ended.wait()
    assert [state for state, _ in await harness.load_states()] == ["done"]


async def test_a_failure_in_a_task_group_does_not_end_the_worker(harness: WorkerHarness):
    """A group whose task failed leaves its parent marked as being cancelled, which it is not."""

    async def fail(items: tuple[InboxItem, ...]) -> None:
        async def fail_in_task() -> None:
            raise RuntimeError

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail_in_task())

    harness.run = fail
    await harness.store_items(1)
    async with harness.run_worker():
        await harness.item_ended.wait()
    assert [state for state, _ in await harness.load_states()] == ["dead"]


async def test_an_item_whose_share_is_lost_in_a_task_group_is_left_to_the_replica_that_has_it(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
):
    has_begun = asyncio.Event()

    async def lose_share(items: tuple[InboxItem, ...]) -> None:
        has_begun.set()
        raise ExceptionGroup("in a task", [ShareLost()])

    harness.run = lose_share
    await harness.store_items(1)
    async with harness.run_worker():
        await has_begun.wait()
    assert harness.give_up_reasons == []
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_an_item_that_fails_while_it_is_cancelled_is_not_set_aside(harness: WorkerHarness):
    has_begun = asyncio.Event()

    async def hang(items: tuple[InboxItem, ...]) -> None:
        try:
            has_begun.set()
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("nobody takes this any more")

    harness.run = hang
    await harness.store_items(1)
    async with harness.run_worker(grace_seconds=0.01):
        await has_begun.wait()
    assert [state for state, _ in await harness.load_states()] == ["running"]
    assert harness.give_up_reasons == []


async def test_what_arrives_during_draining_waits_for_the_next_start(harness: WorkerHarness):
    worker = harness.build_worker()
    worker.drain()
    await harness.store_items(1)
    await worker.run()
    assert [state for state, _ in await harness.load_states()] == ["new"]


async def test_a_lane_stays_busy_when_its_next_item_begins_before_the_last_one_has_left(
    harness: WorkerHarness,
):
    second_begun = asyncio.Event()
    may_end = asyncio.Event()
    was_busy: list[bool] = []

    async def end_slowly(items: tuple[InboxItem, ...]) -> None:
        if items[0].id == 1:
            await harness.store_items(2)
            await harness.mark_done(items)  # a best-effort call after this takes a while
            worker.wake()
            await second_begun.wait()
            asyncio.get_running_loop().call_later(0.01, may_end.set)
        else:
            second_begun.set()
            await may_end.wait()
            was_busy.append(harness.busy_lanes.has(LANE))
            await harness.mark_done(items)

    harness.run = end_slowly
    await harness.store_items(1)
    async with harness.run_worker() as worker:
        await may_end.wait()
    assert was_busy == [True]
    assert not harness.busy_lanes.has(LANE)
