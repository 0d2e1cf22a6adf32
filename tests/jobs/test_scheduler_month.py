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
from bot.db.engine import Database, connected
from bot.db.people import people
from bot.db.queues import inbox, jobs, outbox
from bot.db.queues.jobs import JobKind, Missed, NewJob
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.db.tables import outbox as outbox_table
from bot.domain import InboxItem, Lane, Part, Runner
from bot.jobs.outcomes import Settling
from bot.jobs.scheduler import Schedule
from bot.jobs.times import rrules as rules
from bot.jobs.times.next_run import LATE
from bot.jobs.times.rrules import Rule
from bot.jobs.user_jobs import Bounds, Diary
from bot.telegram.access import Access
from bot.telegram.runners.reminders import Reminders
from bot.telegram.runners.tasks import Tasks
from bot.turns.runner import Complete
from bot.turns.start import Ask

# New York goes forward on 14 March 2027, Berlin on 28 March, Sydney back on 4 April.
BEGIN = datetime(2027, 3, 8, tzinfo=UTC).timestamp()
END = datetime(2027, 4, 8, tzinfo=UTC).timestamp()
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "UTC")
CHANGES = ("20270328T013000", "20270328T023000", "20270314T023000", "20270404T023000")
JOBS, PEOPLE, DEATHS = 1000, 60, 30
HOUR, DAY = 3600.0, 86_400.0

RULES = (  # how many of the recurring jobs, and what they are
    (120, "FREQ=MONTHLY;BYMONTHDAY={day}"),
    (100, "FREQ=WEEKLY;INTERVAL=2"),
    (60, "FREQ=WEEKLY"),
    (6, "FREQ=DAILY"),
    (2, "FREQ=HOURLY;INTERVAL=12"),
    (10, "FREQ=YEARLY"),
)


class Died(BaseException):
    """The process is gone."""


@dataclass(frozen=True)
class Seam:
    """Where a process dies: in what it does (write, claim, reminder, task, house), at which commit, before or
    after.
    """

    doing: str
    commit: int
    when: str


SEAMS = [
    *(Seam(doing, 1, when) for doing in ("write", "claim") for when in ("before", "after")),
    *(
        Seam(doing, commit, when)
        for doing in ("reminder", "task")
        for commit in (1, 2)
        for when in ("before", "after")
    ),
    *(Seam("house", 1, when) for when in ("before", "after")),
]


class Mortal(Database):
    """A database whose process dies at the seam it is armed for."""

    def __init__(self, whole: Database) -> None:
        self._whole = whole
        self.armed: Seam | None = None
        self.doing = ""
        self.commits = 0
        self.met: Counter[Seam] = Counter()

    def does(self, doing: str) -> None:
        self.doing, self.commits = doing, 0

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        self.commits += 1
        here = self.commits
        async with self._whole.transaction(durable=durable) as tx:
            yield tx
            self._die(Seam(self.doing, here, "before"))
        self._die(Seam(self.doing, here, "after"))

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        async with self._whole.reading() as tx:
            yield tx

    def _die(self, here: Seam) -> None:
        if here == self.armed:
            self.armed = None
            self.met[here] += 1
            raise Died


@dataclass
class Answers:
    """Answers turns in one transaction, as the real ones end."""

    database: Database
    clock: "Clock"

    async def run(self, ask: Ask, complete: Complete | None = None) -> None:
        async with self.database.transaction() as tx:
            await outbox.add(
                tx, item=ask.items[0].id, lane=ask.lane, parts=(Part("done"),), now=self.clock.now
            )
            await inbox.done(tx, [item.id for item in ask.items], now=self.clock.now)

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        return False

    def go_on(self, lane: Lane) -> None: ...


@dataclass
class Clock:
    now: float = BEGIN

    def __call__(self) -> float:
        return self.now


