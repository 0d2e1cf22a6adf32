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
from bot.db.queues.jobs import Job, Written
from bot.db.retry import patiently
from bot.jobs.times import next_run as plan
from bot.jobs.times import rrules as rules
from bot.jobs.times.rrules import Rule
from tools.threads import in_thread

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

BATCH = 50  # jobs of one transaction
FEW = 10  # jobs that are written down together while the house works, and then
SPREAD = (
    0.5  # seconds pass: 20 a second leave something of what Telegram takes, which is 30, to those who write
)
LOOK_AGAIN = 2.0  # seconds; the wall clock may be moved, and other commands may change jobs
SOON = 3600.0  # seconds; with nothing due for longer the library that wakes is not loaded
BACK = 60.0  # seconds by which a clock is put back before due times are reckoned anew

UNREADABLE = "its rule cannot be read"
UNREACHABLE = "no message reached you when it was due"

log = logging.getLogger(__name__)


class Schedule:
    """Writes due times down as long as it runs; `wake` is called when there is something new in the inbox."""

    def __init__(
        self, database: Database, wake: Callable[[], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._wake = wake
        self._clock = clock
        self._awake = asyncio.Event()
        self._seen: float | None = None  # what the clock showed at the last look
        self._set_for: float | None = None  # what the alarm is set for

    def look(self) -> None:
        """What is due may have changed."""
        self._awake.set()

    async def run(self) -> None:
        """Until cancelled."""
        alarm: AsyncIOScheduler | None = None
        try:
            while True:
                self._awake.clear()
                next_due = await patiently(partial(self.write, few=True))
                if next_due is not None and next_due <= self._clock():
                    await asyncio.sleep(SPREAD)
                    continue
                if alarm is None and next_due is not None and next_due < self._clock() + SOON:
                    loaded = await in_thread(_scheduler)
                    loaded.start()
                    alarm = loaded
                if alarm is not None and next_due is not None:
                    self._set(alarm, next_due)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN):
                        await self._awake.wait()
        finally:
            if alarm is not None:
                alarm.shutdown(wait=False)

    async def write(self, *, few: bool = False) -> float | None:
        """Write everything down that is due now, or a `few` of it; when the next job is due."""
        now = self._clock()
        if self._seen is None or now < self._seen - BACK:
            await self._reckon_anew(now)
        self._seen = now
        while True:
            async with self._database.reading() as tx:
                due = await jobs.due(tx, now=now, most=FEW if few else BATCH)
                if not due:
                    return await jobs.next_due(tx)
            written = await in_thread(planned, due, now)  # rules may take a while, and the loop must not
            async with self._database.transaction() as tx:
                await jobs.write(tx, written, now=now)
            if any(one.row for one in written):
                self._wake()
            _log(written, now)
            if few:
                async with self._database.reading() as tx:
                    return await jobs.next_due(tx)

    async def _reckon_anew(self, now: float) -> None:
        """The clock was put back: what was moved on by the clock before is due when its rule says."""
        async with self._database.reading() as tx:
            ahead = await jobs.ahead_of(tx, now=now)
        for at in range(0, len(ahead), BATCH):
            anew = await in_thread(_anew, ahead[at : at + BATCH])
            async with self._database.transaction() as tx:
                for job, next_due in anew:
                    await jobs.set_next(tx, job, next_due)

    async def _ring(self) -> None:
        """What the library runs; it would put a plain function into a thread."""
        self.look()

    def _set(self, alarm: "AsyncIOScheduler", next_due: float) -> None:
        if next_due == self._set_for:
            return
        self._set_for = next_due
        when = datetime.now(UTC) + timedelta(seconds=max(0.0, next_due - self._clock()))
        alarm.add_job(
            self._ring, "date", run_date=when, id="look", replace_existing=True, misfire_grace_time=None
        )


def planned(due: Sequence[Job], now: float) -> list[Written]:
    """What becomes of these jobs, which are due."""
    return [_planned(job, now) for job in due]


def _planned(job: Job, now: float) -> Written:
    assert job.next_due is not None
    try:
        rule = Rule.parse(job.rule) if job.rule else None
        made = plan.plan(job.next_due, rule, rules.zone(job.zone), job.missed, now)
    except (ValueError, KeyError):  # also what is raised for a zone that is not there any more
        log.exception("the rule of job %s cannot be read", job.id, extra={"action": "schedule.unreadable"})
        return Written(job.id, job.next_due, None, job.next_due, paused=UNREADABLE)
    if made.due is None or not job.reachable:
        lost = made.due is not None and made.next_due is None
        return Written(job.id, job.next_due, made.due, made.next_due, paused=UNREACHABLE if lost else None)
    late = now - made.due
    row = jobs.inbox_row(job, late=late if late > plan.LATE else 0.0, left_out=made.left_out)
    return Written(job.id, job.next_due, made.due, made.next_due, row)


def _anew(ahead: Sequence[tuple[Job, float]]) -> list[tuple[int, float | None]]:
    return [
        (job.id, rules.next_after(Rule.parse(job.rule or ""), rules.zone(job.zone), last))
        for job, last in ahead
    ]


def _log(written: Sequence[Written], now: float) -> None:
    for one in written:
        if one.row is None:
            log.info("job %s was missed at %s", one.job, one.was, extra={"action": "schedule.missed"})


def _scheduler() -> "AsyncIOScheduler":
    """Imported when it is needed, which is after the house has begun to work."""
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    return AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": True})
