"""What is due becomes an inbox item, nothing else. APScheduler only wakes it: what is due is reckoned from
the rows.

The clock is passed in; whoever stores a job, or changes when one is due, calls `look`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from bot.db.engine import Database
from bot.db.queues import jobs
from bot.db.queues.jobs import FiredJob, Job
from bot.db.retry import retry_until_available
from bot.jobs.times import next_run as plan
from bot.jobs.times import rrules as rules
from bot.jobs.times.rrules import RecurrenceRule
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

BATCH_SIZE = 50  # jobs of one transaction
SMALL_BATCH_SIZE = 10  # jobs that are written down together while the house works, and then
SMALL_BATCH_PAUSE_SECONDS = (
    0.5  # seconds pass: 20 a second leave something of what Telegram takes, which is 30, to those who write
)
POLL_SECONDS = 2.0  # seconds; the wall clock may be moved, and other commands may change jobs
ALARM_HORIZON_SECONDS = 3600.0  # seconds; with nothing due for longer the library that wakes is not loaded
CLOCK_BACKSTEP_SECONDS = 60.0  # seconds by which a clock is put back before due times are reckoned anew

RULE_UNREADABLE = "its rule cannot be read"
PERSON_UNREACHABLE = "no message reached you when it was due"

log = logging.getLogger(__name__)


class JobScheduler:
    """Writes due times down as long as it runs; `wake` is called when there is something new in the inbox."""

    def __init__(
        self, database: Database, wake_worker: Callable[[], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._wake_worker = wake_worker
        self._clock = clock
        self._wake_event = asyncio.Event()
        self._last_now: float | None = None  # what the clock showed at the last look
        self._alarm_due: float | None = None  # what the alarm is set for

    def wake(self) -> None:
        """What is due may have changed."""
        self._wake_event.set()

    async def run(self) -> None:
        """Until cancelled."""
        alarm: AsyncIOScheduler | None = None
        try:
            while True:
                self._wake_event.clear()
                next_due = await retry_until_available(partial(self.enqueue_due, is_small_batch=True))
                if next_due is not None and next_due <= self._clock():
                    await asyncio.sleep(SMALL_BATCH_PAUSE_SECONDS)
                    continue
                if (
                    alarm is None
                    and next_due is not None
                    and next_due < self._clock() + ALARM_HORIZON_SECONDS
                ):
                    loaded = await run_in_thread(_build_alarm)
                    loaded.start()
                    alarm = loaded
                if alarm is not None and next_due is not None:
                    self._set_alarm(alarm, next_due)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._wake_event.wait()
        finally:
            if alarm is not None:
                alarm.shutdown(wait=False)

    async def enqueue_due(self, *, is_small_batch: bool = False) -> float | None:
        """Write everything down that is due now, or a `few` of it; when the next job is due."""
        now = self._clock()
        if self._last_now is None or now < self._last_now - CLOCK_BACKSTEP_SECONDS:
            await self._recompute_next_due(now)
        self._last_now = now
        while True:
            async with self._database.read_transaction() as tx:
                due = await jobs.list_due(
                    tx, now=now, limit=SMALL_BATCH_SIZE if is_small_batch else BATCH_SIZE
                )
                if not due:
                    return await jobs.find_next_due(tx)
            written = await run_in_thread(
                plan_jobs, due, now
            )  # rules may take a while, and the loop must not
            async with self._database.transaction() as tx:
                await jobs.fire(tx, written, now=now)
            if any(one.row for one in written):
                self._wake_worker()
            _log_missed(written, now)
            if is_small_batch:
                async with self._database.read_transaction() as tx:
                    return await jobs.find_next_due(tx)

    async def _recompute_next_due(self, now: float) -> None:
        """The clock was put back: what was moved on by the clock before is due when its rule says."""
        async with self._database.read_transaction() as tx:
            ahead = await jobs.list_ahead_of_clock(tx, now=now)
        for at in range(0, len(ahead), BATCH_SIZE):
            anew = await run_in_thread(_compute_next_due, ahead[at : at + BATCH_SIZE])
            async with self._database.transaction() as tx:
                for job, next_due in anew:
                    await jobs.set_next_due(tx, job, next_due)

    async def _on_alarm(self) -> None:
        """What the library runs; it would put a plain function into a thread."""
        self.wake()

    def _set_alarm(self, alarm: "AsyncIOScheduler", next_due: float) -> None:
        if next_due == self._alarm_due:
            return
        self._alarm_due = next_due
        when = datetime.now(UTC) + timedelta(seconds=max(0.0, next_due - self._clock()))
        alarm.add_job(
            self._on_alarm, "date", run_date=when, id="look", replace_existing=True, misfire_grace_time=None
        )


def plan_jobs(due_jobs: Sequence[Job], now: float) -> list[FiredJob]:
    """What becomes of these jobs, which are due."""
    return [_plan_job(job, now) for job in due_jobs]


def _plan_job(job: Job, now: float) -> FiredJob:
    assert job.next_due is not None
    try:
        rule = RecurrenceRule.parse(job.rule) if job.rule else None
        made = plan.plan_run(job.next_due, rule, rules.load_zone(job.zone), job.missed, now)
    except (ValueError, KeyError):  # also what is raised for a zone that is not there any more
        log.exception("the rule of job %s cannot be read", job.id, extra={"action": "schedule.unreadable"})
        return FiredJob(job.id, job.next_due, None, job.next_due, pause_reason=RULE_UNREADABLE)
    if made.due is None or not job.reachable:
        lost = made.due is not None and made.next_due is None
        return FiredJob(
            job.id, job.next_due, made.due, made.next_due, pause_reason=PERSON_UNREACHABLE if lost else None
        )
    late = now - made.due
    row = jobs.build_inbox_row(job, late=late if late > plan.LATE_SECONDS else 0.0, left_out=made.left_out)
    return FiredJob(job.id, job.next_due, made.due, made.next_due, row)


def _compute_next_due(jobs_ahead: Sequence[tuple[Job, float]]) -> list[tuple[int, float | None]]:
    return [
        (job.id, rules.find_next(RecurrenceRule.parse(job.rule or ""), rules.load_zone(job.zone), last))
        for job, last in jobs_ahead
    ]


def _log_missed(fired_jobs: Sequence[FiredJob], now: float) -> None:
    for one in fired_jobs:
        if one.row is None:
            log.info(
                "job %s was missed at %s", one.job, one.previous_due, extra={"action": "schedule.missed"}
            )


def _build_alarm() -> "AsyncIOScheduler":
    """Imported when it is needed, which is after the house has begun to work."""
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    return AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": True})
