"""A backup is a complete snapshot in one private, sound file, or there is none; nobody waits for it."""

import asyncio
import errno
import fcntl
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.dialects.sqlite import dialect

from bot.db.database_url import parse_database_path
from bot.db.engine import Database
from bot.db.maintenance import backup as backup_module
from bot.db.maintenance.backup import (
    BackupDirectory,
    check_integrity,
    find_integrity_errors,
    read_made_at,
)
from bot.db.queues import inbox
from bot.db.tables import inbox as inbox_table
from bot.db.tables import notices
from bot.db.transaction import Transaction
from bot.errors import BackupFailed

pytestmark = pytest.mark.sqlite

NOW = 1_795_000_000.0  # 18 November 2026, 11:06:40 UTC
FIRST = "canvasgram-20261118T110640Z.db"


@pytest.fixture
def directory(database_url: str, tmp_path: Path) -> BackupDirectory:
    return BackupDirectory(parse_database_path(database_url), tmp_path / "backups", max_backups=2)


async def insert_notice(database: Database, number: int, size: int = 1) -> None:
    async with database.transaction() as tx:
        await tx.execute(insert(notices).values(subject=f"{number}", text="x" * size, told_at=0.0))


def count_notices(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT count(*) FROM notices").fetchone()[0])


async def test_a_backup_is_one_sound_private_file_with_all_that_was_committed(
    database: Database, directory: BackupDirectory
):
    await insert_notice(database, 1)
    backup = await directory.make_backup(now=NOW)
    assert backup.name == FIRST
    assert (read_made_at(backup), directory.find_newest_time()) == (NOW, NOW)
    assert [path.name for path in directory.folder.iterdir()] == [FIRST]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.folder.stat().st_mode) == 0o700
    assert (count_notices(backup), find_integrity_errors(backup)) == (1, [])
    assert [path.name for path in directory.folder.iterdir()] == [
        FIRST
    ]  # to open it backup no file beside it


async def test_only_the_newest_few_are_kept_and_old_ones_expire(
    directory: BackupDirectory, database: Database
):
    directory.folder.mkdir()
    (directory.folder / "canvasgram-notes.db").touch()  # somebody else's
    assert directory.find_newest_time() is None
    backups = [await directory.make_backup(now=NOW + number) for number in range(3)]
    assert directory.list_backups() == backups[1:]
    assert directory.expire(before=NOW + 9) == 1
    assert directory.list_backups() == backups[2:]  # the newest stays
    assert (directory.folder / "canvasgram-notes.db").exists()


async def test_a_backup_that_a_wrong_clock_named_never_outlives_the_one_just_made(
    directory: BackupDirectory, database: Database
):
    await directory.make_backup(now=NOW + 9e7)
    backups = [await directory.make_backup(now=NOW + number) for number in range(3)]
    assert backups[-1] in directory.list_backups()
    assert len(directory.list_backups()) == 2


async def test_others_write_while_a_backup_is_made_and_it_holds_one_snapshot(
    database: Database, directory: BackupDirectory, monkeypatch: pytest.MonkeyPatch
):
    for number in range(4):
        await insert_notice(database, number, 4_000_000)
    has_begun, may_go_on = threading.Event(), threading.Event()
    build_callback = backup_module._build_progress_callback

    def build_waiting_callback(target: Path, cancelled: threading.Event) -> Callable[[int, int, int], None]:
        on_step = build_callback(target, cancelled)

        def wait_once(*progress: int) -> None:
            has_begun.set()
            assert may_go_on.wait(60)
            on_step(*progress)

        return wait_once

    monkeypatch.setattr(backup_module, "_build_progress_callback", build_waiting_callback)
    written = 0
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(directory.make_backup(now=NOW))
        assert await asyncio.to_thread(has_begun.wait, 60)
        while not task.done():  # a copy that restarts with every commit would never end
            await insert_notice(database, 100 + written)
            written += 1
            if written == 4:
                may_go_on.set()
    assert 4 <= count_notices(task.result()) < 4 + written


async def test_a_folder_that_cannot_be_written_is_named(
    database: Database, tmp_path: Path, database_url: str
):
    (tmp_path / "file").touch()
    with pytest.raises(BackupFailed, match=r"in .*/file/inside: Not a directory\."):
        await BackupDirectory(parse_database_path(database_url), tmp_path / "file" / "inside", 2).make_backup(
            now=NOW
        )
    assert BackupDirectory(parse_database_path(database_url), tmp_path / "nowhere", 2).list_backups() == []


class DiskUsage(NamedTuple):
    total: int
    used: int
    free: int


async def test_a_disk_without_space_is_left_alone_and_older_backups_stay(
    database: Database, directory: BackupDirectory, monkeypatch: pytest.MonkeyPatch
):
    older = await directory.make_backup(now=NOW)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(10, 9, 1))
    with pytest.raises(BackupFailed, match=os.strerror(errno.ENOSPC)):
        await directory.make_backup(now=NOW + 1)
    assert list(directory.folder.iterdir()) == [older]


