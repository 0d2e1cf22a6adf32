"""A month of a thousand jobs, with the clock passed in: every due time is done exactly once or skipped by its
rule, across daylight-saving changes and thirty deaths of the process, at every seam between what is due and
what is done.
"""

import contextlib
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db import engine
from bot.db.engine import Database, open_database
from bot.db.people import people
from bot.db.queues import inbox, jobs, outbox
from bot.db.queues.jobs import JobKind, MissedRunPolicy, NewJob
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.db.tables import outbox as outbox_table
from bot.domain import InboxItem, Lane, Part, Runner
from bot.jobs.outcomes import JobOutcomes
from bot.jobs.scheduler import JobScheduler
from bot.jobs.times import rrules as rules
from bot.jobs.times.next_run import LATE_SECONDS
from bot.jobs.times.rrules import RecurrenceRule
from bot.jobs.user_jobs import JobLimits, UserJobs
from bot.telegram.access import Access
from bot.telegram.runners.reminders import ReminderRunner
from bot.telegram.runners.tasks import TaskRunner
from bot.turns.runner import RequestCompleter
from bot.turns.start import TurnRequest

# New York goes forward on 14 March 2027, Berlin on 28 March, Sydney back on 4 April.
BEGIN = datetime(2027, 3, 8, tzinfo=UTC).timestamp()
END = datetime(2027, 4, 8, tzinfo=UTC).timestamp()
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "UTC")
CHANGES = ("20270328T013000", "20270328T023000", "20270314T023000", "20270404T023000")
JOB_COUNT, PERSON_COUNT, CRASH_COUNT = 1000, 60, 30
HOUR, DAY = 3600.0, 86_400.0

RULES = (  # how many of the recurring jobs, and what they are
    (120, "FREQ=MONTHLY;BYMONTHDAY={day}"),
    (100, "FREQ=WEEKLY;INTERVAL=2"),
    (60, "FREQ=WEEKLY"),
    (6, "FREQ=DAILY"),
    (2, "FREQ=HOURLY;INTERVAL=12"),
    (10, "FREQ=YEARLY"),
)


class ProcessDied(BaseException):
    """The process is gone."""


@dataclass(frozen=True)
class CrashPoint:
    """Where a process dies: in what it does (write, claim, reminder, task, house), at which commit, before or
    after.
    """

    activity: str
    commit: int
    side: str


CRASH_POINTS = [
    *(CrashPoint(doing, 1, when) for doing in ("write", "claim") for when in ("before", "after")),
    *(
        CrashPoint(doing, commit, when)
        for doing in ("reminder", "task")
        for commit in (1, 2)
        for when in ("before", "after")
    ),
    *(CrashPoint("house", 1, when) for when in ("before", "after")),
]


class CrashingDatabase(Database):
    """A database whose process dies at the seam it is armed for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.next_crash: CrashPoint | None = None
        self.activity = ""
        self.commits = 0
        self.crash_counts: Counter[CrashPoint] = Counter()

    def begin_activity(self, activity: str) -> None:
        self.activity, self.commits = activity, 0

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        self.commits += 1
        here = self.commits
        async with self._database.transaction(durable=durable) as tx:
            yield tx
            self._crash_at(CrashPoint(self.activity, here, "before"))
        self._crash_at(CrashPoint(self.activity, here, "after"))

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self._database.read_transaction() as tx:
            yield tx

    def _crash_at(self, crash_point: CrashPoint) -> None:
        if crash_point == self.next_crash:
            self.next_crash = None
            self.crash_counts[crash_point] += 1
            raise ProcessDied


@dataclass
class FakeTurnService:
    """Answers turns in one transaction, as the real ones end."""

    database: Database
    clock: "FakeClock"

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        async with self.database.transaction() as tx:
            await outbox.add(
                tx, item=request.items[0].id, lane=request.lane, parts=(Part("done"),), now=self.clock.now
            )
            await inbox.mark_done(tx, [item.id for item in request.items], now=self.clock.now)

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        return False

    def wake(self, lane: Lane) -> None: ...


@dataclass
class FakeClock:
    now: float = BEGIN

    def __call__(self) -> float:
        return self.now


@dataclass
class SimulatedProcess:
    """One process: a schedule, the worker's claims and the runners, until it dies."""

    database: CrashingDatabase
    clock: FakeClock
    access: Access
    runners: dict[str, Runner] = field(default_factory=dict)

    async def start(self) -> "SimulatedProcess":
        self.scheduler = JobScheduler(self.database, lambda: None, self.clock)
        settling = JobOutcomes(self.database, lambda lane: None, self.clock)
        diary = UserJobs(self.database, JobLimits(), lambda: None, self.clock)
        reminders = ReminderRunner(self.database, self.access, diary, lambda lane: None, self.clock)
        tasks = TaskRunner(
            self.database, self.access, FakeTurnService(self.database, self.clock), lambda _: None, self.clock
        )
        self.runners = {
            "reminder": settling.record_after(reminders),
            "task": settling.record_after(tasks),
            "house": self._run_system_job,
        }
        self.database.begin_activity("start")
        async with self.database.transaction() as tx:
            await inbox.recover(tx, now=self.clock.now)
        await settling.recover()
        return self

    async def run_due(self) -> float | None:
        """Write down and do all that is due now; when the next job is due."""
        self.database.begin_activity("write")
        next_due = await self.scheduler.enqueue_due()
        while True:
            self.database.begin_activity("claim")
            async with self.database.transaction() as tx:
                claimed = await inbox.claim(tx, now=self.clock.now)
            if not claimed.groups:
                return next_due
            for items in claimed.groups:
                self.database.begin_activity(items[0].kind)
                await self.runners[items[0].kind](items)

    async def _run_system_job(self, items: tuple[InboxItem, ...]) -> None:
        async with self.database.transaction() as tx:
            await inbox.mark_done(tx, [items[0].id], now=self.clock.now)


