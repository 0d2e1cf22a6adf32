"""What people want done later: understood, bounded, kept and said back. Behind the tool `schedule` and the
commands.

Words are understood in a thread and outside of any transaction, for a date may take a second the first time.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.agent.sanitize import to_sendable
from bot.db.engine import Database, Transaction
from bot.db.people import time_zones as zones
from bot.db.queues import jobs, outbox
from bot.db.queues.jobs import Job, JobKind, MissedRunPolicy, NewJob
from bot.domain import Button, Lane, Part
from bot.jobs.times import formatting as saying
from bot.jobs.times import rrules as rules
from bot.jobs.times.errors import UnclearTime
from bot.jobs.times.rrules import RecurrenceRule
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from bot.jobs.times.parser import ParsedSchedule

    WhenParser = Callable[[str, str, float, int], tuple[ParsedSchedule, str]]

MAX_TEXT_CHARS = 1000  # characters of what is to be said or done
MAX_LISTED_CHARS = 80  # characters of that in a list
SAMPLE_ZONES = ("UTC", "Asia/Tokyo", "America/New_York")  # what is the same in all of these needs no zone
ZONE_NEEDED = "no zone"  # the error of a /remind that waits for its person's time zone
FREQUENT_SECONDS = 3600  # seconds; what comes as often as that is not made up for


class ZoneUnknown(UnclearTime):
    """Nobody knows in which time zone the person is, and these words need it."""

    def __init__(self) -> None:
        super().__init__(
            "I do not know in which time zone you are. Send /zone and a city, such as: /zone Berlin."
        )


@dataclass(frozen=True, slots=True)
class JobLimits:
    """How many jobs one person may have, how many all, and the seconds between two due times at least.

    `zone` is where people are who have not said; None: they are asked.
    """

    max_per_person: int = 20
    max_total: int = 1000
    min_interval_seconds: int = 300
    default_zone: str | None = None


@dataclass(frozen=True, slots=True)
class JobOwner:
    """Whose job it is, and where it is done."""

    person: int
    name: str
    lane: Lane


@dataclass(frozen=True, slots=True)
class UserJobs:
    """Keeps jobs of people; `look` is called when one may be due earlier than was known."""

    database: Database
    limits: JobLimits
    wake_scheduler: Callable[[], None]
    clock: Callable[[], float] = time.time

    async def find_zone(self, tx: Transaction, person: int) -> str | None:
        """Where somebody is, as far as it is known."""
        return await zones.find(tx, person) or self.limits.default_zone

    async def parse_line(self, person: int, line: str, written_at: float) -> "tuple[ParsedSchedule, str]":
        """What a line such as `tomorrow at nine call Anna`, written then, means to somebody.

        Raises Unclear, or ZoneUnknown.
        """
        return await run_in_thread(
            self._parse_in_zone, _parse_line, to_sendable(line), await self._load_zone(person), written_at
        )

    async def parse_when(self, person: int, text: str) -> "ParsedSchedule":
        """What words for a time mean to somebody. Raises Unclear, or ZoneUnknown."""
        zone = await self._load_zone(person)
        now = self.clock()
        return (await run_in_thread(self._parse_in_zone, _parse_when, to_sendable(text), zone, now))[0]

    async def add_job(
        self, tx: Transaction, owner: JobOwner, kind: JobKind, schedule: "ParsedSchedule", text: str
    ) -> Part:
        """Keep a job; what the person is told of it, with an Undo button. Raises Unclear where it does not
        fit.
        """
        text = to_sendable(text).strip()
        now = self.clock()
        if not text or len(text) > MAX_TEXT_CHARS:
            raise UnclearTime(
                f"What I shall say or do then has 1 to {MAX_TEXT_CHARS} characters, this has {len(text)}."
            )
        await self._check_limits(tx, owner.person)
        await zones.ensure_person(tx, owner.person, owner.name, now=now)
        new = NewJob(
            kind=kind,
            next_due=schedule.first_due,
            zone=schedule.zone,
            rule=schedule.rule.text if schedule.rule else None,
            missed=_choose_missed_policy(schedule.rule),
            text=text,
            person=owner.person,
            lane=owner.lane,
        )
        number = await jobs.add(tx, new, now=now)
        undo = Button("Undo", f"job:undo:{number}")
        return Part(f"{_format_confirmation(kind, text)}\n{format_schedule(schedule)}", buttons=((undo,),))

    async def notify_owner(self, tx: Transaction, owner: JobOwner, part: Part) -> None:
        """Have the person told, whatever the model says."""
        await outbox.add(tx, item=None, lane=owner.lane, parts=(part,), now=self.clock())

    async def change_zone(self, tx: Transaction, owner: JobOwner, zone: str) -> int:
        """Somebody is in this zone: what goes by the calendar goes by it from now on; how many jobs that are."""
        now = self.clock()
        await zones.ensure_person(tx, owner.person, owner.name, now=now)
        await zones.put(tx, owner.person, zone)
        found = await jobs.list_of_person(tx, owner.person, limit=jobs.MAX_JOBS)
        moved = await run_in_thread(_compute_moved_jobs, found, zone, now)
        for job, next_due in moved:
            await jobs.set_next_due(tx, job.id, next_due, zone=zone)
        return len([job for job, _ in moved if job.rule])

    async def compute_next_due(self, job: Job) -> float | None:
        """When a job that was paused is due next; None: never, for its time has passed. Raises Unclear."""
        try:
            return await run_in_thread(_compute_next_due, job, self.clock())
        except (ValueError, KeyError):
            raise UnclearTime("I cannot read when that was to be. Delete it, and ask for it anew.") from None

    async def _load_zone(self, person: int) -> str | None:
        async with self.database.read_transaction() as tx:
            return await self.find_zone(tx, person)

    async def _check_limits(self, tx: Transaction, person: int) -> None:
        mine, all_of_them = await jobs.count_open(tx, person)
        if not (self.limits.max_per_person and self.limits.max_total):
            raise UnclearTime("This bot keeps no reminders and tasks.")
        if mine >= self.limits.max_per_person:
            raise UnclearTime(
                f"You have {mine} job{'s' * (mine > 1)}, and no more fit. Delete one with /jobs."
            )
        if all_of_them >= self.limits.max_total:
            raise UnclearTime(
                f"This bot keeps {self.limits.max_total} jobs for all its people, and they are taken."
            )

    def _parse_in_zone(
        self, parse: "WhenParser", text: str, zone: str | None, written_at: float
    ) -> "tuple[ParsedSchedule, str]":
        if zone is not None:
            return self._parse_future(parse, text, zone, written_at)
        found = [self._parse_future(parse, text, place, written_at) for place in SAMPLE_ZONES]
        if len({when.next_times for when, _ in found}) > 1:
            raise ZoneUnknown
        return found[0]

    def _parse_future(
        self, parse: "WhenParser", phrase: str, zone: str, written_at: float
    ) -> "tuple[ParsedSchedule, str]":
        """What the words meant when they were said, if that is still to come."""
        now = self.clock()
        shortest = self.limits.min_interval_seconds
        when, text = parse(phrase, zone, written_at, shortest)
        if when.first_due > now:
            return when, text
        if when.rule is None:
            from bot.jobs.times import instants as moments

            raise moments.build_past_error(now - when.first_due)
        return parse(phrase, zone, now, shortest)


def _parse_line(line: str, zone: str, now: float, min_interval_seconds: int) -> "tuple[ParsedSchedule, str]":
    from bot.jobs.times import (
        parser as understanding,  # its patterns take time, and most houses start without a word for a time
    )

    return understanding.parse_line(line, zone, now, min_interval_seconds)


def _parse_when(text: str, zone: str, now: float, min_interval_seconds: int) -> "tuple[ParsedSchedule, str]":
    from bot.jobs.times import parser as understanding

    return understanding.parse_when(text, zone, now, min_interval_seconds), ""


def format_schedule(schedule: "ParsedSchedule") -> str:
    """What was understood, with local times and their zone."""
    if schedule.rule is None:
        return saying.format_times(schedule.next_times, schedule.zone)
    return f"{schedule.recurrence_text[0].upper()}{schedule.recurrence_text[1:]}. Next: {saying.format_times(schedule.next_times, schedule.zone)}"


def format_job(job: Job) -> str:
    """A job in a list."""
    how = _format_rule(job)
    mark = "⏰" if job.kind == "reminder" else "🤖"
    if job.state == "paused":
        state = f"paused{f', for {job.why_paused}' if job.why_paused else ''}"
    else:
        state = _format_next_due(job)
    text = " ".join(job.text.split())
    shown = text if len(text) <= MAX_LISTED_CHARS else f"{text[: MAX_LISTED_CHARS - 1]}…"
    return f"#{job.id} {mark} {shown} · {f'{how} · ' if how else ''}{state}"


def _format_rule(job: Job) -> str:
    try:
        return saying.format_recurrence(RecurrenceRule.parse(job.rule)) if job.rule else ""
    except (ValueError, KeyError):
        return "?"


def _format_next_due(job: Job) -> str:
    if job.next_due is None:
        return "under way"
    return f"{saying.format_time(job.next_due, job.zone)} ({job.zone})"


def _format_confirmation(kind: JobKind, text: str) -> str:
    if kind == "reminder":
        return f"⏰ I remind you: {text}"
    return f"🤖 I do this then: {text}"


def _choose_missed_policy(rule: RecurrenceRule | None) -> MissedRunPolicy:
    if rule is not None and rule.step_seconds is not None and rule.step_seconds <= FREQUENT_SECONDS:
        return "skip"
    return "once"


def _compute_next_due(job: Job, now: float) -> float | None:
    if job.rule is None:
        if job.next_due is not None and job.next_due > now:
            return job.next_due
        return None
    return rules.find_next(RecurrenceRule.parse(job.rule), rules.load_zone(job.zone), now)


def _compute_moved_jobs(stored_jobs: Sequence[Job], zone: str, now: float) -> list[tuple[Job, float | None]]:
    """The jobs that another zone concerns; what happens once stays at its moment, and is told in the zone's
    time.
    """
    moved = list[tuple[Job, float | None]]()
    for job in stored_jobs:
        if not job.rule:
            moved.append((job, job.next_due))
            continue
        with contextlib.suppress(ValueError, KeyError):  # one that cannot be read is paused for it
            rule = RecurrenceRule.parse(job.rule)
            if rule.step_seconds is None:
                moved.append((job, rules.find_next(rule, rules.load_zone(zone), now)))
    return moved