async def test_a_disk_that_fills_up_meanwhile_leaves_nothing_behind(
    database: Database, directory: BackupDirectory, monkeypatch: pytest.MonkeyPatch
):
    await insert_notice(database, 1, 4_000_000)
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def narrow(file: object, **options: object) -> sqlite3.Connection:
        connection = connect(file, **options)
        if str(file).endswith(".partial"):
            connection.execute("PRAGMA max_page_count=20")
        return connection

    monkeypatch.setattr(sqlite3, "connect", narrow)
    with pytest.raises(BackupFailed, match="disk is full"):
        await directory.make_backup(now=NOW)
    assert list(directory.folder.iterdir()) == []


async def test_a_cancelled_backup_leaves_nothing_behind(database: Database, directory: BackupDirectory):
    await insert_notice(database, 1, 20_000_000)
    task = asyncio.get_running_loop().create_task(directory.make_backup(now=NOW))
    async with asyncio.timeout(60):
        while not list(directory.folder.glob(".*")):  # noqa: ASYNC110  # another thread makes it
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    async with asyncio.timeout(60):
        while list(directory.folder.iterdir()):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert directory.list_backups() == []


async def test_files_of_a_killed_attempt_are_no_backups_and_are_deleted(
    database: Database, directory: BackupDirectory
):
    directory.folder.mkdir()
    (directory.folder / f".{FIRST}.partial").write_bytes(b"half a copy")
    assert directory.list_backups() == []
    backup = await directory.make_backup(now=NOW + 1)
    assert list(directory.folder.iterdir()) == [backup]


async def test_two_processes_do_not_delete_each_others_unfinished_backups(
    database: Database, directory: BackupDirectory
):
    directory.folder.mkdir()
    partial = directory.folder / f".{FIRST}.partial"
    partial.write_bytes(b"half a copy")
    descriptor = os.open(directory.folder, os.O_RDONLY)  # the other one
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(BackupFailed, match="Another backup is being made"):
        await directory.make_backup(now=NOW)
    assert list(directory.folder.iterdir()) == [partial]
    os.close(descriptor)
    await directory.make_backup(now=NOW)


def corrupt_page(file: Path) -> None:
    """Write over a page in the middle of a database."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [[page]] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'notices'").fetchall()
        [[size]] = connection.execute("PRAGMA page_size").fetchall()
    with file.open("r+b") as database_file:
        database_file.seek((page - 1) * size)
        database_file.write(b"\xff" * size)


async def test_a_damaged_database_makes_no_backup_and_its_check_says_what_is_wrong(
    database: Database, directory: BackupDirectory
):
    await insert_notice(database, 1)
    assert await check_integrity(database, directory.database_file) == []
    corrupt_page(directory.database_file)
    with pytest.raises(BackupFailed, match="not sound"):
        await directory.make_backup(now=NOW)
    assert directory.list_backups() == []
    assert await check_integrity(database, directory.database_file) != []
    assert find_integrity_errors(Path(__file__)) == ["file is not a database"]


async def test_the_check_merges_the_log(database: Database, directory: BackupDirectory):
    for number in range(30):
        await insert_notice(database, number, 10_000)
    assert Path(f"{directory.database_file}-wal").stat().st_size > 100_000
    before = directory.database_file.stat().st_size
    assert await check_integrity(database, directory.database_file) == []
    assert directory.database_file.stat().st_size > before
    async with database.read_transaction() as tx:
        assert (await tx.execute(select(func.count()).select_from(notices))).scalar_one() == 30


async def test_updated_statistics_never_hide_the_few_waiting_rows_of_a_queue(
    database: Database, directory: BackupDirectory
):
    done = [
        {"kind": "update", "shape": "text", "lane": "7", "state": "done", "received_at": 1.0}
        for _ in range(600)
    ]
    async with database.transaction() as tx:
        await tx.execute(insert(inbox_table), done)
        await tx.exec_driver_sql("ANALYZE")

    async def reads_all(tx: Transaction) -> bool:
        waiting = str(inbox._CLAIMABLE.compile(dialect=dialect(), compile_kwargs={"literal_binds": True}))
        plan = (await tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {waiting}")).all()
        return "SCAN inbox" in [row.detail for row in plan]

    async with database.transaction() as tx:
        assert await reads_all(tx)
    assert await check_integrity(database, directory.database_file) == []
    async with database.transaction() as tx:
        assert not await reads_all(tx)
        tables = (await tx.execute(text("SELECT DISTINCT tbl FROM sqlite_stat1"))).scalars().all()
        assert "inbox" not in tables


def test_a_cancelled_check_ends(database_url: str):
    cancelled = threading.Event()
    cancelled.set()
    file = parse_database_path(database_url)
    assert find_integrity_errors(file, cancelled, cancel_check_steps=1) == ["interrupted"]


def test_a_copy_without_a_timestamp_in_its_name_is_as_old_as_its_file(tmp_path: Path):
    copy = tmp_path / "canvasgram.db.before-0003.bak"
    copy.touch()
    os.utime(copy, (NOW, NOW))
    assert read_made_at(copy) == NOW
