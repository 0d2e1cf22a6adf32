"""Jobs of users, reminders and tasks: parsed, limited, stored and described.

Behind the tool `schedule` and the commands.

Words are parsed in a thread and outside of any transaction, for a date may take a second the first time.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.agent.sanitize import to_sendable
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import jobs, outbox
from bot.db.queues.jobs import Job, JobKind, MissedRunPolicy, NewJob
from bot.db.transaction import Transaction
from bot.domain import Button, Lane, Part
from bot.jobs.times import formatting, rrules
from bot.jobs.times.rrules import RecurrenceRule
from bot.jobs.times.zones import UnclearTime
from bot.translations.formats import load_data
from bot.translations.translator import ENGLISH, Translator, translatable
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from bot.jobs.times.reader import ParsedSchedule

    WhenParser = Callable[[str, str, float, int], tuple[ParsedSchedule, str]]

MAX_TEXT_CHARS = 1000  # of a reminder or a task
MAX_LISTED_CHARS = 80  # of that in a list
SAMPLE_ZONES = ("UTC", "Asia/Tokyo", "America/New_York")  # a time that is the same in all needs no zone
ZONE_NEEDED = "no zone"  # the error of a /remind that waits for its person's time zone
ZONE_ASKED = "zone asked"  # the error of a /zone that was answered by asking for a city
FREQUENT_SECONDS = 3600  # a job that comes at least this often does not catch up on missed runs


class ZoneUnknown(UnclearTime):
    """The person's time zone is unknown, and these words need it."""

    def __init__(self) -> None:
        super().__init__(
            translatable("I don't know your time zone yet. Tell me a city, such as `/zone Berlin`.")
        )


@dataclass(frozen=True, slots=True)
class JobLimits:
    """How many jobs one person and all people may have, and the least seconds between two due times.

    `default_zone` is the zone of people who have not named one; None: they are asked.
    """

    max_per_person: int = 20
    max_total: int = 1000
    min_interval_seconds: int = 300
    default_zone: str | None = None


@dataclass(frozen=True, slots=True)
class JobOwner:
    """Whose job it is, and the lane where it runs."""

    person: int
    name: str
    lane: Lane

    @property
    def group_chat(self) -> int | None:
        """The chat of the group where it runs; None in a private chat."""
        return self.lane.chat if self.lane.is_group else None


