"""Turns jobs that are due into inbox items, and does nothing else.

What is due is computed from the rows; APScheduler only wakes the scheduler. The clock is passed in.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.db.commit_watch import CommitWatch, compute_seconds_to_look
from bot.db.engine import Database
from bot.db.queues import jobs
from bot.db.queues.jobs import FiredJob, Job
from bot.db.retry import retry_until_available
from bot.jobs.times import rrules
from bot.jobs.times.next_run import LATE_SECONDS, plan_run
from bot.jobs.times.rrules import RecurrenceRule
from bot.translations.translator import translatable
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

BATCH_SIZE = 50  # jobs of one transaction
# While the gateway runs, 20 jobs a second become items: of the 30 messages a second that Telegram accepts,
# the rest is for people who write.
SMALL_BATCH_SIZE = 10
SMALL_BATCH_PAUSE_SECONDS = 0.5
POLL_SECONDS = 2.0  # the wall clock may be moved, and other commands may change jobs
ALARM_HORIZON_SECONDS = 60.0  # with nothing due for longer, APScheduler is not loaded
CLOCK_BACKSTEP_SECONDS = 60.0  # a clock put back by more makes due times be computed again

RULE_UNREADABLE = translatable("its time cannot be read any more")
PERSON_UNREACHABLE = translatable("no message reached you when it was due")

log = logging.getLogger(__name__)


class JobScheduler:
    """Enqueues due jobs as long as it runs.

    `database_file` is watched for what other commands write; None: it is read at every look.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.time,
        *,
        database_file: Path | None = None,
    ) -> None:
        self._database = database
        self._commits = CommitWatch(database_file)
        self._clock = clock
        self._wake_event = asyncio.Event()
        self._last_now: float | None = None  # the clock when it was read last
        self._alarm_due: float | None = None  # when the alarm is set for

    def wake(self) -> None:
        """Look again: what is due may have changed."""
        self._wake_event.set()

    async def run(self) -> None:
        """Enqueue what becomes due until cancelled."""
        alarm: AsyncIOScheduler | None = None
        try:
            while True:
                self._wake_event.clear()
                next_due = await retry_until_available(partial(self.enqueue_due, is_small_batch=True))
                next_look = next_due
                if next_due is not None:
                    if next_due <= self._clock():
                        await asyncio.sleep(SMALL_BATCH_PAUSE_SECONDS)
                        continue
                    if alarm is None and next_due < self._clock() + ALARM_HORIZON_SECONDS:
                        alarm = await _start_alarm()
                    if alarm is not None:
                        self._set_alarm(alarm, next_due)
                    else:
                        next_look = next_due - ALARM_HORIZON_SECONDS
                await self._wait_until_needed(next_look)
        finally:
            if alarm is not None:
                alarm.shutdown(wait=False)

    async def enqueue_due(self, *, is_small_batch: bool = False) -> float | None:
        """Enqueue every job that is due now, or one small batch; return when the next job is due."""
        now = self._clock()
        batch_size = SMALL_BATCH_SIZE if is_small_batch else BATCH_SIZE
        if self._was_put_back(now):
            await self._recompute_next_due(now)
        self._last_now = now
        while True:
            async with self._database.read_transaction() as tx:
                due_jobs = await jobs.list_due(tx, now=now, limit=batch_size)
                if not due_jobs:
                    return await jobs.find_next_due(tx)
            # In a thread: rules may take a while, and the event loop must not.
            fired_jobs = await run_in_thread(plan_jobs, due_jobs, now)
            async with self._database.transaction() as tx:
                await jobs.fire(tx, fired_jobs, now=now)
            _log_missed(fired_jobs)
            if is_small_batch:
                async with self._database.read_transaction() as tx:
                    return await jobs.find_next_due(tx)

    async def _wait_until_needed(self, moment: float | None) -> None:
        """Wait until `wake` is called, the moment comes, the clock was put back, or something was written."""
        while not await self._is_woken():
            now = self._clock()
            if self._was_put_back(now) or (moment is not None and moment <= now):
                return
            self._last_now = now
            with self._commits.look() as is_written:
                if is_written:
                    return

    async def _is_woken(self) -> bool:
        """Wait until `wake` is called, at most POLL_SECONDS; whether it was."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(compute_seconds_to_look(POLL_SECONDS)):
                await self._wake_event.wait()
        return self._wake_event.is_set()

    def _was_put_back(self, now: float) -> bool:
        """Whether due times have to be computed again; also before the first look."""
        return self._last_now is None or now < self._last_now - CLOCK_BACKSTEP_SECONDS

    def _set_alarm(self, alarm: "AsyncIOScheduler", next_due: float) -> None:
        if next_due == self._alarm_due:
            return
        self._alarm_due = next_due
        run_date = datetime.now(UTC) + timedelta(seconds=max(0.0, next_due - self._clock()))
        alarm.add_job(
            self._on_alarm,
            "date",
            run_date=run_date,
            id="wake",
            replace_existing=True,
            misfire_grace_time=None,
        )

    async def _on_alarm(self) -> None:
        """The job APScheduler runs; a coroutine, for it would put a plain function into a thread."""
        self.wake()

    async def _recompute_next_due(self, now: float) -> None:
        """After the clock was put back, have each job that it had moved on be due when its rule says."""
        async with self._database.read_transaction() as tx:
            jobs_ahead = await jobs.list_ahead_of_clock(tx, now=now)
        for start in range(0, len(jobs_ahead), BATCH_SIZE):
            due_times = await run_in_thread(_compute_next_due, jobs_ahead[start : start + BATCH_SIZE])
            async with self._database.transaction() as tx:
                for job, next_due in due_times:
                    await jobs.set_next_due(tx, job, next_due)


def plan_jobs(due_jobs: Sequence[Job], now: float) -> list[FiredJob]:
    """Decide what happens to each of these jobs, which are due."""
    return [_plan_job(job, now) for job in due_jobs]


def _plan_job(job: Job, now: float) -> FiredJob:
    assert job.next_due is not None
    try:
        rule = RecurrenceRule.parse(job.rule) if job.rule else None
        run = plan_run(job.next_due, rule, rrules.load_zone(job.zone), job.missed, now)
    except (ValueError, KeyError):  # also raised for a zone that does not exist any more
        log.exception("the rule of job %s cannot be read", job.id, extra={"action": "schedule.unreadable"})
        return FiredJob(job.id, job.next_due, None, job.next_due, pause_reason=RULE_UNREADABLE)
    if run.due is None or not job.reachable:
        is_lost = run.due is not None and run.next_due is None
        pause_reason = PERSON_UNREACHABLE if is_lost else None
        return FiredJob(job.id, job.next_due, run.due, run.next_due, pause_reason=pause_reason)
    late = now - run.due
    if late <= LATE_SECONDS:
        late = 0.0
    row = jobs.build_inbox_row(job, late=late, left_out=run.left_out)
    return FiredJob(job.id, job.next_due, run.due, run.next_due, row)


def _compute_next_due(jobs_ahead: Sequence[tuple[Job, float]]) -> list[tuple[int, float | None]]:
    return [
        (job.id, rrules.find_next(RecurrenceRule.parse(job.rule or ""), rrules.load_zone(job.zone), last))
        for job, last in jobs_ahead
    ]


def _log_missed(fired_jobs: Sequence[FiredJob]) -> None:
    for job in fired_jobs:
        if job.row is None:
            log.info(
                "job %s was missed at %s",
                job.job,
                datetime.fromtimestamp(job.previous_due, UTC).isoformat(timespec="seconds"),
                extra={"action": "schedule.missed"},
            )


async def _start_alarm() -> "AsyncIOScheduler":
    """Start the alarm clock; returned only once it runs, for one that does not cannot be shut down."""
    alarm = await run_in_thread(_build_alarm)
    alarm.start()
    return alarm


def _build_alarm() -> "AsyncIOScheduler":
    """Build the alarm clock.

    APScheduler is imported only when it is needed, which is after the gateway has started.
    """
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    return AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": True})
