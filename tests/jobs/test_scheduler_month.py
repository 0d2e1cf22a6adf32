"""A month of hundreds of jobs, with the clock passed in, through clock changes and thirty crashes.

Every due time runs exactly once or is skipped by its rule, across daylight-saving changes and crashes of the
process at every point between due and done.
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

from bot.chat.access import Access
from bot.chat.reminders import ReminderRunner
from bot.chat.tasks import TaskRunner, UnansweredEnd
from bot.db.engine import Database, open_database
from bot.db.people import people
from bot.db.queues import inbox, jobs, outbox
from bot.db.queues.jobs import JobKind, MissedRunPolicy, NewJob
from bot.db.sqlite import connections
from bot.db.sqlite.engine import SqliteDatabase
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.db.tables import outbox as outbox_table
from bot.db.transaction import Transaction
from bot.domain import InboxItem, Lane, Part, Runner
from bot.jobs.outcomes import JobOutcomes
from bot.jobs.scheduler import JobScheduler
from bot.jobs.times import rrules
from bot.jobs.times.next_run import LATE_SECONDS
from bot.jobs.times.rrules import RecurrenceRule
from bot.jobs.user_jobs import JobLimits, UserJobs
from bot.translations.translator import ENGLISH
from bot.turns.execution import RequestCompleter
from bot.turns.turn_request import TurnRequest
from tests.support.groups import build_directory

# New York goes forward on 14 March 2027, Berlin on 28 March, Sydney back on 4 April.
BEGIN = datetime(2027, 3, 8, tzinfo=UTC).timestamp()
END = datetime(2027, 4, 8, tzinfo=UTC).timestamp()
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "UTC")
CHANGES = ("20270328T013000", "20270328T023000", "20270314T023000", "20270404T023000")
JOB_COUNT = 400
PERSON_COUNT = 40
CRASH_COUNT = 30
HOUR = 3600.0
DAY = 86_400.0

RULES = (  # the recurring jobs: how many, and their rule
    (50, "FREQ=MONTHLY;BYMONTHDAY={day}"),
    (40, "FREQ=WEEKLY;INTERVAL=2"),
    (25, "FREQ=WEEKLY"),
    (4, "FREQ=DAILY"),
    (2, "FREQ=HOURLY;INTERVAL=12"),
    (5, "FREQ=YEARLY"),
)


class ProcessDied(BaseException):
    """The process has crashed."""


@dataclass(frozen=True)
class CrashPoint:
    """Where a process dies: in which activity, and before or after which commit.

    Activities are write, claim, reminder, task and "system" (a system job).
    """

    activity: str
    commit: int
    side: str


CRASH_POINTS = [
    *(CrashPoint(activity, 1, side) for activity in ("write", "claim") for side in ("before", "after")),
    *(
        CrashPoint(activity, commit, side)
        for activity in ("reminder", "task")
        for commit in (1, 2)
        for side in ("before", "after")
    ),
    *(CrashPoint("system", 1, side) for side in ("before", "after")),
]


class CrashingDatabase(SqliteDatabase):
    """A database whose process dies at the crash point it is armed for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.next_crash: CrashPoint | None = None
        self.activity = ""
        self.commits = 0
        self.crash_counts: Counter[CrashPoint] = Counter()

    def begin_activity(self, activity: str) -> None:
        self.activity = activity
        self.commits = 0

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Transaction]:
        self.commits += 1
        commit = self.commits
        async with self._database.transaction(durable=durable) as tx:
            yield tx
            self._crash_at(CrashPoint(self.activity, commit, "before"))
        self._crash_at(CrashPoint(self.activity, commit, "after"))

    @contextlib.asynccontextmanager
    async def read_transaction(self) -> AsyncIterator[Transaction]:
        async with self._database.read_transaction() as tx:
            yield tx

    def _crash_at(self, crash_point: CrashPoint) -> None:
        if crash_point == self.next_crash:
            self.next_crash = None
            self.crash_counts[crash_point] += 1
            raise ProcessDied


