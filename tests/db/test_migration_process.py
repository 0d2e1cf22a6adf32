"""The gateway migrates in a process that ends, with the messages of `canvasgram migrate`.

That a start waits for a database that is held or full: tests/kill/test_database_away.py.
"""

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

import bot
import migrations
from bot.db.migration_process import migrate_in_process
from bot.db.schema import find_newest_revision
from bot.db.sqlite.migrate import list_copies, read_current_revision
from bot.errors import SchemaUnknown, StoreUnavailable

ROOT = Path(bot.__file__).parents[1]
MIGRATE = """
import sys
from bot.db.migration_process import migrate_in_process
migrate_in_process(sys.argv[1])
print("alembic" in sys.modules)
"""
AFTER_COPY = """
import os, pathlib, signal, sys, time
def look(event, arguments):
    if event == "sqlite3.connect" and pathlib.Path(os.environ["COPY"]).stat().st_size:
        exec(os.environ["AT_COPY"])
sys.addaudithook(look)
"""


def place_old_database(file: Path, revision: str = "0001") -> str:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()
    engine.dispose()
    return f"sqlite+aiosqlite:///{file}"


def test_a_new_database_is_made_without_importing_the_migrations_libraries(tmp_path: Path):
    file = tmp_path / "new.db"
    output = subprocess.run(
        [sys.executable, "-c", MIGRATE, f"sqlite+aiosqlite:///{file}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output == "False\n"
    assert read_current_revision(file) == find_newest_revision()


def test_an_older_database_is_copied_and_migrated_once(tmp_path: Path):
    file = tmp_path / "old.db"
    url = place_old_database(file)
    copy = migrate_in_process(url)
    assert [str(path) for path in list_copies(file)] == [copy]
    assert migrate_in_process(url) is None


def test_a_newer_database_is_refused(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "newer.db")) as connection, connection:
        connection.executescript(
            "CREATE TABLE alembic_version (version_num); INSERT INTO alembic_version VALUES (9999)"
        )
    with pytest.raises(SchemaUnknown, match=f"9999.*{find_newest_revision()}.*restore the copy"):
        migrate_in_process(f"sqlite+aiosqlite:///{tmp_path / 'newer.db'}")


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_waited_for(tmp_path: Path):
    file = tmp_path / "new.db"
    url = f"sqlite+aiosqlite:///{file}"
    with limit_file_size(16_384), pytest.raises(StoreUnavailable, match="the database cannot be used now: "):
        migrate_in_process(url)
    assert read_current_revision(file) is None
    assert migrate_in_process(url) is None
    assert read_current_revision(file) == find_newest_revision()


@pytest.fixture
def copied_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An old database whose migration, once its copy was made, does what `AT_COPY` says."""
    copy = tmp_path / "old.db.before-0001.bak"
    copy.touch()
    (tmp_path / "sitecustomize.py").write_text(AFTER_COPY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setenv("COPY", str(copy))
    place_old_database(tmp_path / "old.db")
    return tmp_path / "old.db"


def test_a_process_that_is_killed_leaves_the_database_as_it_was_and_is_tried_again(
    copied_database: Path, monkeypatch: pytest.MonkeyPatch
):
    url = f"sqlite+aiosqlite:///{copied_database}"
    monkeypatch.setenv("AT_COPY", "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(StoreUnavailable, match="the process that migrates the database was ended: Killed"):
        migrate_in_process(url)
    [copy] = list_copies(copied_database)
    assert read_current_revision(copy) == "0001"  # it had got as far as that
    assert read_current_revision(copied_database) == "0001"
    monkeypatch.setenv("AT_COPY", "pass")
    assert migrate_in_process(url) == str(copy)


def test_it_ends_when_the_gateway_is_killed(copied_database: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AT_COPY", "print('copied', file=sys.stderr, flush=True); time.sleep(600)")
    command_line = [sys.executable, "-c", MIGRATE, f"sqlite+aiosqlite:///{copied_database}"]
    with subprocess.Popen(command_line, stderr=subprocess.PIPE) as gateway:
        assert gateway.stderr is not None
        assert gateway.stderr.readline() == b"copied\n"
        gateway.kill()
        assert gateway.stderr.read() == b""  # which both processes held open
    assert read_current_revision(copied_database) == "0001"


def test_what_nobody_expects_is_told_whole(tmp_path: Path):
    url = place_old_database(tmp_path / "old.db")
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(RuntimeError, match=r"(?s)the migration failed: Traceback.*0000"):
        migrate_in_process(url)
