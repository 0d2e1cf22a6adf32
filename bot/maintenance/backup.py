"""The nightly jobs that keep the data safe: check the database, and back it up.

Each has the hour it runs at (`local_time`, in the gateway's zone).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bot.db.engine import Database
from bot.db.maintenance.backup import BackupDirectory, check_integrity
from bot.errors import JobFailed


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


@dataclass(frozen=True, slots=True)
class BackupTask:
    """Makes a backup in the backup directory; raises BackupFailed."""

    local_time: ClassVar[str] = "03:30"

    backup_directory: BackupDirectory
    clock: Callable[[], float] = time.time

    async def __call__(self) -> None:
        await self.backup_directory.make_backup(now=self.clock())
