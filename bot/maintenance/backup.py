"""What keeps the data safe: the nightly check of the database, and backups, nightly or on request.

Each job has the hour it runs at (`local_time`, in the gateway's zone).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import ClassVar

from bot.db.database_url import find_database_file
from bot.db.engine import Database
from bot.db.maintenance.backup import BackupDirectory, check_integrity, write_backup
from bot.db.queues.system_jobs import list_statuses
from bot.domain import DAY_SECONDS, NotifyAdmins
from bot.errors import JobFailed, NothingFound, QuestionRefused
from bot.settings import Settings
from bot.translations.formats import format_date
from bot.translations.translator import Translator, defer
from tools.threads import run_in_thread

BACKUP_JOB = "backup"
MAX_BACKUP_DAYS = 2  # one is made a night
LONG_BACKUP_SECONDS = 6 * 3600.0  # of one that is still being made after so long nobody expects its end


@dataclass(frozen=True, slots=True)
class IntegrityCheck:
    """Checks the database in `file`; raises JobFailed when it is damaged."""

    local_time: ClassVar[str] = "03:00"

    database: Database
    file: Path

    async def __call__(self) -> None:
        if errors := await check_integrity(self.database, self.file):
            raise JobFailed(
                f"The database is damaged ({errors[0]}). "
                "Stop the gateway and restore a backup: canvasgram restore FILE"
            )


def build_backup_directory(settings: Settings) -> BackupDirectory | None:
    """The folder of backups as it is set; None: there are to be none."""
    database_file = find_database_file(settings.database_url)
    if settings.backup_dir is None or database_file is None:
        return None
    return BackupDirectory(database_file, settings.backup_dir, settings.backup_keep)


async def make_backup_now(settings: Settings, file: Path | None, *, now: float) -> Path:
    """Make a backup in `file`, or else in BACKUP_DIR, whether a gateway runs or not; returns where it is.

    Raises BackupFailed, NothingFound or QuestionRefused.
    """
    database_file = find_database_file(settings.database_url)
    if database_file is None:
        raise QuestionRefused("This is for SQLite files. A PostgreSQL server is backed up by pg_dump.")
    if not database_file.is_file():
        raise NothingFound(f"There is no database at {database_file}. DATABASE_URL names it.")
    if file is not None:
        await write_backup(database_file, file)
        return file
    backup_directory = build_backup_directory(settings)
    if backup_directory is None:
        raise QuestionRefused("Name a file, or set BACKUP_DIR. Example: canvasgram backup copy.db")
    return await backup_directory.make_backup(now=now)


@dataclass(frozen=True, slots=True)
class BackupTask:
    """Makes a backup in the backup directory; raises BackupFailed."""

    local_time: ClassVar[str] = "03:30"

    backup_directory: BackupDirectory
    clock: Callable[[], float] = time.time

    async def __call__(self) -> None:
        await self.backup_directory.make_backup(now=self.clock())


@dataclass(frozen=True, slots=True)
class BackupAgeCheck:
    """Tells admins, once, that no backup has succeeded for MAX_BACKUP_DAYS.

    The backup that follows a long stop of the gateway is waited for.
    """

    database: Database
    backup_directory: BackupDirectory
    notify_admins: NotifyAdmins
    get_tz: Callable[[], tzinfo]
    clock: Callable[[], float] = time.time

    async def __call__(self) -> None:
        now = self.clock()
        async with self.database.read_transaction() as tx:
            [backup] = [status for status in await list_statuses(tx) if status.name == BACKUP_JOB]
        is_due = backup.next_due is not None and backup.next_due <= now
        begun_at = backup.last_received_at or 0.0
        if is_due or (backup.is_pending(now) and now - begun_at < LONG_BACKUP_SECONDS):
            return
        newest_at = await run_in_thread(self.backup_directory.find_newest_time) or 0.0
        well_at = max(newest_at, backup.well_at)
        if now - well_at <= MAX_BACKUP_DAYS * DAY_SECONDS:
            return

        def format_day(translate: Translator) -> str:
            return format_date(translate, datetime.fromtimestamp(well_at, self.get_tz()))

        text = defer("No backup has succeeded since {day}. `canvasgram jobs` says why.", day=format_day)
        await self.notify_admins("backup age", text)
