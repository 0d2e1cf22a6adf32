"""A due job becomes one inbox row, whichever process writes it, and whatever the clock does."""

import asyncio
import gc
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import jobs
from bot.db.queues.jobs import Job, NewJob
from bot.db.tables import inbox
from bot.db.tables import jobs as jobs_table
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
from tests.support.commits import CommitRecord

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()
HOUR = 3600.0
DAY = 86_400.0
DAILY = "DTSTART:20261101T120000\nRRULE:FREQ=DAILY"
MAX_SHARE = 0.08  # of the time for ten batches; a step is a hundredth of it
MAX_TRIES = 4  # what a machine does in between may count as processor time


@dataclass
class FakeClock:
    now: float = NOON

    def __call__(self) -> float:
        return self.now


@dataclass
class SchedulerHarness:
    """A scheduler over a real database, with a clock that the test sets."""

    database: Database
    clock: FakeClock = field(default_factory=FakeClock)

    def build_scheduler(self) -> JobScheduler:
        return JobScheduler(self.database, self.clock)

    async def add_job(self, next_due: float = NOON, rule: str | None = None, **more: Any) -> int:
        new = NewJob("reminder", next_due, "UTC", rule, text="tea", person=7, lane=Lane(7), **more)
        async with self.database.transaction() as tx:
            return await jobs.add(tx, new, now=NOON - DAY)

    async def load_job(self, job: int) -> Job:
        async with self.database.read_transaction() as tx:
            row = await jobs.find(tx, job)
        assert row is not None
        return row

    async def list_inbox_rows(self) -> list[tuple[int, float]]:
        async with self.database.read_transaction() as tx:
            rows = await tx.execute(select(inbox.c.job, inbox.c.due_at).order_by(inbox.c.id))
            return [tuple(row) for row in rows]


@pytest.fixture
def harness(database: Database) -> SchedulerHarness:
    return SchedulerHarness(database)


async def test_a_due_job_becomes_an_item(harness: SchedulerHarness):
    job = await harness.add_job()
    later = await harness.add_job(NOON + HOUR)
    assert await harness.build_scheduler().enqueue_due() == NOON + HOUR
    assert await harness.list_inbox_rows() == [(job, NOON)]
    row = await harness.load_job(job)
    assert (row.next_due, row.last_due) == (None, NOON)
    assert (await harness.load_job(later)).next_due == NOON + HOUR


async def test_nothing_due_writes_nothing(harness: SchedulerHarness):
    assert await harness.build_scheduler().enqueue_due() is None
    assert await harness.list_inbox_rows() == []


async def test_many_due_jobs_are_written_in_several_transactions(harness: SchedulerHarness):
    job_ids = [await harness.add_job(NOON - number) for number in range(2 * BATCH_SIZE + 1)]
    await harness.build_scheduler().enqueue_due()
    assert sorted(job for job, _ in await harness.list_inbox_rows()) == job_ids


async def test_many_jobs_due_at_once_are_written_in_small_batches(harness: SchedulerHarness):
    for _ in range(2 * SMALL_BATCH_SIZE + 1):
        await harness.add_job()
    later = await harness.add_job(NOON + HOUR)
    scheduler = harness.build_scheduler()
    next_dues = [await scheduler.enqueue_due(is_small_batch=True) for _ in range(3)]
    assert next_dues == [NOON, NOON, NOON + HOUR]
    assert len(await harness.list_inbox_rows()) == 2 * SMALL_BATCH_SIZE + 1
    assert (await harness.load_job(later)).last_due is None


async def test_two_processes_write_a_due_time_once(harness: SchedulerHarness):
    job_ids = [await harness.add_job(NOON, DAILY) for _ in range(BATCH_SIZE + 5)]
    first = harness.build_scheduler()
    second = harness.build_scheduler()
    for day in range(3):
        harness.clock.now = NOON + day * DAY
        await asyncio.gather(first.enqueue_due(), second.enqueue_due())
    written = await harness.list_inbox_rows()
    assert len(written) == len(set(written)) == 3 * len(job_ids)


