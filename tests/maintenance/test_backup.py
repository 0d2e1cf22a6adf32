"""The nightly check of the database."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.db.database_url import parse_database_path
from bot.db.engine import Database
from bot.errors import JobFailed
from bot.maintenance.backup import IntegrityCheck


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