@dataclass
class Life:
    """One process: a schedule, the worker's claims and the runners, until it dies."""

    database: Mortal
    clock: Clock
    access: Access
    runners: dict[str, Runner] = field(default_factory=dict)

    async def begin(self) -> "Life":
        self.schedule = Schedule(self.database, lambda: None, self.clock)
        settling = Settling(self.database, lambda lane: None, self.clock)
        diary = Diary(self.database, Bounds(), lambda: None, self.clock)
        reminders = Reminders(self.database, self.access, diary, lambda lane: None, self.clock)
        tasks = Tasks(
            self.database, self.access, Answers(self.database, self.clock), lambda _: None, self.clock
        )
        self.runners = {
            "reminder": settling.behind(reminders),
            "task": settling.behind(tasks),
            "house": self._keep_house,
        }
        self.database.does("start")
        async with self.database.transaction() as tx:
            await inbox.recover(tx, now=self.clock.now)
        await settling.recover()
        return self

    async def look(self) -> float | None:
        """Write down and do all that is due now; when the next job is due."""
        self.database.does("write")
        next_due = await self.schedule.write()
        while True:
            self.database.does("claim")
            async with self.database.transaction() as tx:
                claimed = await inbox.claim(tx, now=self.clock.now)
            if not claimed.groups:
                return next_due
            for items in claimed.groups:
                self.database.does(items[0].kind)
                await self.runners[items[0].kind](items)

    async def _keep_house(self, items: tuple[InboxItem, ...]) -> None:
        async with self.database.transaction() as tx:
            await inbox.done(tx, [items[0].id], now=self.clock.now)


@dataclass(frozen=True)
class Away:
    """A time without a process; `unwritten` jobs had been due since then when it died, and were not written
    down.
    """

    left: float
    back: float
    unwritten: dict[int, float]

    def misses(self, job: int, due: float) -> bool:
        """Whether nobody was there for this due time."""
        return min(self.unwritten.get(job, self.back), self.left + 0.5) <= due <= self.back


@dataclass
class Month:
    """What happened: when there was no process, and how often each due time was done."""

    away: list["Away"] = field(default_factory=list)
    done: Counter[tuple[int, float]] = field(default_factory=Counter)


def made(dice: random.Random) -> Iterator[NewJob]:
    """The jobs, of all kinds; many at the hours when clocks are changed."""
    recurring = [text for count, text in RULES for _ in range(count)]
    for number in range(JOBS):
        kind: JobKind = dice.choice(("reminder", "reminder", "task"))
        missed: Missed = dice.choice(("once", "skip"))
        zone = dice.choice(ZONES)
        start = rules.local(BEGIN + dice.random() * 14 * DAY, rules.zone(zone))
        start = start.replace(
            hour=dice.choice((2, 2, 3, 9, 18)), minute=dice.choice((0, 30)), second=0, microsecond=0
        )
        if number % 25 == 0:
            start = datetime.strptime(dice.choice(CHANGES), rules.STAMP)  # noqa: DTZ007
        person = number % PEOPLE + 1
        common: dict[str, Any] = {"zone": zone, "missed": missed, "text": f"job {number}"}
        if number < len(recurring):
            text = recurring[number].format(day=dice.choice((10, 28, 31)))
            rule = Rule.parse(f"DTSTART:{start - timedelta(days=56):{rules.STAMP}}\nRRULE:{text}")
            first = rules.next_after(rule, rules.zone(zone), BEGIN)
            assert first is not None
            common |= {"rule": rule.text, "next_due": first}
        else:
            common["next_due"] = rules.instant(start, rules.zone(zone)) + dice.randrange(14) * DAY
        if number % 25 == 1:
            yield NewJob(kind="house", name=f"job {number}", **common)
        else:
            yield NewJob(kind=kind, person=person, lane=Lane(person), **common)


def expected(new: NewJob) -> list[float]:
    """Every due time of a job in the month."""
    assert new.next_due is not None
    if new.rule is None:
        return [new.next_due] if new.next_due < END else []
    found = rules.following(Rule.parse(new.rule), rules.zone(new.zone), BEGIN)
    return list(itertools.takewhile(lambda due: due < END, found))


def judged(job: int, new: NewJob, due: float, later: list[float], month: Month) -> str:
    """What must become of a due time: done, or skipped by the job's rule."""
    back = max((one.back for one in month.away if one.misses(job, due)), default=None)
    if back is None:
        return "done"
    return (
        "skipped"
        if any(after <= back for after in later) or (new.missed == "skip" and back - due > LATE)
        else "done"
    )


async def unwritten(database: Database, now: float) -> dict[int, float]:
    """The jobs that are due and not written down, and since when."""
    async with database.reading() as tx:
        return {job.id: job.next_due or 0.0 for job in await jobs.due(tx, now=now, most=JOBS)}


