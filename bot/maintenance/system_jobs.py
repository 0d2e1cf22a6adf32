"""The system jobs that warm the idle cache, look at the disk, read the endpoint's counters, and sum usage.

One that runs at an hour has it as `local_time`, in the gateway's zone. Errors are left to what runs it.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bot.db.conversations import calls
from bot.db.engine import Database
from bot.domain import Button, Part
from bot.errors import JobFailed
from bot.translations.translator import Translator
from bot.usage.reconcile import Reconciliation

if TYPE_CHECKING:
    from bot.usage.summary import SummaryFrequency

MIN_FREE_BYTES = 1024**3
IDLE_SECONDS = 4 * 3600.0  # without a call for so long, the endpoint's cache may be gone
Clock = Callable[[], float]


def count_free_bytes(folder: Path) -> int:
    """The bytes that are free on the disk of this folder."""
    return shutil.disk_usage(folder).free


@dataclass(frozen=True, slots=True)
class CacheWarmupTask:
    """Has `warm_up` put the head of the prompts into the endpoint's cache, unless it was called recently."""

    local_time: ClassVar[str] = "06:30"

    database: Database
    endpoint: str
    warm_up: Callable[[], None]
    clock: Clock = time.time

    async def __call__(self) -> None:
        async with self.database.read_transaction() as tx:
            last_used_at = await calls.find_last_use(tx, self.endpoint)
        if last_used_at is None or self.clock() - last_used_at >= IDLE_SECONDS:
            self.warm_up()


@dataclass(frozen=True, slots=True)
class DiskCheck:
    """Fails while less than MIN_FREE_BYTES are free where the database is."""

    folder: Path
    count_free_bytes: Callable[[Path], int] = count_free_bytes

    async def __call__(self) -> None:
        if self.count_free_bytes(self.folder) < MIN_FREE_BYTES:
            raise JobFailed(
                "Less than 1 GB is free on the disk of the database. "
                "Free some space: once it is full, nobody is answered."
            )


@dataclass(frozen=True, slots=True)
class ReadCountersTask:
    """Reads the endpoint's counters now; they are also read at an interval, without a job."""

    reconciliation: Reconciliation

    async def __call__(self) -> None:
        reading = await self.reconciliation.take_reading()
        if reading is None:
            raise JobFailed("The endpoint shows no counters (/metrics).")
        if not reading.totals:
            raise JobFailed(f"There is no reading: {reading.why}.")


@dataclass(frozen=True, slots=True)
class UsageSummaryTask:
    """Summarises the last whole day or week of usage, in the gateway's zone, with a button to draw it."""

    local_time: ClassVar[str] = "08:00"

    database: Database
    every: "SummaryFrequency"
    get_tz: Callable[[], tzinfo]
    clock: Clock = time.time

    async def __call__(self) -> Callable[[Translator], Part]:
        from bot.usage import summary  # late: reports would take each start a while
        from bot.usage.queries import load_report
        from bot.usage.report import ReportQuery

        period = summary.last_period(self.every, self.clock(), self.get_tz())
        async with self.database.long_read_transaction() as tx:
            report = await load_report(tx, ReportQuery(period.scope))
            report_by_user = await load_report(tx, ReportQuery(period.scope, "user"))
            previous_report = await load_report(tx, ReportQuery(period.previous.scope))

        def build_message(translate: Translator) -> Part:
            text = summary.render_summary(translate, period, report, report_by_user, previous_report)
            if report.is_empty:
                return Part(text, silent=True)
            button = Button(translate("Chart"), "picture:all")
            return Part(text, buttons=((button,),), silent=True)

        return build_message
