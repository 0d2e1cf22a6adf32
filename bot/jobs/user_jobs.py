"""What people want done later: understood, bounded, kept and said back. Behind the tool `schedule` and the
commands.

Words are understood in a thread and outside of any transaction, for a date may take a second the first time.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.agent.sanitize import sendable
from bot.db.engine import Database, Transaction
from bot.db.people import time_zones as zones
from bot.db.queues import jobs, outbox
from bot.db.queues.jobs import Job, JobKind, Missed, NewJob
from bot.domain import Button, Lane, Part
from bot.jobs.times import formatting as saying
from bot.jobs.times import rrules as rules
from bot.jobs.times.errors import Unclear
from bot.jobs.times.rrules import Rule
from tools.threads import in_thread

if TYPE_CHECKING:
    from bot.jobs.times.parser import When

    Read = Callable[[str, str, float, int], tuple[When, str]]

LONGEST = 1000  # characters of what is to be said or done
SHOWN = 80  # characters of that in a list
ELSEWHERE = ("UTC", "Asia/Tokyo", "America/New_York")  # what is the same in all of these needs no zone
ZONE_NEEDED = "no zone"  # the error of a /remind that waits for its person's time zone
OFTEN = 3600  # seconds; what comes as often as that is not made up for


class ZoneUnknown(Unclear):
    """Nobody knows in which time zone the person is, and these words need it."""

    def __init__(self) -> None:
        super().__init__(
            "I do not know in which time zone you are. Send /zone and a city, such as: /zone Berlin."
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many jobs one person may have, how many all, and the seconds between two due times at least.

    `zone` is where people are who have not said; None: they are asked.
    """

    each: int = 20
    total: int = 1000
    shortest: int = 300
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose job it is, and where it is done."""

    person: int
    name: str
    lane: Lane


@dataclass(frozen=True, slots=True)
class Diary:
    """Keeps jobs of people; `look` is called when one may be due earlier than was known."""

    database: Database
    bounds: Bounds
    look: Callable[[], None]
    clock: Callable[[], float] = time.time

    async def zone(self, tx: Transaction, person: int) -> str | None:
        """Where somebody is, as far as it is known."""
        return await zones.find(tx, person) or self.bounds.zone

    async def split(self, person: int, line: str, said_at: float) -> "tuple[When, str]":
        """What a line such as `tomorrow at nine call Anna`, written then, means to somebody.

        Raises Unclear, or ZoneUnknown.
        """
        return await in_thread(self._understood, _split, sendable(line), await self._zone(person), said_at)

    async def understand(self, person: int, words: str) -> "When":
        """What words for a time mean to somebody. Raises Unclear, or ZoneUnknown."""
        zone = await self._zone(person)
        now = self.clock()
        return (await in_thread(self._understood, _whole, sendable(words), zone, now))[0]

    async def keep(self, tx: Transaction, owner: Owner, kind: JobKind, when: "When", text: str) -> Part:
        """Keep a job; what the person is told of it, with an Undo button. Raises Unclear where it does not
        fit.
        """
        text = sendable(text).strip()
        now = self.clock()
        if not text or len(text) > LONGEST:
            raise Unclear(f"What I shall say or do then has 1 to {LONGEST} characters, this has {len(text)}.")
        await self._fits(tx, owner.person)
        await zones.known(tx, owner.person, owner.name, now=now)
        new = NewJob(
            kind=kind,
            next_due=when.first,
            zone=when.zone,
            rule=when.rule.text if when.rule else None,
            missed=_missed(when.rule),
            text=text,
            person=owner.person,
            lane=owner.lane,
        )
        number = await jobs.add(tx, new, now=now)
        undo = Button("Undo", f"job:undo:{number}")
        return Part(f"{_kept(kind, text)}\n{told(when)}", buttons=((undo,),))

    async def tell(self, tx: Transaction, owner: Owner, part: Part) -> None:
        """Have the person told, whatever the model says."""
        await outbox.add(tx, item=None, lane=owner.lane, parts=(part,), now=self.clock())

    async def move(self, tx: Transaction, owner: Owner, zone: str) -> int:
        """Somebody is in this zone: what goes by the calendar goes by it from now on; how many jobs that are."""
        now = self.clock()
        await zones.known(tx, owner.person, owner.name, now=now)
        await zones.put(tx, owner.person, zone)
        found = await jobs.of_person(tx, owner.person, most=jobs.MOST)
        moved = await in_thread(_moved, found, zone, now)
        for job, next_due in moved:
            await jobs.set_next(tx, job.id, next_due, zone=zone)
        return len([job for job, _ in moved if job.rule])

    async def next_due(self, job: Job) -> float | None:
        """When a job that was paused is due next; None: never, for its time has passed. Raises Unclear."""
        try:
            return await in_thread(_again, job, self.clock())
        except (ValueError, KeyError):
            raise Unclear("I cannot read when that was to be. Delete it, and ask for it anew.") from None

    async def _zone(self, person: int) -> str | None:
        async with self.database.reading() as tx:
            return await self.zone(tx, person)

    async def _fits(self, tx: Transaction, person: int) -> None:
        mine, all_of_them = await jobs.counts(tx, person)
        if not (self.bounds.each and self.bounds.total):
            raise Unclear("This bot keeps no reminders and tasks.")
        if mine >= self.bounds.each:
            raise Unclear(f"You have {mine} job{'s' * (mine > 1)}, and no more fit. Delete one with /jobs.")
        if all_of_them >= self.bounds.total:
            raise Unclear(f"This bot keeps {self.bounds.total} jobs for all its people, and they are taken.")

    def _understood(self, read: "Read", words: str, zone: str | None, said_at: float) -> "tuple[When, str]":
        if zone is not None:
            return self._to_come(read, words, zone, said_at)
        found = [self._to_come(read, words, place, said_at) for place in ELSEWHERE]
        if len({when.next_few for when, _ in found}) > 1:
            raise ZoneUnknown
        return found[0]

    def _to_come(self, read: "Read", words: str, zone: str, said_at: float) -> "tuple[When, str]":
        """What the words meant when they were said, if that is still to come."""
        now = self.clock()
        shortest = self.bounds.shortest
        when, text = read(words, zone, said_at, shortest)
        if when.first > now:
            return when, text
        if when.rule is None:
            from bot.jobs.times import instants as moments

            raise moments.past(now - when.first)
        return read(words, zone, now, shortest)


def _split(line: str, zone: str, now: float, shortest: int) -> "tuple[When, str]":
    from bot.jobs.times import (
        parser as understanding,  # its patterns take time, and most houses start without a word for a time
    )

    return understanding.split(line, zone, now, shortest)


def _whole(words: str, zone: str, now: float, shortest: int) -> "tuple[When, str]":
    from bot.jobs.times import parser as understanding

    return understanding.understand(words, zone, now, shortest), ""


def told(when: "When") -> str:
    """What was understood, with local times and their zone."""
    if when.rule is None:
        return saying.times(when.next_few, when.zone)
    return f"{when.words[0].upper()}{when.words[1:]}. Next: {saying.times(when.next_few, when.zone)}"


def line(job: Job) -> str:
    """A job in a list."""
    how = _how(job)
    mark = "⏰" if job.kind == "reminder" else "🤖"
    if job.state == "paused":
        state = f"paused{f', for {job.why_paused}' if job.why_paused else ''}"
    else:
        state = _next_time(job)
    text = " ".join(job.text.split())
    shown = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return f"#{job.id} {mark} {shown} · {f'{how} · ' if how else ''}{state}"


def _how(job: Job) -> str:
    try:
        return saying.rule(Rule.parse(job.rule)) if job.rule else ""
    except (ValueError, KeyError):
        return "?"


def _next_time(job: Job) -> str:
    if job.next_due is None:
        return "under way"
    return f"{saying.moment(job.next_due, job.zone)} ({job.zone})"


def _kept(kind: JobKind, text: str) -> str:
    if kind == "reminder":
        return f"⏰ I remind you: {text}"
    return f"🤖 I do this then: {text}"


def _missed(rule: Rule | None) -> Missed:
    if rule is not None and rule.step is not None and rule.step <= OFTEN:
        return "skip"
    return "once"


def _again(job: Job, now: float) -> float | None:
    if job.rule is None:
        if job.next_due is not None and job.next_due > now:
            return job.next_due
        return None
    return rules.next_after(Rule.parse(job.rule), rules.zone(job.zone), now)


def _moved(found: Sequence[Job], zone: str, now: float) -> list[tuple[Job, float | None]]:
    """The jobs that another zone concerns; what happens once stays at its moment, and is told in the zone's
    time.
    """
    moved = list[tuple[Job, float | None]]()
    for job in found:
        if not job.rule:
            moved.append((job, job.next_due))
            continue
        with contextlib.suppress(ValueError, KeyError):  # one that cannot be read is paused for it
            rule = Rule.parse(job.rule)
            if rule.step is None:
                moved.append((job, rules.next_after(rule, rules.zone(zone), now)))
    return moved
