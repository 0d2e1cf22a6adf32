"""A database is migrated to this version's schema after a copy was made; a newer one is left alone."""

import errno
import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

import migrations
from bot.db.database_url import parse_database_path
from bot.db.migrate import migrate, migrate_stopped
from bot.db.schema import find_newest_revision
from bot.db.sqlite import lock
from bot.db.sqlite.migrate import delete_copies, list_copies, read_current_revision
from bot.db.tables import metadata
from bot.errors import GatewayRunning, SchemaUnknown, StoreUnavailable
from tools.base import hash_definition

pytestmark = pytest.mark.sqlite

MIGRATIONS = Path(migrations.__file__).parent


def test_migrations_lead_to_the_schema_of_the_tables(database_url: str):
    engine = create_engine(database_url.replace("+aiosqlite", ""))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def downgrade(url: str, revision: str) -> set[str]:
    """Undo migrations down to a revision; returns the tables that are left."""
    return run_alembic(url, command.downgrade, revision)


def run_alembic(url: str, run_command: Callable[[Config, str], None], revision: str) -> set[str]:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = create_engine(url.replace("+aiosqlite", ""))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        run_command(config, revision)
        connection.commit()
        tables = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = tables.scalars().all()
    engine.dispose()
    return set(names)


def test_migrations_can_be_undone(database_url: str):
    names = downgrade(database_url, "base")
    assert names <= {"alembic_version", "sqlite_sequence"}


def read_schema(file: Path) -> dict[str, str]:
    with closing(sqlite3.connect(file)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%'"))


def insert_row(connection: sqlite3.Connection, table: str, **values: object) -> None:
    """Insert a row with a value in each column that requires one."""
    row = dict(values)
    for _, name, column_type, not_null, default, _ in connection.execute(f"PRAGMA table_info({table})"):
        if not_null and default is None and name != "id":
            row.setdefault(name, "x" if column_type == "TEXT" else 1)
    places = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", [*row.values()])


def test_a_database_from_before_tools_and_jobs_keeps_its_rows_and_gets_the_schema_of_a_new_one(
    database_url: str, tmp_path: Path
):
    file = tmp_path / "old.db"
    url = f"sqlite+aiosqlite:///{file}"
    run_alembic(url, command.upgrade, "0003")
    tables = ("messages", "tool_calls", "model_calls", "accounts")
    with closing(sqlite3.connect(file)) as connection, connection:
        for number in range(1, 6):
            insert_row(connection, "inbox", turn=number)
            insert_row(connection, "turns", item=number)
            for table in tables:
                insert_row(connection, table, turn=number)
    migrate(url)
    assert read_schema(file) == read_schema(parse_database_path(database_url))
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for table in ("inbox", "turns", *tables):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (5,)
        assert connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'turns'").fetchone() == (5,)


def test_a_current_database_is_left_unchanged(database_url: str):
    assert migrate(database_url) is None


def test_an_older_database_is_copied_before_it_is_migrated(database_url: str):
    file = parse_database_path(database_url)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("DROP TABLE notes; UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(Exception, match="0000"):
        migrate(database_url)  # nothing leads from 0000, but the copy was made before anything was touched
    copy = file.with_name(f"{file.name}.before-0000.bak")
    assert read_current_revision(copy) == "0000"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


class DiskUsage(NamedTuple):
    total: int
    used: int
    free: int


def test_without_space_for_a_copy_nothing_is_touched_and_the_bytes_are_named(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    file = parse_database_path(database_url)
    downgrade(database_url, "0020")
    (file.parent / f"{file.name}.before-0020.bak.partial").write_bytes(b"of a killed attempt")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(9, 8, 1))
    with pytest.raises(StoreUnavailable, match=rf"{file} is copied .* in {file.parent}, where 1 are free"):
        migrate(database_url)
    assert read_current_revision(file) == "0020"
    assert list(file.parent.glob(f"{file.name}.before*")) == []


def test_a_copy_that_fails_half_way_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch):
    file = parse_database_path(database_url)
    downgrade(database_url, "0020")
    monkeypatch.setattr(Path, "replace", refuse_to_rename)
    with pytest.raises(OSError, match="full"):
        migrate(database_url)
    assert list(file.parent.glob(f"{file.name}.before*")) == []


def refuse_to_rename(*_: object) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_migrate_is_refused_while_a_gateway_runs(database_url: str):
    with lock.hold_lock(parse_database_path(database_url)), pytest.raises(GatewayRunning):
        migrate_stopped(database_url)
    assert migrate_stopped(database_url) is None


def test_migrate_makes_the_folder_of_a_new_database(tmp_path: Path):
    file = tmp_path / "var" / "lib" / "canvasgram.db"
    assert migrate_stopped(f"sqlite+aiosqlite:///{file}") is None
    assert read_current_revision(file) == find_newest_revision()


def test_a_migration_removes_what_was_deleted_earlier_and_its_copy_expires(database_url: str):
    file = parse_database_path(database_url)
    downgrade(database_url, "0002")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("INSERT INTO notices VALUES ('a', 'a secret', 0)")
        connection.execute("DELETE FROM notices")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"a secret" in file.read_bytes()
    copy = migrate(database_url)
    assert b"a secret" not in file.read_bytes()
    assert [str(path) for path in list_copies(file)] == [copy]
    made_at = Path(str(copy)).stat().st_mtime
    delete_copies(file, before=made_at)
    assert len(list_copies(file)) == 1
    delete_copies(file, before=made_at + 1)
    assert list_copies(file) == []


def test_a_newer_database_is_refused(database_url: str):
    with closing(sqlite3.connect(parse_database_path(database_url))) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaUnknown, match=f"9999.*{find_newest_revision()}"):
        migrate(database_url)


