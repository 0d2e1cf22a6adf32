"""Killed in the middle of a backup: no half file counts, and the next process makes the whole one."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from bot.cli import system_jobs as orders
from bot.db.maintenance.backup import Shelf, faults
from tests.kill.conftest import Surround
from tests.kill.environment import Surroundings
from tests.kill.gateway import PATIENCE

MIB = 1 << 20


@pytest.mark.timeout(180)
async def test_in_the_middle_of_a_backup(surround: Surround, tmp_path: Path):
    shelf = Shelf(tmp_path / "house.db", tmp_path / "backups", keep=3)
    house = await surround(backup_dir=shelf.folder)
    await house.stored("select 1 from jobs where name = 'backup'")
    fill(house, 48)
    for _ in range(2):
        await ordered(house)
        async with asyncio.timeout(PATIENCE):
            while not any(one.stat().st_size > MIB for one in partial(shelf)):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.002)
        await house.gateway.kill()
        assert shelf.backups() == []
        assert partial(shelf)
        await house.gateway.start()
        house.ann.send("@@say:still here@@")  # nobody waits for it
        await house.until(lambda: "still here" in house.texts())
        await house.at_rest()
        [made] = shelf.backups()
        assert faults(made) == []
        assert partial(shelf) == []
        assert house.rows("select state, error from inbox where kind = 'house' and state <> 'done'") == []
        made.unlink()


def fill(house: Surroundings, mib: int) -> None:
    """Make the database so much larger."""
    with closing(sqlite3.connect(house.folder / "house.db")) as connection, connection:
        for number in range(mib):
            connection.execute("INSERT INTO notices VALUES (?, ?, 0)", [f"filling {number}", "x" * MIB])


async def ordered(house: Surroundings) -> None:
    url = str(house.settings["database_url"])
    assert "is ordered" in await orders.order(url, "backup", now=time.time())


def partial(shelf: Shelf) -> list[Path]:
    return list(shelf.folder.glob(".*.partial")) if shelf.folder.exists() else []