@dataclass(frozen=True)
class Downtime:
    """A time without a process; `unwritten` jobs had been due since then when it died, and were not written
    down.
    """

    crashed_at: float
    restarted_at: float
    overdue: dict[int, float]

    def covers(self, job: int, due: float) -> bool:
        """Whether nobody was there for this due time."""
        return (
            min(self.overdue.get(job, self.restarted_at), self.crashed_at + 0.5) <= due <= self.restarted_at
        )


@dataclass
class MonthRecord:
    """What happened: when there was no process, and how often each due time was done."""

    downtimes: list["Downtime"] = field(default_factory=list)
    done_counts: Counter[tuple[int, float]] = field(default_factory=Counter)


def generate_jobs(rng: random.Random) -> Iterator[NewJob]:
    """The jobs, of all kinds; many at the hours when clocks are changed."""
    recurring = [text for count, text in RULES for _ in range(count)]
    for number in range(JOB_COUNT):
        kind: JobKind = rng.choice(("reminder", "reminder", "task"))
        missed: MissedRunPolicy = rng.choice(("once", "skip"))
        zone = rng.choice(ZONES)
        start = rules.to_local_time(BEGIN + rng.random() * 14 * DAY, rules.load_zone(zone))
        start = start.replace(
            hour=rng.choice((2, 2, 3, 9, 18)), minute=rng.choice((0, 30)), second=0, microsecond=0
        )
        if number % 25 == 0:
            start = datetime.strptime(rng.choice(CHANGES), rules.STAMP_FORMAT)  # noqa: DTZ007
        person = number % PERSON_COUNT + 1
        common: dict[str, Any] = {"zone": zone, "missed": missed, "text": f"job {number}"}
        if number < len(recurring):
            text = recurring[number].format(day=rng.choice((10, 28, 31)))
            rule = RecurrenceRule.parse(
                f"DTSTART:{start - timedelta(days=56):{rules.STAMP_FORMAT}}\nRRULE:{text}"
            )
            first = rules.find_next(rule, rules.load_zone(zone), BEGIN)
            assert first is not None
            common |= {"rule": rule.text, "next_due": first}
        else:
            common["next_due"] = rules.to_timestamp(start, rules.load_zone(zone)) + rng.randrange(14) * DAY
        if number % 25 == 1:
            yield NewJob(kind="house", name=f"job {number}", **common)
        else:
            yield NewJob(kind=kind, person=person, lane=Lane(person), **common)


def list_due_times(new_job: NewJob) -> list[float]:
    """Every due time of a job in the month."""
    assert new_job.next_due is not None
    if new_job.rule is None:
        return [new_job.next_due] if new_job.next_due < END else []
    found = rules.iterate_times(RecurrenceRule.parse(new_job.rule), rules.load_zone(new_job.zone), BEGIN)
    return list(itertools.takewhile(lambda due: due < END, found))


def determine_outcome(
    job: int, new_job: NewJob, due: float, later_dues: list[float], month: MonthRecord
) -> str:
    """What must become of a due time: done, or skipped by the job's rule."""
    back = max((one.restarted_at for one in month.downtimes if one.covers(job, due)), default=None)
    if back is None:
        return "done"
    return (
        "skipped"
        if any(after <= back for after in later_dues)
        or (new_job.missed == "skip" and back - due > LATE_SECONDS)
        else "done"
    )


async def find_overdue(database: Database, now: float) -> dict[int, float]:
    """The jobs that are due and not written down, and since when."""
    async with database.read_transaction() as tx:
        return {job.id: job.next_due or 0.0 for job in await jobs.list_due(tx, now=now, limit=JOB_COUNT)}


