"""What each of the house's own jobs does: the database's care, backups, a warm-up after idle hours, the usage
summary.

Nothing here knows when it is due, or what becomes of it when it fails.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from bot.db.conversations import calls
from bot.db.engine import Database
from bot.db.maintenance.backup import BackupDirectory
from bot.db.maintenance.integrity import check_integrity
from bot.domain import Button, Part
from bot.errors import JobFailed
from bot.usage import summary
from bot.usage.queries import load_report
from bot.usage.reconcile import Reconciliation
from bot.usage.report import ReportQuery
from bot.usage.summary import SummaryFrequency

IDLE_SECONDS = 4 * 3600.0  # seconds without a call after which the endpoint's cache may be gone
PICTURE_BUTTON = Button("Picture", "picture:all")

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class IntegrityCheck:
    """Looks after the database in `file`; raises JobFailed when it is damaged."""

    database: Database
    file: Path

    async def __call__(self) -> None:
        if found := await check_integrity(self.database, self.file):
            raise JobFailed(
                f"The database is damaged ({found[0]}). Stop the house and put a backup back: canvasgram restore FILE"
            )


@dataclass(frozen=True, slots=True)
class BackupTask:
    """Makes a backup on the shelf; raises BackupFailed."""

    backup_directory: BackupDirectory
    clock: Clock = time.time

    async def __call__(self) -> None:
        await self.backup_directory.make_backup(now=self.clock())


@dataclass(frozen=True, slots=True)
class CacheWarmupTask:
    """Has the head of the prompts put into the endpoint's cache by `again`, unless it was asked something
    lately.
    """

    database: Database
    endpoint: str
    warm_up: Callable[[], None]
    clock: Clock = time.time

    async def __call__(self) -> None:
        async with self.database.read_transaction() as tx:
            used = await calls.find_last_use(tx, self.endpoint)
        if used is None or self.clock() - used >= IDLE_SECONDS:
            self.warm_up()


@dataclass(frozen=True, slots=True)
class ReadCountersTask:
    """Reads the endpoint's counters now; they are read by a clock of their own besides."""

    reconciliation: Reconciliation

    async def __call__(self) -> None:
        if await self.reconciliation.take_reading() is None:
            raise JobFailed("The endpoint shows no counters (/metrics).")


@dataclass(frozen=True, slots=True)
class UsageSummaryTask:
    """Tells what was used in the last whole day or week of the house's zone, with a button that draws it."""

    database: Database
    every: SummaryFrequency
    get_tz: Callable[[], tzinfo]
    clock: Clock = time.time

    async def __call__(self) -> Part:
        period = summary.last_period(self.every, self.clock(), self.get_tz())
        report = await load_report(self.database, ReportQuery(period.scope))
        people = await load_report(self.database, ReportQuery(period.scope, "user"))
        before = await load_report(self.database, ReportQuery(period.previous.scope))
        told = summary.render_summary(period, report, people, before)
        return Part(told, buttons=() if report.is_empty else ((PICTURE_BUTTON,),), silent=True)
