"""What is due becomes one inbox row, whoever writes it, however often, and whatever the clock does."""

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import jobs
from bot.db.queues.jobs import Job, NewJob
from bot.db.tables import inbox
from bot.db.tables import jobs as table
from bot.domain import Lane
from bot.jobs.scheduler import (
    BATCH_SIZE,
    CLOCK_BACKSTEP_SECONDS,
    PERSON_UNREACHABLE,
    SMALL_BATCH_SIZE,
    JobScheduler,
    plan_jobs,
)
from bot.jobs.times.next_run import LATE_SECONDS

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86_400.0
DAILY = "DTSTART:20261101T120000\nRRULE:FREQ=DAILY"


@dataclass
class FakeClock:
    now: float = NOON

    def __call__(self) -> float:
        return self.now


@dataclass
class SchedulerHarness:
    """A schedule over a real database, with the clock in the test's hands."""

    database: Database
    clock: FakeClock = field(default_factory=FakeClock)
    wake_count: int = 0

    def build_scheduler(self) -> JobScheduler:
        return JobScheduler(self.database, self.count_wake, self.clock)

    def count_wake(self) -> None:
        self.wake_count += 1

    async def add_job(self, next_due: float = NOON, rule: str | None = None, **more: object) -> int:
        new = NewJob("reminder", next_due, "UTC", rule, text="tea", person=7, lane=Lane(7), **more)  # type: ignore[arg-type]
        async with self.database.transaction() as tx:
            return await jobs.add(tx, new, now=NOON - DAY)

    async def load_job(self, job: int) -> Job:
        async with self.database.read_transaction() as tx:
            found = await jobs.find(tx, job)
        assert found is not None
        return found

    async def list_inbox_rows(self) -> list[tuple[int, float]]:
        async with self.database.read_transaction() as tx:
            return [
                tuple(row)
                for row in await tx.execute(select(inbox.c.job, inbox.c.due_at).order_by(inbox.c.id))
            ]


@pytest.fixture
def bench(database: Database) -> SchedulerHarness:
    return SchedulerHarness(database)


async def test_what_is_due_becomes_an_item_and_the_worker_is_woken(bench: SchedulerHarness):
    job = await bench.add_job()
    later = await bench.add_job(NOON + HOUR)
    assert await bench.build_scheduler().enqueue_due() == NOON + HOUR
    assert await bench.list_inbox_rows() == [(job, NOON)]
    assert bench.wake_count == 1
    assert ((await bench.load_job(job)).next_due, (await bench.load_job(job)).last_due) == (None, NOON)
    assert (await bench.load_job(later)).next_due == NOON + HOUR


async def test_nothing_due_writes_nothing(bench: SchedulerHarness):
    assert await bench.build_scheduler().enqueue_due() is None
    assert bench.wake_count == 0


async def test_many_are_written_in_several_transactions(bench: SchedulerHarness):
    made = [await bench.add_job(NOON - number) for number in range(2 * BATCH_SIZE + 1)]
    await bench.build_scheduler().enqueue_due()
    assert sorted(job for job, _ in await bench.list_inbox_rows()) == made


async def test_of_many_that_are_due_at_once_a_few_are_written_at_a_time(bench: SchedulerHarness):
    for _ in range(2 * SMALL_BATCH_SIZE + 1):
        await bench.add_job()
    later, schedule = await bench.add_job(NOON + HOUR), bench.build_scheduler()
    seen = [await schedule.enqueue_due(is_small_batch=True) for _ in range(3)]
    assert seen == [NOON, NOON, NOON + HOUR]
    assert len(await bench.list_inbox_rows()) == 2 * SMALL_BATCH_SIZE + 1
    assert (await bench.load_job(later)).last_due is None


async def test_two_processes_write_a_due_time_once(bench: SchedulerHarness):
    made = [await bench.add_job(NOON, DAILY) for _ in range(BATCH_SIZE + 5)]
    first, second = bench.build_scheduler(), bench.build_scheduler()
    for day in range(3):
        bench.clock.now = NOON + day * DAY
        await asyncio.gather(first.enqueue_due(), second.enqueue_due())
    written = await bench.list_inbox_rows()
    assert len(written) == len(set(written)) == 3 * len(made)


