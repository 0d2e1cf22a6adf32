"""The house's own jobs: keeps a row for each, does what an inbox item of kind `house` asks for, says how it
went.

Owns the names and times of those that come again and again; what each does is handed in. A job is an inbox
item, so that it outlives the process; one that fails is told to the admins once.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.db.engine import Database
from bot.db.queues import inbox, jobs
from bot.db.queues import system_jobs as routine
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.jobs import NewJob
from bot.db.retry import retry_until_available
from bot.domain import InboxItem, Lane, Part, Runner
from bot.errors import CanvasgramError, StoreUnavailable
from bot.jobs.times import rrules as rules
from bot.jobs.times.rrules import RecurrenceRule
from tools.threads import run_in_thread

POLL_SECONDS = 1.0  # seconds after which it is heard what other commands have written down

SystemJobFunction = Callable[[], Awaitable[Part | None]]
"""Does a job; what admins are to read of it, if anything. Raises an error of the house if it fails, with the
reason.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SystemJob:
    """A job that comes again and again, by a rule of recurrence in the house's zone; None: by a clock of its
    own.
    """

    name: str
    description: str
    rule: str | None
    run: SystemJobFunction


def build_daily_rule(local_time: str) -> str:
    """The rule of a job of every day at this time, such as `03:30`."""
    return f"DTSTART:20260105T{local_time.replace(':', '')}00\nRRULE:FREQ=DAILY"


def build_weekly_rule(local_time: str) -> str:
    """The rule of a job of every Monday."""
    return f"DTSTART:20260105T{local_time.replace(':', '')}00\nRRULE:FREQ=WEEKLY"


class SystemJobRunner:
    """The runner of the house's items: of routines, and of `others` by the name in an item's body, such as
    `forget`.

    `wake_sender` is called for each lane that has something to read.
    """

    def __init__(
        self,
        database: Database,
        system_jobs: Sequence[SystemJob],
        other_runners: Mapping[str, Runner],
        notices: AdminNotices,
        wake_sender: Callable[[Lane], None],
    ) -> None:
        self._database = database
        self._system_jobs = {one.name: one for one in system_jobs}
        self._other_runners = other_runners
        self._notices = notices
        self._wake_sender = wake_sender

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        name = item.body["job"]
        if name in self._other_runners:
            await self._other_runners[name](items)
            return
        letter, why = await self._run_job(name)
        lanes = await retry_until_available(lambda: self._store_outcome(item, name, letter, why))
        for lane in lanes:
            self._wake_sender(lane)

    async def _run_job(self, name: str) -> tuple[Part | None, str | None]:
        """What admins are to read, and why it failed."""
        if name not in self._system_jobs:
            log.info("the job %s is not wanted any more", name, extra={"action": "house.unwanted"})
            return None, None
        try:
            return await self._system_jobs[name].run(), None
        except StoreUnavailable:
            raise
        except CanvasgramError as error:
            log.warning("the job %s failed: %s", name, error, extra={"action": "house.failed"})
            return None, str(error)
        except (
            Exception
        ):  # the border: a job that fails must not be taken for a message that cannot be handled
            log.exception("the job %s failed", name, extra={"action": "house.broken"})
            return None, "The log says why."

    async def _store_outcome(
        self, item: InboxItem, name: str, message: Part | None, failure_reason: str | None
    ) -> tuple[Lane, ...]:
        now = time.time()
        async with self._database.transaction() as tx:
            before = await routine.record_end(tx, name, failed=failure_reason is not None, now=now)
            subject = f"job {name}"
            told = self._notices
            if failure_reason is not None:
                await inbox.mark_dead(tx, [item.id], error=failure_reason, now=now)
                return await told.notify(
                    tx, subject, f"The house job {name} failed: {failure_reason}", now=now
                )
            await inbox.mark_done(tx, [item.id], now=now)
            if message is not None:
                lanes = await told.send(tx, message, now=now)
            else:
                lanes = ()
            if before:
                lanes += await told.notify(tx, subject, f"The house job {name} works again.", now=now)
            return lanes


class SystemJobSync:
    """Keeps the rows of routines as the settings want them, and hears of jobs that other commands have
    ordered.

    `look` tells the schedule that due times may have changed, `wake` the worker that something waits.
    """

    def __init__(
        self,
        database: Database,
        system_jobs: Sequence[SystemJob],
        settings: "SystemJobSettings",
        *,
        wake_scheduler: Callable[[], None],
        wake_worker: Callable[[], None],
    ) -> None:
        self._database = database
        self._system_jobs = system_jobs
        self._settings = settings
        self._wake_scheduler = wake_scheduler
        self._wake_worker = wake_worker
        self._last_wal_state: tuple[int, int] | None = None

    async def run(self) -> None:
        """Until cancelled. The first moment belongs to those who have waited for the house."""
        await asyncio.sleep(POLL_SECONDS)
        await retry_until_available(self.sync_rows)
        self._wake_scheduler()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(StoreUnavailable):
                await self.poll_ordered_jobs()

    async def sync_rows(self) -> None:
        """Make the rows that are missing, and delete those of jobs that are not wanted any more."""
        zone = self._settings.zone
        now = self._settings.clock()
        async with self._database.read_transaction() as tx:
            known = {one.name: (one.rule, one.zone) for one in await jobs.list_system_jobs(tx)}
        missing = [one for one in self._system_jobs if known.get(one.name) != (one.rule, zone)]
        # Reckoned where it holds nobody up, and only when something has changed: the library for it is loaded
        # then.
        due = await run_in_thread(_compute_first_due, missing, zone, now) if missing else []
        if not missing and len(known) == len(self._system_jobs):
            return
        async with self._database.transaction() as tx:
            await jobs.remove_system_jobs_except(tx, [one.name for one in self._system_jobs])
            for one, next_due in zip(missing, due, strict=True):
                new = NewJob("house", next_due, zone, one.rule, text=one.description, name=one.name)
                await jobs.put_system_job(tx, new, now=now)

    async def poll_ordered_jobs(self) -> None:
        """Wake the worker if a job waits. While nothing is written to the database, nothing is asked of it."""
        written = _read_wal_state(self._settings.database_file)
        if written == self._last_wal_state:
            return
        self._last_wal_state = written
        async with self._database.read_transaction() as tx:
            waits = await routine.has_ordered(tx)
        if waits:
            self._wake_worker()


@dataclass(frozen=True, slots=True)
class SystemJobSettings:
    """Where the house stands: its database, its time zone by IANA name, its clock."""

    database_file: Path
    zone: str = "UTC"
    clock: Callable[[], float] = time.time


def _compute_first_due(system_jobs: Sequence[SystemJob], zone: str, now: float) -> list[float | None]:
    return [
        rules.find_next(RecurrenceRule.parse(one.rule), rules.load_zone(zone), now) if one.rule else None
        for one in system_jobs
    ]


def _read_wal_state(database_file: Path) -> tuple[int, int] | None:
    """What changes when anybody commits: time and size of the write-ahead log."""
    with contextlib.suppress(OSError):
        found = os.stat(f"{database_file}-wal")  # noqa: PTH116  # once a second
        return found.st_mtime_ns, found.st_size
    return None