def test_a_database_has_one_gateway_and_its_lock_is_released_when_it_dies(tmp_path: Path):
    file = tmp_path / "canvasgram.db"
    program = "import sys; from pathlib import Path; from bot.db.sqlite import lock\n"
    program += "with lock.hold_lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(GatewayRunning, match="already works"), lock.hold_lock(file):
            pass
        holder.kill()
        holder.wait()
    with lock.hold_lock(file):
        pass


def test_grants_survive_that_what_the_model_is_told_leaves_the_definitions(tmp_path: Path):
    file = tmp_path / "old.db"
    url = f"sqlite+aiosqlite:///{file}"
    run_alembic(url, command.upgrade, "0006")
    definition = {
        "name": "shop_list",
        "input_schema": {"type": "object"},
        "address": "GET https://shop.test/",
    }
    hash_before = hash_definition({**definition, "told": {"type": "object"}})
    route = {"name": "shop_list", "checked": {"type": "object"}, "told": {"type": "object"}}
    with closing(sqlite3.connect(file)) as connection, connection:
        insert_row(
            connection, "sources", name="shop", kind="openapi", options=json.dumps({"routes": [route]})
        )
        insert_row(
            connection,
            "tools",
            name="shop_list",
            source="shop",
            definition=json.dumps({**definition, "told": {"type": "object"}}),
            hash=hash_before,
        )
        insert_row(connection, "grants", tool="shop_list", hash=hash_before)
        insert_row(connection, "allowances", tool="shop_list", hash=hash_before)
        insert_row(connection, "allowances", tool="shop_list", hash="of another definition")
    migrate(url)
    with closing(sqlite3.connect(file)) as connection:
        [(stored, hash_after)] = connection.execute("SELECT definition, hash FROM tools")
        assert json.loads(stored) == definition
        assert hash_after == hash_definition(definition)
        assert connection.execute("SELECT hash FROM grants").fetchall() == [(hash_after,)]
        allowances = connection.execute("SELECT hash FROM allowances ORDER BY id").fetchall()
        assert allowances == [(hash_after,), ("of another definition",)]
        [(options,)] = connection.execute("SELECT options FROM sources")
        assert "told" not in json.loads(options)["routes"][0]
    downgrade(url, "0006")
    with closing(sqlite3.connect(file)) as connection:
        [(options,)] = connection.execute("SELECT options FROM sources")
        assert json.loads(options)["routes"][0]["told"] == {"type": "object"}