async def test_a_process_that_knows_an_older_row_changes_nothing(bench: SchedulerHarness):
    job = await bench.add_job(NOON, DAILY)
    async with bench.database.read_transaction() as tx:
        stale = plan_jobs(await jobs.list_due(tx, now=NOON, limit=9), NOON)
    bench.clock.now = NOON + DAY
    await bench.build_scheduler().enqueue_due()
    async with bench.database.transaction() as tx:
        await jobs.fire(tx, stale, now=NOON)
    assert (await bench.load_job(job)).next_due == NOON + 2 * DAY
    assert await bench.list_inbox_rows() == [
        (job, NOON + DAY),
        (job, NOON),
    ]  # missed meanwhile, and found by the other one


async def test_of_what_was_missed_the_last_is_done_once_and_says_how_late(bench: SchedulerHarness):
    job = await bench.add_job(NOON, DAILY)
    bench.clock.now = NOON + 5 * DAY + HOUR
    await bench.build_scheduler().enqueue_due()
    assert await bench.list_inbox_rows() == [(job, NOON + 5 * DAY)]
    assert (await bench.load_job(job)).next_due == NOON + 6 * DAY
    async with bench.database.read_transaction() as tx:
        body = (await tx.execute(select(inbox.c.body))).scalar_one()
    assert f'"late": {HOUR}' in body
    assert '"left_out": true' in body


@pytest.mark.parametrize("rule", [None, DAILY])
async def test_what_is_to_be_skipped_is_skipped_unless_it_is_hardly_late(
    bench: SchedulerHarness, rule: str | None
):
    job = await bench.add_job(NOON, rule, missed="skip")
    other = await bench.add_job(
        NOON + LATE_SECONDS + 1,
        rule and DAILY.replace("T1200", "T1205").replace("0500", "0501"),
        missed="skip",
    )
    bench.clock.now = NOON + LATE_SECONDS + 1
    await bench.build_scheduler().enqueue_due()
    assert await bench.list_inbox_rows() == [(other, NOON + LATE_SECONDS + 1)]
    assert (await bench.load_job(job)).next_due == (NOON + DAY if rule else None)


async def test_whoever_blocked_the_bot_is_sent_nothing_and_keeps_their_jobs(bench: SchedulerHarness):
    async with bench.database.transaction() as tx:
        await people.put(tx, 7, "Ann", "member", let_in_by=1, now=NOON)
        await people.set_reachable(tx, 7, reachable=False)
    job, once = await bench.add_job(NOON, DAILY), await bench.add_job(NOON)
    await bench.build_scheduler().enqueue_due()
    assert await bench.list_inbox_rows() == []
    assert (await bench.load_job(job)).next_due == NOON + DAY
    assert ((await bench.load_job(once)).state, (await bench.load_job(once)).why_paused) == (
        "paused",
        PERSON_UNREACHABLE,
    )


@pytest.mark.parametrize(
    "rule", [None, "DTSTART:20261101T120000\nRRULE:FREQ=MINUTELY;INTERVAL=30;UNTIL=20261120T121500"]
)
async def test_what_was_skipped_and_never_comes_again_is_over(bench: SchedulerHarness, rule: str | None):
    job = await bench.add_job(NOON, rule, missed="skip")
    bench.clock.now = NOON + HOUR
    await bench.build_scheduler().enqueue_due()
    assert await bench.list_inbox_rows() == []
    assert ((await bench.load_job(job)).state, (await bench.load_job(job)).next_due) == ("done", None)


