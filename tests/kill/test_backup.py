"""Killed in the middle of a backup: no partial file counts, and the next process makes a complete one."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from bot.cli import system_jobs
from bot.db.maintenance.backup import BackupDirectory, find_integrity_errors
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment, find_zone_at_noon
from tests.kill.gateway import PATIENCE

MIB = 1 << 20


async def test_in_the_middle_of_a_backup(surround: OpenEnvironment, tmp_path: Path):
    backups = BackupDirectory(tmp_path / "gateway.db", tmp_path / "backups", max_backups=3)
    environment = await surround(backup_dir=backups.folder, time_zone=find_zone_at_noon())
    await environment.wait_for_row("select 1 from jobs where name = 'backup'")
    fill_database(environment, 48)
    for _ in range(2):
        await order_backup(environment)
        async with asyncio.timeout(PATIENCE):
            while not has_large_partial_backup(backups):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.002)
        await environment.gateway.kill()
        assert backups.list_backups() == []
        assert list_partial_backups(backups)
        await environment.gateway.start()
        environment.ann.send("@@say:still here@@")  # the backup delays nobody
        await environment.until(lambda: "still here" in environment.texts())
        await environment.wait_until_idle()
        [backup] = backups.list_backups()
        assert find_integrity_errors(backup) == []
        assert list_partial_backups(backups) == []
        assert (
            environment.load_rows("select state, error from inbox where kind = 'system' and state <> 'done'")
            == []
        )
        backup.unlink()


def fill_database(environment: KillEnvironment, size_mib: int) -> None:
    """Make the database larger by so many MiB."""
    file = environment.folder / "gateway.db"
    with closing(sqlite3.connect(file, timeout=PATIENCE)) as connection, connection:
        for number in range(size_mib):
            connection.execute("INSERT INTO notices VALUES (?, ?, 0)", [f"filling {number}", "x" * MIB])


async def order_backup(environment: KillEnvironment) -> None:
    url = str(environment.settings["database_url"])
    assert "is ordered" in await system_jobs.run_system_job(url, "backup", now=time.time())


def has_large_partial_backup(backups: BackupDirectory) -> bool:
    return any(file.stat().st_size > MIB for file in list_partial_backups(backups))


def list_partial_backups(backups: BackupDirectory) -> list[Path]:
    if not backups.folder.exists():
        return []
    return list(backups.folder.glob(".*.partial"))