@dataclass(frozen=True, slots=True)
class UserJobs:
    """Keeps jobs of people."""

    database: Database
    limits: JobLimits
    clock: Callable[[], float] = time.time

    async def find_zone(self, tx: Transaction, person: int) -> str | None:
        """Return somebody's time zone (an IANA name), or the default."""
        return await people.find_time_zone(tx, person) or self.limits.default_zone

    async def parse_line(
        self, person: int, line: str, written_at: float, language: str
    ) -> "tuple[ParsedSchedule, str]":
        """Parse a line such as `tomorrow at nine call Anna`, written then: return its schedule and its text.

        `language`: the person's. Raises UnclearTime, or ZoneUnknown.
        """
        parse = partial(_parse_line, language=language)
        return await self._parse(parse, person, line, written_at)

    async def parse_when(
        self, person: int, text: str, language: str, said_at: float | None
    ) -> "ParsedSchedule":
        """Parse words for a time of this person, said now or then. Raises UnclearTime, or ZoneUnknown."""
        parse = partial(_parse_when, language=language)
        schedule, _ = await self._parse(parse, person, text, said_at or self.clock())
        return schedule

    async def add_job(
        self,
        tx: Transaction,
        owner: JobOwner,
        kind: JobKind,
        schedule: "ParsedSchedule",
        text: str,
        translate: Translator,
    ) -> Part:
        """Store a job; return the confirmation for its owner, with buttons to undo and to change it.

        Raises UnclearTime if its text does not fit or the owner may have no more jobs.
        """
        text = _check_text(text)
        now = self.clock()
        await self.check_limits(tx, owner.person)
        await people.ensure_person(tx, owner.person, owner.name, now=now)
        new = NewJob(
            kind=kind, text=text, person=owner.person, lane=owner.lane, **_build_due_columns(schedule)
        )
        number = await jobs.add(tx, new, now=now)
        undo = Button(translate("Undo"), f"job:undo:{number}")
        change = Button(translate("Change"), f"job:change:{number}")
        confirmation = translate("🤖 I'll do this then: {text}", text=text)
        if kind == "reminder":
            confirmation = translate("⏰ I'll remind you: {text}", text=text)
        return Part(f"{confirmation}\n{format_schedule(translate, schedule)}", buttons=((undo, change),))

    async def change_job(
        self, tx: Transaction, job: Job, schedule: "ParsedSchedule | None", text: str
    ) -> None:
        """Store what the owner of a job has answered: its new schedule, or else its new text.

        Raises UnclearTime if the text does not fit.
        """
        if schedule is None:
            await jobs.change(tx, job.id, {"text": _check_text(text)})
            return
        resumed = {"state": "active", "why_paused": None, "failures": 0}
        await jobs.change(tx, job.id, resumed | _build_due_columns(schedule))

    async def notify_owner(self, tx: Transaction, owner: JobOwner, part: Part) -> None:
        """Send the person a message, whatever the model says; twice rather than never."""
        rows = await outbox.add(tx, item=None, lane=owner.lane, parts=(part,), now=self.clock())
        await outbox.allow_repeat(tx, rows)

    async def change_zone(self, tx: Transaction, owner: JobOwner, zone: str) -> list[Job]:
        """Store a person's zone, and return their jobs that it concerns, as they were before."""
        now = self.clock()
        await people.ensure_person(tx, owner.person, owner.name, now=now)
        await people.set_time_zone(tx, owner.person, zone)
        stored_jobs = await jobs.list_of_person(tx, owner.person, limit=jobs.MAX_JOBS)
        moved = await run_in_thread(_compute_moved_jobs, stored_jobs, zone, now)
        for job, next_due in moved:
            await jobs.set_next_due(tx, job.id, next_due, zone=zone)
        return [job for job, _ in moved]

    async def compute_next_due(self, job: Job) -> float | None:
        """Return when a job that was paused is due next; None: never, for its time has passed.

        Raises UnclearTime.
        """
        try:
            return await run_in_thread(_compute_next_due, job, self.clock())
        except (ValueError, KeyError):
            raise UnclearTime(
                translatable("I can no longer read its time. Delete it and set a new one.")
            ) from None

    async def check_limits(self, tx: Transaction, person: int) -> None:
        """Raise UnclearTime if this person may have no more jobs."""
        own_count, total_count = await jobs.count_open(tx, person)
        if not (self.limits.max_per_person and self.limits.max_total):
            raise UnclearTime(translatable("Reminders and tasks are turned off here."))
        if own_count >= self.limits.max_per_person:
            raise UnclearTime(
                translatable(
                    "You already have {count} reminders and tasks, the most you can have. "
                    "Delete one with /jobs first."
                ),
                count=own_count,
            )
        stored_person = await people.find(tx, person)
        max_total = self.limits.max_total
        if stored_person is None or stored_person.guest:
            max_total //= 2  # the other half is of those who were let in
        if total_count >= max_total:
            raise UnclearTime(
                translatable("This bot is full: it holds at most {count} reminders and tasks."),
                count=max_total,
            )

    async def _parse(
        self, parse: "WhenParser", person: int, text: str, written_at: float
    ) -> "tuple[ParsedSchedule, str]":
        async with self.database.read_transaction() as tx:
            zone = await self.find_zone(tx, person)
        return await run_in_thread(self._parse_in_zone, parse, to_sendable(text), zone, written_at)

    def _parse_in_zone(
        self, parse: "WhenParser", text: str, zone: str | None, written_at: float
    ) -> "tuple[ParsedSchedule, str]":
        if zone is not None:
            return self._parse_as_written(parse, text, zone, written_at)
        parsed = [self._parse_as_written(parse, text, sample, written_at) for sample in SAMPLE_ZONES]
        if len({schedule.next_times for schedule, _ in parsed}) > 1:
            raise ZoneUnknown
        return parsed[0]

    def _parse_as_written(
        self, parse: "WhenParser", phrase: str, zone: str, written_at: float
    ) -> "tuple[ParsedSchedule, str]":
        """What the words meant when they were written.

        What was to come once may be due by now, if its line had to wait; what comes again begins from now on.
        """
        now = self.clock()
        min_interval = self.limits.min_interval_seconds
        schedule, text = parse(phrase, zone, written_at, min_interval)
        if schedule.first_due > now or schedule.rule is None:
            return schedule, text
        return parse(phrase, zone, now, min_interval)


def _parse_line(
    line: str, zone: str, now: float, min_interval_seconds: int, *, language: str
) -> "tuple[ParsedSchedule, str]":
    # Compiling its patterns takes time, and most gateways start without a word for a time.
    from bot.jobs.times import parser

    load_data()
    return parser.parse_line(line, zone, now, min_interval_seconds, language)


