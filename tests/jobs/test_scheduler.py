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
from bot.jobs.scheduler import BACK, BATCH, FEW, UNREACHABLE, Schedule, planned
from bot.jobs.times.next_run import LATE

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86_400.0
DAILY = "DTSTART:20261101T120000\nRRULE:FREQ=DAILY"


@dataclass
class Clock:
    now: float = NOON

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """A schedule over a real database, with the clock in the test's hands."""

    database: Database
    clock: Clock = field(default_factory=Clock)
    wakes: int = 0

    def schedule(self) -> Schedule:
        return Schedule(self.database, self.wake, self.clock)

    def wake(self) -> None:
        self.wakes += 1

    async def add(self, next_due: float = NOON, rule: str | None = None, **more: object) -> int:
        new = NewJob("reminder", next_due, "UTC", rule, text="tea", person=7, lane=Lane(7), **more)  # type: ignore[arg-type]
        async with self.database.transaction() as tx:
            return await jobs.add(tx, new, now=NOON - DAY)

    async def job(self, job: int) -> Job:
        async with self.database.reading() as tx:
            found = await jobs.find(tx, job)
        assert found is not None
        return found

    async def written(self) -> list[tuple[int, float]]:
        async with self.database.reading() as tx:
            return [
                tuple(row)
                for row in await tx.execute(select(inbox.c.job, inbox.c.due_at).order_by(inbox.c.id))
            ]


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


async def test_what_is_due_becomes_an_item_and_the_worker_is_woken(bench: Bench):
    job = await bench.add()
    later = await bench.add(NOON + HOUR)
    assert await bench.schedule().write() == NOON + HOUR
    assert await bench.written() == [(job, NOON)]
    assert bench.wakes == 1
    assert ((await bench.job(job)).next_due, (await bench.job(job)).last_due) == (None, NOON)
    assert (await bench.job(later)).next_due == NOON + HOUR


async def test_nothing_due_writes_nothing(bench: Bench):
    assert await bench.schedule().write() is None
    assert bench.wakes == 0


async def test_many_are_written_in_several_transactions(bench: Bench):
    made = [await bench.add(NOON - number) for number in range(2 * BATCH + 1)]
    await bench.schedule().write()
    assert sorted(job for job, _ in await bench.written()) == made


async def test_of_many_that_are_due_at_once_a_few_are_written_at_a_time(bench: Bench):
    for _ in range(2 * FEW + 1):
        await bench.add()
    later, schedule = await bench.add(NOON + HOUR), bench.schedule()
    seen = [await schedule.write(few=True) for _ in range(3)]
    assert seen == [NOON, NOON, NOON + HOUR]
    assert len(await bench.written()) == 2 * FEW + 1
    assert (await bench.job(later)).last_due is None


async def test_two_processes_write_a_due_time_once(bench: Bench):
    made = [await bench.add(NOON, DAILY) for _ in range(BATCH + 5)]
    first, second = bench.schedule(), bench.schedule()
    for day in range(3):
        bench.clock.now = NOON + day * DAY
        await asyncio.gather(first.write(), second.write())
    written = await bench.written()
    assert len(written) == len(set(written)) == 3 * len(made)


async def test_a_process_that_knows_an_older_row_changes_nothing(bench: Bench):
    job = await bench.add(NOON, DAILY)
    async with bench.database.reading() as tx:
        stale = planned(await jobs.due(tx, now=NOON, most=9), NOON)
    bench.clock.now = NOON + DAY
    await bench.schedule().write()
    async with bench.database.transaction() as tx:
        await jobs.write(tx, stale, now=NOON)
    assert (await bench.job(job)).next_due == NOON + 2 * DAY
    assert await bench.written() == [
        (job, NOON + DAY),
        (job, NOON),
    ]  # missed meanwhile, and found by the other one


async def test_of_what_was_missed_the_last_is_done_once_and_says_how_late(bench: Bench):
    job = await bench.add(NOON, DAILY)
    bench.clock.now = NOON + 5 * DAY + HOUR
    await bench.schedule().write()
    assert await bench.written() == [(job, NOON + 5 * DAY)]
    assert (await bench.job(job)).next_due == NOON + 6 * DAY
    async with bench.database.reading() as tx:
        body = (await tx.execute(select(inbox.c.body))).scalar_one()
    assert f'"late": {HOUR}' in body
    assert '"left_out": true' in body


@pytest.mark.parametrize("rule", [None, DAILY])
async def test_what_is_to_be_skipped_is_skipped_unless_it_is_hardly_late(bench: Bench, rule: str | None):
    job = await bench.add(NOON, rule, missed="skip")
    other = await bench.add(
        NOON + LATE + 1, rule and DAILY.replace("T1200", "T1205").replace("0500", "0501"), missed="skip"
    )
    bench.clock.now = NOON + LATE + 1
    await bench.schedule().write()
    assert await bench.written() == [(other, NOON + LATE + 1)]
    assert (await bench.job(job)).next_due == (NOON + DAY if rule else None)