async def count_done(database: Database) -> Counter[tuple[int, float]]:
    """How often each due time was done: messages that were written, and items of the house."""
    found: Counter[tuple[int, float]] = Counter()
    async with database.read_transaction() as tx:
        written = select(
            inbox_table.c.job,
            inbox_table.c.due_at,
            outbox_table.c.id,
            inbox_table.c.kind,
            inbox_table.c.state,
        )
        rows = await tx.execute(written.outerjoin(outbox_table, outbox_table.c.item == inbox_table.c.id))
        for job, due_at, message, kind, state in rows:
            assert state == "done"
            found[job, due_at] += message is not None or kind == "house"
    return found


def compare_with_rules(jobs_by_id: dict[int, NewJob], month: MonthRecord) -> tuple[list[str], Counter[str]]:
    """A line for every due time that was not done as its rule says, or that is none; and how many should be
    what.
    """
    wrong, known, told = list[str](), set[tuple[int, float]](), Counter[str]()
    for job, new in jobs_by_id.items():
        dues = list_due_times(new)
        for at, due in enumerate(dues):
            known.add((job, due))
            should, times = (
                determine_outcome(job, new, due, dues[at + 1 :], month),
                month.done_counts[job, due],
            )
            told[should] += 1
            if times != (should == "done"):
                what = f"job {job} ({new.kind}, {new.missed}, {new.zone}, {new.rule})"
                wrong.append(f"{what} at {datetime.fromtimestamp(due, UTC)}: {should}, but {times} times")
    wrong += [
        f"job {job} was done at {due}, no due time of it"
        for job, due in month.done_counts
        if (job, due) not in known
    ]
    return wrong, told


@pytest.fixture
async def unsynced(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A process that dies in these tests leaves the machine running, so that nothing need be synced to the
    disk.
    """
    monkeypatch.setattr(engine, "_SYNCHRONOUS_PRAGMA", dict.fromkeys((True, False), "PRAGMA synchronous=OFF"))
    async with open_database(database_url) as database:
        yield database


async def live_through_month(
    database: Database, crashing_database: CrashingDatabase, rng: random.Random
) -> MonthRecord:
    """Live through the month, dying again and again."""
    clock, month, access, seams = FakeClock(), MonthRecord(), Access("pairing"), itertools.cycle(CRASH_POINTS)
    await access.load(database)
    more = CRASH_COUNT + 6  # one that waits for its seam holds up the next
    deaths = sorted(BEGIN + (number + rng.random()) * (END - BEGIN) / more for number in range(more))
    life = await SimulatedProcess(crashing_database, clock, access).start()
    while clock.now < END:
        if deaths and clock.now >= deaths[0] and crashing_database.next_crash is None:
            crashing_database.next_crash = next(seams)
            deaths.pop(0)
        try:
            next_due = await life.run_due()
            clock.now = max(clock.now + 1.0, min(END, next_due or END))
        except ProcessDied:
            left = clock.now
            clock.now += rng.choice((1.0, 60.0, LATE_SECONDS, HOUR, 20 * HOUR))
            month.downtimes.append(Downtime(left, clock.now, await find_overdue(database, left)))
            life = await SimulatedProcess(crashing_database, clock, access).start()
    crashing_database.next_crash, clock.now = None, END - 1.0
    await life.run_due()
    month.done_counts = await count_done(database)
    return month


@pytest.mark.timeout(120)
async def test_a_month_of_a_thousand_jobs_and_thirty_deaths_is_done_exactly_once(unsynced: Database):
    dice, mortal = random.Random(6), CrashingDatabase(unsynced)
    async with unsynced.transaction() as tx:
        for person in range(1, PERSON_COUNT + 1):
            await people.put(tx, person, f"P{person}", "member", let_in_by=1, now=BEGIN)
        all_jobs = {await jobs.add(tx, new, now=BEGIN): new for new in generate_jobs(dice)}
    month = await live_through_month(unsynced, mortal, dice)
    wrong, told = compare_with_rules(all_jobs, month)
    assert not wrong, f"{len(wrong)} of {told.total()} due times are wrong:\n" + "\n".join(wrong[:40])
    assert len(month.downtimes) >= CRASH_COUNT
    assert set(mortal.crash_counts) == set(CRASH_POINTS)
    assert told.total() > 1300
    assert 0 < told["skipped"] < told["done"]
    await _check_job_rows(unsynced, all_jobs, month)


async def _check_job_rows(database: Database, all_jobs: dict[int, NewJob], month: MonthRecord) -> None:
    """What jobs say of themselves is what happened: done with all, none failed, the next time is to come."""
    last = defaultdict[int, float](float)
    for job, due in month.done_counts:
        last[job] = max(last[job], due)
    async with database.read_transaction() as tx:
        for row in await tx.execute(select(jobs_table)):
            new = all_jobs[row.id]
            assert row.failures == 0
            assert (row.last_due or 0.0) == last[row.id]
            if new.kind != "house":
                assert row.state == ("done" if new.rule is None and (new.next_due or 0) < END else "active")
                assert (row.last_done is not None) == (row.last_due is not None)
            if new.rule is not None:
                assert row.next_due >= END