def _parse_when(
    text: str, zone: str, now: float, min_interval_seconds: int, *, language: str
) -> "tuple[ParsedSchedule, str]":
    from bot.jobs.times import reader

    load_data()
    return reader.parse_when(text, zone, now, min_interval_seconds, language), ""


def compute_same_reading(job: Job, zone: str) -> float | None:
    """When a job that comes once is due if it keeps its time of day in another zone; None: as it is.

    What is due within a minute was said from now on, and has no time of day to keep.
    """
    if job.rule or not job.next_due or job.next_due % 60:
        return None
    try:
        local_time = rrules.to_local_time(job.next_due, rrules.load_zone(job.zone))
    except (ValueError, KeyError):
        return None
    due = rrules.to_timestamp(local_time, rrules.load_zone(zone))
    return due if due != job.next_due else None


def format_schedule(translate: Translator, schedule: "ParsedSchedule") -> str:
    """Describe a schedule, with local times and their zone."""
    next_times = formatting.format_times(translate, schedule.next_times, schedule.zone)
    if schedule.rule is None:
        return next_times
    recurrence = capitalize(formatting.format_recurrence(translate, schedule.rule))
    return translate("{recurrence}. Next: {times}", recurrence=recurrence, times=next_times)


def capitalize(sentence: str) -> str:
    """Begin a sentence with a capital letter."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def format_rule(translate: Translator, job: Job) -> str:
    """Format how often a job comes; "" for once, "?" if that cannot be read."""
    try:
        return formatting.format_recurrence(translate, RecurrenceRule.parse(job.rule)) if job.rule else ""
    except (ValueError, KeyError):
        return "?"


def shorten_text(text: str, max_chars: int) -> str:
    """Return a text on one line, cut to so many characters."""
    line = " ".join(text.split())
    if len(line) > max_chars:
        return f"{line[: max_chars - 1]}…"
    return line


def format_job(job: Job) -> str:
    """Format a job as a line of the list that the model reads."""
    text = shorten_text(job.text, MAX_LISTED_CHARS)
    fields = [f"#{job.id} {get_mark(job.kind)} {text}", format_rule(ENGLISH, job), _format_state(job)]
    return " · ".join(field for field in fields if field)


def get_mark(kind: JobKind) -> str:
    """Return the sign that stands before a reminder or a task."""
    if kind == "reminder":
        return "⏰"
    return "🤖"


def _format_state(job: Job) -> str:
    if job.state == "paused" and job.why_paused:
        return f"paused, for {job.why_paused}"
    if job.state == "paused":
        return "paused"
    if job.next_due is None:
        return "under way"
    return formatting.format_times(ENGLISH, [job.next_due], job.zone)


def _check_text(text: str) -> str:
    """The text of a job as it is stored. Raises UnclearTime if it does not fit."""
    text = to_sendable(text).strip()
    if not text or len(text) > MAX_TEXT_CHARS:
        raise UnclearTime(
            translatable("A reminder can have {count} characters; this one has {length}."),
            count=MAX_TEXT_CHARS,
            length=len(text),
        )
    return text


def _build_due_columns(schedule: "ParsedSchedule") -> dict[str, Any]:
    """When a job of this schedule is due, as columns of its row."""
    return {
        "next_due": schedule.first_due,
        "zone": schedule.zone,
        "rule": schedule.rule.text if schedule.rule else None,
        "missed": _choose_missed_policy(schedule.rule),
    }


def _choose_missed_policy(rule: RecurrenceRule | None) -> MissedRunPolicy:
    if rule is not None and rule.step_seconds is not None and rule.step_seconds <= FREQUENT_SECONDS:
        return "skip"
    return "once"


def _compute_next_due(job: Job, now: float) -> float | None:
    if job.rule is None:
        if job.next_due is not None and job.next_due > now:
            return job.next_due
        return None
    return rrules.find_next(RecurrenceRule.parse(job.rule), rrules.load_zone(job.zone), now)


def _compute_moved_jobs(stored_jobs: Sequence[Job], zone: str, now: float) -> list[tuple[Job, float | None]]:
    """The jobs that another zone concerns, with their next due times.

    A job that comes once keeps its moment, which is shown in the new zone's time.
    """
    moved = list[tuple[Job, float | None]]()
    for job in stored_jobs:
        if not job.rule:
            moved.append((job, job.next_due))
            continue
        with contextlib.suppress(ValueError, KeyError):  # one that cannot be read is paused for it
            rule = RecurrenceRule.parse(job.rule)
            if rule.step_seconds is None:
                moved.append((job, rrules.find_next(rule, rrules.load_zone(zone), now)))
    return moved