async def test_whoever_blocked_the_bot_is_sent_nothing_and_keeps_their_jobs(bench: Bench):
    async with bench.database.transaction() as tx:
        await people.put(tx, 7, "Ann", "member", by=1, now=NOON)
        await people.set_reachable(tx, 7, reachable=False)
    job, once = await bench.add(NOON, DAILY), await bench.add(NOON)
    await bench.schedule().write()
    assert await bench.written() == []
    assert (await bench.job(job)).next_due == NOON + DAY
    assert ((await bench.job(once)).state, (await bench.job(once)).why_paused) == ("paused", UNREACHABLE)


@pytest.mark.parametrize(
    "rule", [None, "DTSTART:20261101T120000\nRRULE:FREQ=MINUTELY;INTERVAL=30;UNTIL=20261120T121500"]
)
async def test_what_was_skipped_and_never_comes_again_is_over(bench: Bench, rule: str | None):
    job = await bench.add(NOON, rule, missed="skip")
    bench.clock.now = NOON + HOUR
    await bench.schedule().write()
    assert await bench.written() == []
    assert ((await bench.job(job)).state, (await bench.job(job)).next_due) == ("done", None)


@pytest.mark.parametrize(("rule", "zone"), [("nonsense", "UTC"), (DAILY, "Mars/Phobos")])
async def test_a_rule_that_cannot_be_read_is_paused_and_holds_up_nothing(bench: Bench, rule: str, zone: str):
    broken, good = await bench.add(NOON, DAILY), await bench.add(NOON)
    async with bench.database.transaction() as tx:
        await tx.execute(update(table).where(table.c.id == broken).values(rule=rule, zone=zone))
    await bench.schedule().write()
    assert await bench.written() == [(good, NOON)]
    assert ((await bench.job(broken)).state, (await bench.job(broken)).why_paused) == (
        "paused",
        "its rule cannot be read",
    )


async def test_a_clock_that_jumps_ahead_and_back_again_loses_no_day_and_repeats_none(bench: Bench):
    job, schedule = await bench.add(NOON, DAILY), bench.schedule()
    await schedule.write()
    bench.clock.now = NOON + 400 * DAY + 1
    await schedule.write()
    assert (await bench.job(job)).next_due == NOON + 401 * DAY
    for day in range(1, 4):
        bench.clock.now = NOON + day * DAY + 1
        await schedule.write()
    written = await bench.written()
    assert written == [(job, NOON + day * DAY) for day in (0, 400, 1, 2, 3)]


async def test_a_clock_that_was_put_back_while_nobody_looked_is_noticed_at_the_start(bench: Bench):
    job = await bench.add(NOON, DAILY)
    bench.clock.now = NOON + 30 * DAY
    await bench.schedule().write()
    bench.clock.now = NOON + DAY + 1
    await bench.schedule().write()
    assert (await bench.job(job)).next_due == NOON + 2 * DAY
    for day in range(1, 32):
        bench.clock.now = NOON + day * DAY + 1
        await bench.schedule().write()
    written = await bench.written()
    assert len(written) == len(set(written))
    assert {due for _, due in written} >= {NOON + day * DAY for day in range(2, 32)}


async def test_a_clock_that_is_put_back_a_little_is_waited_for(bench: Bench):
    job, schedule = await bench.add(NOON, DAILY), bench.schedule()
    await schedule.write()
    bench.clock.now = NOON - BACK + 1
    await schedule.write()
    assert (await bench.job(job)).next_due == NOON + DAY
    assert await bench.written() == [(job, NOON)]


async def until(schedule: Callable[[], object], done: Callable[[], bool], changed: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        while not done():
            changed.clear()
            await changed.wait()


async def test_it_wakes_by_itself_when_something_is_due_and_when_it_is_told_of_an_earlier_one(
    database: Database,
):
    changed, wakes = asyncio.Event(), list[int]()

    def wake() -> None:
        wakes.append(1)
        changed.set()

    bench, schedule = Bench(database), Schedule(database, wake)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(schedule.run())
        first = await bench.add(time.time() + 0.5)
        schedule.look()
        await until(schedule.look, lambda: len(wakes) == 1, changed)
        second = await bench.add(time.time() - 1)
        schedule.look()
        await until(schedule.look, lambda: len(wakes) == 2, changed)
        running.cancel()
    assert [job for job, _ in await bench.written()] == [first, second]


async def test_the_loop_is_never_held_up_by_a_thousand_jobs_that_come_at_once(bench: Bench):
    """By the processor time of the loop's own thread between two turns of it, which other programs do not
    touch.
    """
    for number in range(1000):
        await bench.add(NOON - number % 7 * DAY, DAILY)
    schedule, longest = bench.schedule(), 0.0
    await schedule.write()  # the library is loaded, in a thread
    bench.clock.now += DAY
    gc.collect()
    gc.disable()  # the house has frozen what was there before; pytest has not
    writing = asyncio.get_running_loop().create_task(schedule.write())
    while not writing.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    gc.enable()
    assert len(await bench.written()) == 2000
    assert longest < 0.010