async def test_a_process_that_knows_an_older_row_changes_nothing(harness: SchedulerHarness):
    job = await harness.add_job(NOON, DAILY)
    async with harness.database.read_transaction() as tx:
        stale = plan_jobs(await jobs.list_due(tx, now=NOON, limit=9), NOON)
    harness.clock.now = NOON + DAY
    await harness.build_scheduler().enqueue_due()
    async with harness.database.transaction() as tx:
        await jobs.fire(tx, stale, now=NOON)
    assert (await harness.load_job(job)).next_due == NOON + 2 * DAY
    # The first day was missed by one process, and written by the other.
    assert await harness.list_inbox_rows() == [(job, NOON + DAY), (job, NOON)]


async def test_of_missed_due_times_the_last_runs_once_and_says_how_late(harness: SchedulerHarness):
    job = await harness.add_job(NOON, DAILY)
    harness.clock.now = NOON + 5 * DAY + HOUR
    await harness.build_scheduler().enqueue_due()
    assert await harness.list_inbox_rows() == [(job, NOON + 5 * DAY)]
    assert (await harness.load_job(job)).next_due == NOON + 6 * DAY
    async with harness.database.read_transaction() as tx:
        body = (await tx.execute(select(inbox.c.body))).scalar_one()
    assert f'"late": {HOUR}' in body
    assert '"left_out": true' in body