async def settled(database: Database) -> Counter[tuple[int, float]]:
    """How often each due time was done: messages that were written, and items of the house."""
    found: Counter[tuple[int, float]] = Counter()
    async with database.reading() as tx:
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


def report(made: dict[int, NewJob], month: Month) -> tuple[list[str], Counter[str]]:
    """A line for every due time that was not done as its rule says, or that is none; and how many should be
    what.
    """
    wrong, known, told = list[str](), set[tuple[int, float]](), Counter[str]()
    for job, new in made.items():
        dues = expected(new)
        for at, due in enumerate(dues):
            known.add((job, due))
            should, times = judged(job, new, due, dues[at + 1 :], month), month.done[job, due]
            told[should] += 1
            if times != (should == "done"):
                what = f"job {job} ({new.kind}, {new.missed}, {new.zone}, {new.rule})"
                wrong.append(f"{what} at {datetime.fromtimestamp(due, UTC)}: {should}, but {times} times")
    wrong += [
        f"job {job} was done at {due}, no due time of it"
        for job, due in month.done
        if (job, due) not in known
    ]
    return wrong, told


@pytest.fixture
async def unsynced(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A process that dies in these tests leaves the machine running, so that nothing need be synced to the
    disk.
    """
    monkeypatch.setattr(engine, "_SYNCED", dict.fromkeys((True, False), "PRAGMA synchronous=OFF"))
    async with connected(database_url) as database:
        yield database


async def lived(database: Database, mortal: Mortal, dice: random.Random) -> Month:
    """Live through the month, dying again and again."""
    clock, month, access, seams = Clock(), Month(), Access("pairing"), itertools.cycle(SEAMS)
    await access.load(database)
    more = DEATHS + 6  # one that waits for its seam holds up the next
    deaths = sorted(BEGIN + (number + dice.random()) * (END - BEGIN) / more for number in range(more))
    life = await Life(mortal, clock, access).begin()
    while clock.now < END:
        if deaths and clock.now >= deaths[0] and mortal.armed is None:
            mortal.armed = next(seams)
            deaths.pop(0)
        try:
            next_due = await life.look()
            clock.now = max(clock.now + 1.0, min(END, next_due or END))
        except Died:
            left = clock.now
            clock.now += dice.choice((1.0, 60.0, LATE, HOUR, 20 * HOUR))
            month.away.append(Away(left, clock.now, await unwritten(database, left)))
            life = await Life(mortal, clock, access).begin()
    mortal.armed, clock.now = None, END - 1.0
    await life.look()
    month.done = await settled(database)
    return month


@pytest.mark.timeout(120)
async def test_a_month_of_a_thousand_jobs_and_thirty_deaths_is_done_exactly_once(unsynced: Database):
    dice, mortal = random.Random(6), Mortal(unsynced)
    async with unsynced.transaction() as tx:
        for person in range(1, PEOPLE + 1):
            await people.put(tx, person, f"P{person}", "member", by=1, now=BEGIN)
        all_jobs = {await jobs.add(tx, new, now=BEGIN): new for new in made(dice)}
    month = await lived(unsynced, mortal, dice)
    wrong, told = report(all_jobs, month)
    assert not wrong, f"{len(wrong)} of {told.total()} due times are wrong:\n" + "\n".join(wrong[:40])
    assert len(month.away) >= DEATHS
    assert set(mortal.met) == set(SEAMS)
    assert told.total() > 1300
    assert 0 < told["skipped"] < told["done"]
    await _notes_are_right(unsynced, all_jobs, month)


async def _notes_are_right(database: Database, all_jobs: dict[int, NewJob], month: Month) -> None:
    """What jobs say of themselves is what happened: done with all, none failed, the next time is to come."""
    last = defaultdict[int, float](float)
    for job, due in month.done:
        last[job] = max(last[job], due)
    async with database.reading() as tx:
        for row in await tx.execute(select(jobs_table)):
            new = all_jobs[row.id]
            assert row.failures == 0
            assert (row.last_due or 0.0) == last[row.id]
            if new.kind != "house":
                assert row.state == ("done" if new.rule is None and (new.next_due or 0) < END else "active")
                assert (row.last_done is not None) == (row.last_due is not None)
            if new.rule is not None:
                assert row.next_due >= END