@dataclass
class FakeTurnService:
    """Answers turns in one transaction, as real ones end."""

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
    """One process: a scheduler, the worker's claims and the runners, until it dies."""

    database: CrashingDatabase
    clock: FakeClock
    access: Access
    runners: dict[str, Runner] = field(default_factory=dict)

    async def start(self) -> "SimulatedProcess":
        self.scheduler = JobScheduler(self.database, self.clock)
        outcomes = JobOutcomes(self.database, lambda person: ENGLISH, self.clock)
        user_jobs = UserJobs(self.database, JobLimits(), self.clock)
        reminders = ReminderRunner(self.database, self.access, build_directory(), user_jobs, self.clock)
        turn_service = FakeTurnService(self.database, self.clock)
        end_unanswered = UnansweredEnd(self.database, lambda _: None, self.clock)
        tasks = TaskRunner(
            self.database, self.access, build_directory(), turn_service, end_unanswered, self.clock
        )
        self.runners = {
            "reminder": outcomes.record_after(reminders),
            "task": outcomes.record_after(tasks),
            "system": self._run_system_job,
        }
        self.database.begin_activity("start")
        async with self.database.transaction() as tx:
            await inbox.recover(tx, now=self.clock.now)
        await outcomes.recover()
        return self

    async def run_due(self) -> float | None:
        """Write down and run everything that is due now; return when the next job is due."""
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
    """A time without a process; `overdue`: jobs due but not written when it crashed, and since when."""

    crashed_at: float
    restarted_at: float
    overdue: dict[int, float]

    def covers(self, job: int, due: float) -> bool:
        """Tell whether no process was there for this due time."""
        return (
            min(self.overdue.get(job, self.restarted_at), self.crashed_at + 0.5) <= due <= self.restarted_at
        )


@dataclass
class MonthRecord:
    """What happened: when there was no process, and how often each due time ran."""

    downtimes: list["Downtime"] = field(default_factory=list)
    done_counts: Counter[tuple[int, float]] = field(default_factory=Counter)


def generate_jobs(rng: random.Random) -> Iterator[NewJob]:
    """Yield the jobs, of all kinds; many at the hours when clocks are changed."""
    recurring = [text for count, text in RULES for _ in range(count)]
    for number in range(JOB_COUNT):
        kind: JobKind = rng.choice(("reminder", "reminder", "task"))
        missed: MissedRunPolicy = rng.choice(("once", "skip"))
        zone = rng.choice(ZONES)
        start = rrules.to_local_time(BEGIN + rng.random() * 14 * DAY, rrules.load_zone(zone))
        start = start.replace(
            hour=rng.choice((2, 2, 3, 9, 18)), minute=rng.choice((0, 30)), second=0, microsecond=0
        )
        if number % 25 == 0:
            start = datetime.strptime(rng.choice(CHANGES), rrules.STAMP_FORMAT)  # noqa: DTZ007
        person = number % PERSON_COUNT + 1
        common: dict[str, Any] = {"zone": zone, "missed": missed, "text": f"job {number}"}
        if number < len(recurring):
            text = recurring[number].format(day=rng.choice((10, 28, 31)))
            rule = RecurrenceRule.parse(
                f"DTSTART:{start - timedelta(days=56):{rrules.STAMP_FORMAT}}\nRRULE:{text}"
            )
            first = rrules.find_next(rule, rrules.load_zone(zone), BEGIN)
            assert first is not None
            common |= {"rule": rule.text, "next_due": first}
        else:
            common["next_due"] = rrules.to_timestamp(start, rrules.load_zone(zone)) + rng.randrange(14) * DAY
        if number % 25 == 1:
            yield NewJob(kind="system", name=f"job {number}", **common)
        else:
            yield NewJob(kind=kind, person=person, lane=Lane(person), **common)


def list_due_times(new_job: NewJob) -> list[float]:
    """List every due time of a job in the month."""
    assert new_job.next_due is not None
    if new_job.rule is None:
        return [new_job.next_due] if new_job.next_due < END else []
    dues = rrules.iterate_times(RecurrenceRule.parse(new_job.rule), rrules.load_zone(new_job.zone), BEGIN)
    return list(itertools.takewhile(lambda due: due < END, dues))


def determine_outcome(
    job: int, new_job: NewJob, due: float, later_dues: list[float], month: MonthRecord
) -> str:
    """What must happen to a due time: done, or skipped by the job's rule."""
    downtimes = [downtime for downtime in month.downtimes if downtime.covers(job, due)]
    if not downtimes:
        return "done"
    restarted_at = max(downtime.restarted_at for downtime in downtimes)
    if any(later <= restarted_at for later in later_dues):
        return "skipped"
    if new_job.missed == "skip" and restarted_at - due > LATE_SECONDS:
        return "skipped"
    return "done"


async def find_overdue(database: Database, now: float) -> dict[int, float]:
    """Find the jobs that are due and not written down, and since when."""
    async with database.read_transaction() as tx:
        return {job.id: job.next_due or 0.0 for job in await jobs.list_due(tx, now=now, limit=JOB_COUNT)}


async def count_done(database: Database) -> Counter[tuple[int, float]]:
    """Count how often each due time ran: messages that were written, and items of system jobs."""
    done_counts: Counter[tuple[int, float]] = Counter()
    async with database.read_transaction() as tx:
        query = select(
            inbox_table.c.job,
            inbox_table.c.due_at,
            outbox_table.c.id,
            inbox_table.c.kind,
            inbox_table.c.state,
        )
        rows = await tx.execute(query.outerjoin(outbox_table, outbox_table.c.item == inbox_table.c.id))
        for job, due_at, message, kind, state in rows:
            assert state == "done"
            done_counts[job, due_at] += message is not None or kind == "system"
    return done_counts


