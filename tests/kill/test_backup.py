"""Killed in the middle of a backup: no half file counts, and the next process makes the whole one."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from bot.cli import system_jobs as orders
from bot.db.maintenance.backup import BackupDirectory, find_integrity_errors
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import PATIENCE

MIB = 1 << 20


@pytest.mark.timeout(180)
async def test_in_the_middle_of_a_backup(surround: OpenEnvironment, tmp_path: Path):
    shelf = BackupDirectory(tmp_path / "house.db", tmp_path / "backups", max_backups=3)
    house = await surround(backup_dir=shelf.folder)
    await house.wait_for_row("select 1 from jobs where name = 'backup'")
    fill_database(house, 48)
    for _ in range(2):
        await order_backup(house)
        async with asyncio.timeout(PATIENCE):
            while not any(one.stat().st_size > MIB for one in list_partial_backups(shelf)):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.002)
        await house.gateway.kill()
        assert shelf.list_backups() == []
        assert list_partial_backups(shelf)
        await house.gateway.start()
        house.ann.send("@@say:still here@@")  # nobody waits for it
        await house.until(lambda: "still here" in house.texts())
        await house.wait_until_idle()
        [made] = shelf.list_backups()
        assert find_integrity_errors(made) == []
        assert list_partial_backups(shelf) == []
        assert (
            house.load_rows("select state, error from inbox where kind = 'house' and state <> 'done'") == []
        )
        made.unlink()


def fill_database(environment: KillEnvironment, size_mib: int) -> None:
    """Make the database so much larger."""
    with closing(sqlite3.connect(environment.folder / "house.db")) as connection, connection:
        for number in range(size_mib):
            connection.execute("INSERT INTO notices VALUES (?, ?, 0)", [f"filling {number}", "x" * MIB])


async def order_backup(environment: KillEnvironment) -> None:
    url = str(environment.settings["database_url"])
    assert "is ordered" in await orders.run_system_job(url, "backup", now=time.time())


def list_partial_backups(backups: BackupDirectory) -> list[Path]:
    return list(backups.folder.glob(".*.partial")) if backups.folder.exists() else []