@pytest.mark.parametrize("rule", [None, DAILY])
async def test_a_missed_due_time_is_skipped_unless_it_is_hardly_late(
    harness: SchedulerHarness, rule: str | None, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    job = await harness.add_job(NOON, rule, missed="skip")
    rule_now = rule and DAILY.replace("T1200", "T1205").replace("0500", "0501")
    job_now = await harness.add_job(NOON + LATE_SECONDS + 1, rule_now, missed="skip")
    harness.clock.now = NOON + LATE_SECONDS + 1
    await harness.build_scheduler().enqueue_due()
    assert await harness.list_inbox_rows() == [(job_now, NOON + LATE_SECONDS + 1)]
    assert (await harness.load_job(job)).next_due == (NOON + DAY if rule else None)
    assert re.search(rf"job {job} was missed at \d{{4}}-\d\d-\d\dT12:00:00\+00:00", caplog.text)


async def test_somebody_who_blocked_the_bot_is_sent_nothing_and_keeps_their_jobs(harness: SchedulerHarness):
    async with harness.database.transaction() as tx:
        await people.put(tx, 7, "Ann", "member", let_in_by=1, now=NOON)
        await people.set_reachable(tx, 7, reachable=False)
    job = await harness.add_job(NOON, DAILY)
    single_job = await harness.add_job(NOON)
    await harness.build_scheduler().enqueue_due()
    assert await harness.list_inbox_rows() == []
    assert (await harness.load_job(job)).next_due == NOON + DAY
    row = await harness.load_job(single_job)
    assert (row.state, row.why_paused) == ("paused", PERSON_UNREACHABLE)


@pytest.mark.parametrize(
    "rule", [None, "DTSTART:20261101T120000\nRRULE:FREQ=MINUTELY;INTERVAL=30;UNTIL=20261120T121500"]
)
async def test_a_job_that_was_skipped_and_never_comes_again_is_done(
    harness: SchedulerHarness, rule: str | None
):
    job = await harness.add_job(NOON, rule, missed="skip")
    harness.clock.now = NOON + HOUR
    await harness.build_scheduler().enqueue_due()
    assert await harness.list_inbox_rows() == []
    row = await harness.load_job(job)
    assert (row.state, row.next_due) == ("done", None)


@pytest.mark.parametrize(("rule", "zone"), [("nonsense", "UTC"), (DAILY, "Mars/Phobos")])
async def test_a_job_with_an_unreadable_rule_is_paused_and_holds_up_nothing(
    harness: SchedulerHarness, rule: str, zone: str
):
    broken = await harness.add_job(NOON, DAILY)
    good = await harness.add_job(NOON)
    async with harness.database.transaction() as tx:
        await tx.execute(update(jobs_table).where(jobs_table.c.id == broken).values(rule=rule, zone=zone))
    await harness.build_scheduler().enqueue_due()
    assert await harness.list_inbox_rows() == [(good, NOON)]
    row = await harness.load_job(broken)
    assert (row.state, row.why_paused) == ("paused", "its time cannot be read any more")


async def test_a_clock_that_jumps_ahead_and_back_again_loses_no_day_and_repeats_none(
    harness: SchedulerHarness,
):
    job = await harness.add_job(NOON, DAILY)
    scheduler = harness.build_scheduler()
    await scheduler.enqueue_due()
    harness.clock.now = NOON + 400 * DAY + 1
    await scheduler.enqueue_due()
    assert (await harness.load_job(job)).next_due == NOON + 401 * DAY
    for day in range(1, 4):
        harness.clock.now = NOON + day * DAY + 1
        await scheduler.enqueue_due()
    written = await harness.list_inbox_rows()
    assert written == [(job, NOON + day * DAY) for day in (0, 400, 1, 2, 3)]


async def test_a_clock_that_was_put_back_while_no_process_ran_is_noticed_at_the_start(
    harness: SchedulerHarness,
):
    job = await harness.add_job(NOON, DAILY)
    harness.clock.now = NOON + 30 * DAY
    await harness.build_scheduler().enqueue_due()
    harness.clock.now = NOON + DAY + 1
    await harness.build_scheduler().enqueue_due()
    assert (await harness.load_job(job)).next_due == NOON + 2 * DAY
    for day in range(1, 32):
        harness.clock.now = NOON + day * DAY + 1
        await harness.build_scheduler().enqueue_due()
    written = await harness.list_inbox_rows()
    assert len(written) == len(set(written))
    assert {due for _, due in written} >= {NOON + day * DAY for day in range(2, 32)}


async def test_a_clock_that_is_put_back_a_little_is_waited_for(harness: SchedulerHarness):
    job = await harness.add_job(NOON, DAILY)
    scheduler = harness.build_scheduler()
    await scheduler.enqueue_due()
    harness.clock.now = NOON - CLOCK_BACKSTEP_SECONDS + 1
    await scheduler.enqueue_due()
    assert (await harness.load_job(job)).next_due == NOON + DAY
    assert await harness.list_inbox_rows() == [(job, NOON)]


async def wait_until(is_done: Callable[[], bool], changed: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        while not is_done():
            changed.clear()
            await changed.wait()


async def test_it_wakes_by_itself_when_a_job_is_due_and_when_an_earlier_one_is_added(
    database: Database,
):
    commits = CommitRecord()
    database.set_listener(commits)
    harness = SchedulerHarness(database)
    scheduler = JobScheduler(database)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(scheduler.run())
        first = await harness.add_job(time.time() + 0.5)
        scheduler.wake()
        await wait_until(lambda: commits.inbox_count == 1, commits.changed)
        second = await harness.add_job(time.time() - 1)
        scheduler.wake()
        await wait_until(lambda: commits.inbox_count == 2, commits.changed)
        running.cancel()
    assert [job for job, _ in await harness.list_inbox_rows()] == [first, second]


async def measure_longest_share(scheduler: JobScheduler) -> float:
    """Write what is due; the longest step of the loop's thread, as a share of the time that all took.

    Both are processor time of that thread, so that neither other programs nor a slow machine change it.
    """
    longest = total = 0.0
    gc.collect()
    gc.disable()  # the gateway has frozen earlier objects; pytest has not
    writing = asyncio.get_running_loop().create_task(scheduler.enqueue_due())
    while not writing.done():
        started_at = time.thread_time()
        await asyncio.sleep(0)
        seconds = time.thread_time() - started_at
        longest = max(longest, seconds)
        total += seconds
    gc.enable()
    return longest / total


async def test_many_jobs_that_are_due_at_once_do_not_block_the_event_loop(harness: SchedulerHarness):
    job_count = 10 * BATCH_SIZE
    async with harness.database.transaction() as tx:
        for number in range(job_count):
            due = NOON - number % 7 * DAY
            new = NewJob("reminder", due, "UTC", DAILY, text="tea", person=7, lane=Lane(7))
            await jobs.add(tx, new, now=NOON - DAY)
    scheduler = harness.build_scheduler()
    await scheduler.enqueue_due()  # the library is loaded, in a thread
    shares = list[float]()
    while not shares or (shares[-1] >= MAX_SHARE and len(shares) < MAX_TRIES):
        harness.clock.now += DAY
        shares.append(await measure_longest_share(scheduler))
    assert len(await harness.list_inbox_rows()) == job_count * (1 + len(shares))
    assert shares[-1] < MAX_SHARE