def compare_with_rules(jobs_by_id: dict[int, NewJob], month: MonthRecord) -> tuple[list[str], Counter[str]]:
    """Return a line for every due time that did not run as its rule says, and how many have which outcome."""
    errors: list[str] = []
    known: set[tuple[int, float]] = set()
    outcome_counts: Counter[str] = Counter()
    for job, new in jobs_by_id.items():
        dues = list_due_times(new)
        for index, due in enumerate(dues):
            known.add((job, due))
            outcome = determine_outcome(job, new, due, dues[index + 1 :], month)
            outcome_counts[outcome] += 1
            done_count = month.done_counts[job, due]
            if done_count != (outcome == "done"):
                description = f"job {job} ({new.kind}, {new.missed}, {new.zone}, {new.rule})"
                due_at = datetime.fromtimestamp(due, UTC)
                errors.append(f"{description} at {due_at}: {outcome}, but done {done_count} times")
    errors += [
        f"job {job} was done at {due}, no due time of it"
        for job, due in month.done_counts
        if (job, due) not in known
    ]
    return errors, outcome_counts


@pytest.fixture
async def unsynced(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A database that is not synced to the disk: processes of these tests die, the machine does not."""
    unsynced_pragmas = dict.fromkeys((True, False), ("PRAGMA synchronous=OFF",))
    monkeypatch.setattr(connections, "_COMMIT_PRAGMAS", unsynced_pragmas)
    async with open_database(database_url) as database:
        yield database


async def live_through_month(
    database: Database, crashing_database: CrashingDatabase, rng: random.Random
) -> MonthRecord:
    """Live through the month, crashing again and again."""
    clock = FakeClock()
    month = MonthRecord()
    access = Access("pairing")
    crash_points = itertools.cycle(CRASH_POINTS)
    await access.load(database)
    count = CRASH_COUNT + 6  # a crash that waits for its point delays the next
    crash_times = sorted(BEGIN + (number + rng.random()) * (END - BEGIN) / count for number in range(count))
    process = await SimulatedProcess(crashing_database, clock, access).start()
    while clock.now < END:
        if crash_times and clock.now >= crash_times[0] and crashing_database.next_crash is None:
            crashing_database.next_crash = next(crash_points)
            crash_times.pop(0)
        try:
            next_due = await process.run_due()
            clock.now = max(clock.now + 1.0, min(END, next_due or END))
        except ProcessDied:
            crashed_at = clock.now
            clock.now += rng.choice((1.0, 60.0, LATE_SECONDS, HOUR, 20 * HOUR))
            overdue = await find_overdue(database, crashed_at)
            month.downtimes.append(Downtime(crashed_at, clock.now, overdue))
            process = await SimulatedProcess(crashing_database, clock, access).start()
    crashing_database.next_crash = None
    clock.now = END - 1.0
    await process.run_due()
    month.done_counts = await count_done(database)
    return month


async def test_a_month_of_hundreds_of_jobs_and_thirty_crashes_runs_exactly_once(unsynced: Database):
    rng = random.Random(6)
    crashing_database = CrashingDatabase(unsynced)
    async with unsynced.transaction() as tx:
        for person in range(1, PERSON_COUNT + 1):
            await people.put(tx, person, f"P{person}", "member", let_in_by=1, now=BEGIN)
        all_jobs = {await jobs.add(tx, new, now=BEGIN): new for new in generate_jobs(rng)}
    month = await live_through_month(unsynced, crashing_database, rng)
    errors, outcome_counts = compare_with_rules(all_jobs, month)
    summary = f"{len(errors)} of {outcome_counts.total()} due times are wrong:"
    assert not errors, "\n".join([summary, *errors[:40]])
    assert len(month.downtimes) >= CRASH_COUNT
    assert set(crashing_database.crash_counts) == set(CRASH_POINTS)
    assert outcome_counts.total() > 600
    assert 0 < outcome_counts["skipped"] < outcome_counts["done"]
    await _check_job_rows(unsynced, all_jobs, month)


async def _check_job_rows(database: Database, all_jobs: dict[int, NewJob], month: MonthRecord) -> None:
    """Rows of jobs say what happened: every due time ran, none failed, the next one is to come."""
    last_due = defaultdict[int, float](float)
    for job, due in month.done_counts:
        last_due[job] = max(last_due[job], due)
    async with database.read_transaction() as tx:
        for row in await tx.execute(select(jobs_table)):
            new = all_jobs[row.id]
            assert row.failures == 0
            assert (row.last_due or 0.0) == last_due[row.id]
            if new.kind != "system":
                assert row.state == ("done" if new.rule is None and (new.next_due or 0) < END else "active")
                assert (row.last_done is not None) == (row.last_due is not None)
            if new.rule is not None:
                assert row.next_due >= END
