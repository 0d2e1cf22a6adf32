"""The nightly check of the database, and that admins hear of backups that fail for long."""

import sqlite3
from contextlib import closing
from datetime import UTC
from pathlib import Path

import pytest

from bot.db.database_url import parse_database_path
from bot.db.engine import Database
from bot.db.maintenance.backup import BackupDirectory
from bot.db.queues import jobs, system_jobs
from bot.db.queues.jobs import NewJob
from bot.domain import DAY_SECONDS
from bot.errors import JobFailed
from bot.maintenance.backup import BACKUP_JOB, LONG_BACKUP_SECONDS, BackupAgeCheck, IntegrityCheck
from bot.translations.translator import ENGLISH, Translatable
from tests.support.usage_rows import NOON


@pytest.mark.sqlite
async def test_the_check_of_a_damaged_database_fails_with_what_to_do(
    database: Database, database_url: str, tmp_path: Path
):
    file = parse_database_path(database_url)
    await IntegrityCheck(database, file)()
    damaged_file = tmp_path / "ruin.db"
    with closing(sqlite3.connect(damaged_file)) as connection:
        connection.executescript("CREATE TABLE t (x); CREATE INDEX i ON t (x); INSERT INTO t VALUES (1)")
        connection.executescript(
            "PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage = 99 WHERE name = 'i'"
        )
    with pytest.raises(JobFailed, match=r"^The database is damaged \(.*canvasgram restore FILE$"):
        await IntegrityCheck(database, damaged_file)()


async def test_admins_hear_after_two_days_without_a_backup_and_again_only_after_one(
    database: Database, tmp_path: Path
):
    told: dict[str, list[str]] = {}

    async def notify(subject: str, text: Translatable) -> None:
        told.setdefault(subject, []).append(text(ENGLISH))

    async def check_at(days: float) -> set[str]:
        """What admins were told by then; the same text reaches them once."""
        now = NOON + days * DAY_SECONDS
        await BackupAgeCheck(
            database, BackupDirectory(tmp_path / "bot.db", tmp_path, 7), notify, lambda: UTC, lambda: now
        )()
        return set(told.get("backup age", []))

    async def end_backup_at(days: float, *, failed: bool) -> None:
        async with database.transaction() as tx:
            await system_jobs.record_end(tx, BACKUP_JOB, failed=failed, now=NOON + days * DAY_SECONDS)

    async def set_due(days: float) -> None:
        due = NOON + days * DAY_SECONDS
        job = NewJob("system", due, "UTC", f"each day, after {days}", text="copies", name=BACKUP_JOB)
        async with database.transaction() as tx:
            await jobs.put_system_job(tx, job, now=NOON)

    first = "No backup has succeeded since 4 Oct 2024. `canvasgram jobs` says why."
    await set_due(100)
    assert await check_at(2) == set()  # it is wanted since noon, and was never tried
    await end_backup_at(1, failed=True)
    assert await check_at(2.1) == {first}
    assert await check_at(3) == {first}
    await end_backup_at(4, failed=False)
    (tmp_path / "bot-20241010T120000Z.db").touch()  # by hand, after six days
    await end_backup_at(7, failed=True)
    assert await check_at(8) == {first}
    second = first.replace("4 Oct", "10 Oct")
    assert await check_at(8.1) == {first, second}
    # After a week without the gateway the backup is due, then being made, and expected for some hours.
    await set_due(15)
    assert await check_at(15.1) == {first, second}
    await set_due(100)
    async with database.transaction() as tx:
        [job] = await jobs.list_system_jobs(tx)
        began_at = NOON + 15 * DAY_SECONDS
        assert await jobs.run_now(tx, job.id, jobs.build_inbox_row(job), now=began_at)
    assert await check_at(15.1) == {first, second}
    third = first.replace("4 Oct", "11 Oct")
    await end_backup_at(7, failed=False)
    assert await check_at(15.1) == {first, second}
    assert await check_at(15 + LONG_BACKUP_SECONDS / DAY_SECONDS) == {first, second, third}