@pytest.mark.parametrize(("rule", "zone"), [("nonsense", "UTC"), (DAILY, "Mars/Phobos")])
async def test_a_rule_that_cannot_be_read_is_paused_and_holds_up_nothing(
    bench: SchedulerHarness, rule: str, zone: str
):
    broken, good = await bench.add_job(NOON, DAILY), await bench.add_job(NOON)
    async with bench.database.transaction() as tx:
        await tx.execute(update(table).where(table.c.id == broken).values(rule=rule, zone=zone))
    await bench.build_scheduler().enqueue_due()
    assert await bench.list_inbox_rows() == [(good, NOON)]
    assert ((await bench.load_job(broken)).state, (await bench.load_job(broken)).why_paused) == (
        "paused",
        "its rule cannot be read",
    )


async def test_a_clock_that_jumps_ahead_and_back_again_loses_no_day_and_repeats_none(bench: SchedulerHarness):
    job, schedule = await bench.add_job(NOON, DAILY), bench.build_scheduler()
    await schedule.enqueue_due()
    bench.clock.now = NOON + 400 * DAY + 1
    await schedule.enqueue_due()
    assert (await bench.load_job(job)).next_due == NOON + 401 * DAY
    for day in range(1, 4):
        bench.clock.now = NOON + day * DAY + 1
        await schedule.enqueue_due()
    written = await bench.list_inbox_rows()
    assert written == [(job, NOON + day * DAY) for day in (0, 400, 1, 2, 3)]


async def test_a_clock_that_was_put_back_while_nobody_looked_is_noticed_at_the_start(bench: SchedulerHarness):
    job = await bench.add_job(NOON, DAILY)
    bench.clock.now = NOON + 30 * DAY
    await bench.build_scheduler().enqueue_due()
    bench.clock.now = NOON + DAY + 1
    await bench.build_scheduler().enqueue_due()
    assert (await bench.load_job(job)).next_due == NOON + 2 * DAY
    for day in range(1, 32):
        bench.clock.now = NOON + day * DAY + 1
        await bench.build_scheduler().enqueue_due()
    written = await bench.list_inbox_rows()
    assert len(written) == len(set(written))
    assert {due for _, due in written} >= {NOON + day * DAY for day in range(2, 32)}


async def test_a_clock_that_is_put_back_a_little_is_waited_for(bench: SchedulerHarness):
    job, schedule = await bench.add_job(NOON, DAILY), bench.build_scheduler()
    await schedule.enqueue_due()
    bench.clock.now = NOON - CLOCK_BACKSTEP_SECONDS + 1
    await schedule.enqueue_due()
    assert (await bench.load_job(job)).next_due == NOON + DAY
    assert await bench.list_inbox_rows() == [(job, NOON)]


async def wait_until(wake: Callable[[], object], is_done: Callable[[], bool], changed: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        while not is_done():
            changed.clear()
            await changed.wait()


async def test_it_wakes_by_itself_when_something_is_due_and_when_it_is_told_of_an_earlier_one(
    database: Database,
):
    changed, wakes = asyncio.Event(), list[int]()

    def wake() -> None:
        wakes.append(1)
        changed.set()

    bench, schedule = SchedulerHarness(database), JobScheduler(database, wake)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(schedule.run())
        first = await bench.add_job(time.time() + 0.5)
        schedule.wake()
        await wait_until(schedule.wake, lambda: len(wakes) == 1, changed)
        second = await bench.add_job(time.time() - 1)
        schedule.wake()
        await wait_until(schedule.wake, lambda: len(wakes) == 2, changed)
        running.cancel()
    assert [job for job, _ in await bench.list_inbox_rows()] == [first, second]


async def test_the_loop_is_never_held_up_by_a_thousand_jobs_that_come_at_once(bench: SchedulerHarness):
    """By the processor time of the loop's own thread between two turns of it, which other programs do not
    touch.
    """
    for number in range(1000):
        await bench.add_job(NOON - number % 7 * DAY, DAILY)
    schedule, longest = bench.build_scheduler(), 0.0
    await schedule.enqueue_due()  # the library is loaded, in a thread
    bench.clock.now += DAY
    gc.collect()
    gc.disable()  # the house has frozen what was there before; pytest has not
    writing = asyncio.get_running_loop().create_task(schedule.enqueue_due())
    while not writing.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    gc.enable()
    assert len(await bench.list_inbox_rows()) == 2000
    assert longest < 0.010
