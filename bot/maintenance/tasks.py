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
from bot.db.maintenance.backup import Shelf
from bot.db.maintenance.integrity import care
from bot.domain import Button, Part
from bot.errors import JobFailed
from bot.usage import summary
from bot.usage.queries import answered
from bot.usage.reconcile import Reconciliation
from bot.usage.report import Question
from bot.usage.summary import Every

IDLE = 4 * 3600.0  # seconds without a call after which the endpoint's cache may be gone
PICTURE = Button("Picture", "picture:all")

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Care:
    """Looks after the database in `file`; raises JobFailed when it is damaged."""

    database: Database
    file: Path

    async def __call__(self) -> None:
        if found := await care(self.database, self.file):
            raise JobFailed(
                f"The database is damaged ({found[0]}). Stop the house and put a backup back: canvasgram restore FILE"
            )


@dataclass(frozen=True, slots=True)
class Backups:
    """Makes a backup on the shelf; raises BackupFailed."""

    shelf: Shelf
    clock: Clock = time.time

    async def __call__(self) -> None:
        await self.shelf.add(now=self.clock())


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Has the head of the prompts put into the endpoint's cache by `again`, unless it was asked something
    lately.
    """

    database: Database
    endpoint: str
    again: Callable[[], None]
    clock: Clock = time.time

    async def __call__(self) -> None:
        async with self.database.reading() as tx:
            used = await calls.last_use(tx, self.endpoint)
        if used is None or self.clock() - used >= IDLE:
            self.again()


@dataclass(frozen=True, slots=True)
class Counters:
    """Reads the endpoint's counters now; they are read by a clock of their own besides."""

    reconciliation: Reconciliation

    async def __call__(self) -> None:
        if await self.reconciliation.take() is None:
            raise JobFailed("The endpoint shows no counters (/metrics).")


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """Tells what was used in the last whole day or week of the house's zone, with a button that draws it."""

    database: Database
    every: Every
    zone: Callable[[], tzinfo]
    clock: Clock = time.time

    async def __call__(self) -> Part:
        period = summary.last(self.every, self.clock(), self.zone())
        report = await answered(self.database, Question(period.scope))
        people = await answered(self.database, Question(period.scope, "user"))
        before = await answered(self.database, Question(period.before.scope))
        told = summary.text(period, report, people, before)
        return Part(told, buttons=() if report.is_empty else ((PICTURE,),), silent=True)