def test_questions_keep_their_messages_and_who_is_logged_in_stays_so(tmp_path: Path):
    file = tmp_path / "old.db"
    url = f"sqlite+aiosqlite:///{file}"
    run_alembic(url, command.upgrade, "0044")
    with closing(sqlite3.connect(file)) as connection, connection:
        for number in (1, 2):
            insert_row(connection, "approvals", id=number, call_id=str(number))
        for number in (1, 2, 3, 4):
            insert_row(connection, "outbox", id=number)
        for question, message in ((1, 2), (2, 3), (2, 4)):
            insert_row(connection, "approval_messages", approval=question, outbox=message)
        for table in ("page_links", "page_sessions"):
            insert_row(connection, table, token_hash=f"of {table}", person=None, expires_at=7.0)
            insert_row(connection, table, token_hash=f"Ann's of {table}", person=18, expires_at=8.0)
    migrate(url)
    with closing(sqlite3.connect(file)) as connection:
        messages = connection.execute("SELECT id, approval FROM outbox ORDER BY id").fetchall()
        assert messages == [(1, None), (2, 1), (3, 2), (4, 2)]
        query = "SELECT token_hash, kind, person, expires_at FROM page_tokens ORDER BY kind, expires_at"
        assert connection.execute(query).fetchall() == [
            ("of page_links", "link", None, 7.0),
            ("Ann's of page_links", "link", 18, 8.0),
            ("of page_sessions", "session", None, 7.0),
            ("Ann's of page_sessions", "session", 18, 8.0),
        ]


def test_files_of_before_get_their_sender_and_size_and_none_is_deleted(tmp_path: Path):
    file = tmp_path / "old.db"
    url = f"sqlite+aiosqlite:///{file}"
    run_alembic(url, command.upgrade, "0032")
    with closing(sqlite3.connect(file)) as connection, connection:
        insert_row(connection, "turns", person=42)
        insert_row(connection, "messages", turn=1)
        insert_row(connection, "attachments", message=1, text="ä" * 1000)
        insert_row(connection, "attachments", message=1, data=b"\xff" * 1000)
    migrate(url)
    with closing(sqlite3.connect(file)) as connection:
        stored = connection.execute("SELECT person, size, length(text), length(data) FROM attachments")
        assert stored.fetchall() == [(42, 2000, 1000, None), (42, 1000, None, 1000)]


FILL_DISK = """
import resource, sys
from bot.db.migrate import migrate as migrate_database
from bot.db.sqlite import migrate
from bot.errors import StoreUnavailable

copy_database = migrate._copy_database

def copy_and_fill_disk(*arguments):
    copy = copy_database(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, resource.RLIM_INFINITY))
    return copy

migrate._copy_database = copy_and_fill_disk
try:
    migrate_database(sys.argv[1])
except StoreUnavailable as error:
    print(error)
"""


def test_a_disk_that_gets_full_in_the_middle_of_a_migration_is_waited_for(database_url: str):
    downgrade(database_url, "0001")
    command_line = [sys.executable, "-c", FILL_DISK, database_url]
    output = subprocess.run(command_line, capture_output=True, text=True, check=True).stdout
    assert output.startswith("the database cannot be used now: ")
    migrate(database_url)
    assert read_current_revision(parse_database_path(database_url)) == find_newest_revision()


def test_migrations_leave_no_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On a full disk it would be half a file, which no later start can read."""
    folder = Path(
        shutil.copytree(MIGRATIONS, tmp_path / "migrations", ignore=shutil.ignore_patterns("*.pyc"))
    )
    monkeypatch.setattr("bot.db.schema._MIGRATIONS_FOLDER", folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    migrate(f"sqlite+aiosqlite:///{tmp_path / 'new.db'}")
    assert [*folder.rglob("*.pyc")] == []
