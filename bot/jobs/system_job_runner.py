"""Runs the gateway's own jobs, keeps a row for each, and records how they went.

What each does, and its hour, are passed in (bot/maintenance). A job is an inbox item of kind
`system`, so that it outlives the process; admins are notified once of one that fails.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.db.commit_watch import CommitWatch, compute_seconds_to_look
from bot.db.engine import Database
from bot.db.queues import inbox, jobs
from bot.db.queues import system_jobs as system_job_rows
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.jobs import NewJob
from bot.db.retry import retry_until_available
from bot.domain import InboxItem, Part, Runner
from bot.errors import CanvasgramError, JobFailed, StoreUnavailable
from bot.jobs.times import rrules
from bot.jobs.times.rrules import RecurrenceRule
from bot.translations.translator import Translator, defer
from tools.threads import run_in_thread

POLL_SECONDS = 2.0  # between looks for jobs that other commands have ordered

AdminMessage = Callable[[Translator], Part]
"""Builds a message for an admin, in their language."""

SystemJobFunction = Callable[[], Awaitable[AdminMessage | None]]
"""Does a job and returns a message for admins, if any. Raises a CanvasgramError with the reason."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SystemJob:
    """A recurring job, by a rule of recurrence in the gateway's zone; `rule` None: by a clock of its own."""

    name: str
    description: str
    rule: str | None
    run: SystemJobFunction


def build_hourly_rule() -> str:
    """Return the rule of a job of every hour."""
    return "DTSTART:20260105T000500\nRRULE:FREQ=HOURLY"


def build_daily_rule(local_time: str) -> str:
    """Return the rule of a job of every day at this time, such as `12:00`."""
    return f"DTSTART:20260105T{local_time.replace(':', '')}00\nRRULE:FREQ=DAILY"


def build_weekly_rule(local_time: str) -> str:
    """Return the rule of a job of every Monday at this time."""
    return f"DTSTART:20260105T{local_time.replace(':', '')}00\nRRULE:FREQ=WEEKLY"


class SystemJobRunner:
    """The runner of the gateway's own items: of system jobs, and of others by the name in an item's body.

    `other_runners` are by that name, such as `forget`.
    """

    def __init__(
        self,
        database: Database,
        system_jobs: Sequence[SystemJob],
        other_runners: Mapping[str, Runner],
        notices: AdminNotices,
    ) -> None:
        self._database = database
        self._system_jobs = {job.name: job for job in system_jobs}
        self._other_runners = other_runners
        self._notices = notices

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        name = item.body["job"]
        if name in self._other_runners:
            await self._other_runners[name](items)
            return
        message, failure = await self._run_job(name)
        await retry_until_available(lambda: self._store_outcome(item, name, message, failure))

    async def _run_job(self, name: str) -> tuple[AdminMessage | None, CanvasgramError | None]:
        """Run the job; returns the message for admins, and the error if it failed."""
        if name not in self._system_jobs:
            log.info("the job %s is not wanted any more", name, extra={"action": "system_job.unwanted"})
            return None, None
        try:
            return await self._system_jobs[name].run(), None
        except StoreUnavailable:
            raise
        except CanvasgramError as error:
            log.warning("the job %s failed: %s", name, error, extra={"action": "system_job.failed"})
            return None, error
        except Exception:  # the border: a failing job must not look like a message that cannot be handled
            log.exception("the job %s failed", name, extra={"action": "system_job.crashed"})
            return None, JobFailed("The log says why.")

    async def _store_outcome(
        self, item: InboxItem, name: str, message: AdminMessage | None, failure: CanvasgramError | None
    ) -> None:
        now = time.time()
        async with self._database.transaction() as tx:
            failures_before = await system_job_rows.record_end(tx, name, failed=failure is not None, now=now)
            subject = f"job {name}"
            if failure is not None:
                await inbox.mark_dead(tx, [item.id], error=str(failure), now=now)
                text = defer("The system job {name} failed: {reason}", name=name, reason=failure.explain)
                await self._notices.notify(tx, subject, text, now=now)
                return
            await inbox.mark_done(tx, [item.id], now=now)
            if message is not None:
                await self._notices.send(tx, message, now=now)
            if failures_before:
                text = defer("The system job {name} works again.", name=name)
                await self._notices.notify(tx, subject, text, now=now)


class SystemJobSync:
    """Keeps the rows of system jobs as the settings want them, and notices jobs that were ordered.

    Other commands order jobs; `on_ordered` is called when the item of such a job waits.
    """

    def __init__(
        self,
        database: Database,
        system_jobs: Sequence[SystemJob],
        settings: "SystemJobSettings",
        *,
        on_ordered: Callable[[], None],
    ) -> None:
        self._database = database
        self._system_jobs = system_jobs
        self._settings = settings
        self._on_ordered = on_ordered
        self._commits = CommitWatch(settings.database_file)

    async def run(self) -> None:
        """Sync the rows, then poll until cancelled.

        The first seconds are left to messages that waited for the gateway.
        """
        await asyncio.sleep(POLL_SECONDS)
        await retry_until_available(self.sync_rows)
        while True:
            await asyncio.sleep(compute_seconds_to_look(POLL_SECONDS))
            with contextlib.suppress(StoreUnavailable):
                await self.poll_ordered_jobs()

    async def sync_rows(self) -> None:
        """Add the rows that are missing, and delete those of jobs that are not wanted any more."""
        zone = self._settings.zone
        now = self._settings.clock()
        async with self._database.read_transaction() as tx:
            stored = {row.name: (row.rule, row.zone) for row in await jobs.list_system_jobs(tx)}
        missing = [job for job in self._system_jobs if stored.get(job.name) != (job.rule, zone)]
        if not missing and len(stored) == len(self._system_jobs):
            return
        first_due: list[float | None] = []
        if missing:  # in a thread, and only when something has changed, for it loads a library
            first_due = await run_in_thread(_compute_first_due, missing, zone, now)
        async with self._database.transaction() as tx:
            await jobs.remove_system_jobs_except(tx, [job.name for job in self._system_jobs])
            for job, next_due in zip(missing, first_due, strict=True):
                new = NewJob("system", next_due, zone, job.rule, text=job.description, name=job.name)
                await jobs.put_system_job(tx, new, now=now)

    async def poll_ordered_jobs(self) -> None:
        """Tell of a job that waits. While nothing is written to the database, it is not queried."""
        with self._commits.look() as is_written:
            if is_written and await self._has_ordered():
                self._on_ordered()

    async def _has_ordered(self) -> bool:
        async with self._database.read_transaction() as tx:
            return await system_job_rows.has_ordered(tx)


@dataclass(frozen=True, slots=True)
class SystemJobSettings:
    """The gateway's database file (None: a server), its time zone by IANA name, and its clock."""

    database_file: Path | None
    zone: str = "UTC"
    clock: Callable[[], float] = time.time


def _compute_first_due(system_jobs: Sequence[SystemJob], zone: str, now: float) -> list[float | None]:
    return [
        rrules.find_next(RecurrenceRule.parse(job.rule), rrules.load_zone(zone), now) if job.rule else None
        for job in system_jobs
    ]
