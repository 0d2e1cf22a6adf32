"""Migrates a SQLite file. Owns the copy made before, and refuses newer schemas."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.engine import Engine

from bot.db.schema import find_newest_revision, upgrade_connection
from bot.db.sqlite.engine import translate_errors
from bot.db.sqlite.files import make_private
from bot.errors import SchemaUnknown, StoreUnavailable

_MAX_COPIES = 3


def read_current_revision(file: Path) -> str | None:
    """The revision the database is at; None for a new or empty one."""
    if not file.exists():
        return None
    with closing(sqlite3.connect(file)) as connection:
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise  # locked, for example: that is no new database
            return None
    if row:
        return str(row[0])
    return None


def is_current(file: Path) -> bool:
    """Whether the database in `file`, which is created if needed, has the schema of this version.

    Raises what `migrate_file` does.
    """
    with translate_errors():
        make_private(file)
        return read_current_revision(file) == find_newest_revision()


def migrate_file(file: Path) -> Path | None:
    """Migrate the database in `file`; returns the copy made before, if one was.

    Raises SchemaUnknown when a newer version wrote it, StoreUnavailable while it cannot be used (locked, disk
    full), SettingsRefused if it can never be written.
    """
    with translate_errors():
        return _migrate(file)


def _migrate(file: Path) -> Path | None:
    make_private(file)
    current = read_current_revision(file)
    newest = find_newest_revision()
    if current == newest:
        return None
    if current is None:
        upgrade(file)
        return None
    if current > newest:
        raise SchemaUnknown(
            f"{file} has schema {current}, this version knows schemas up to {newest}. "
            "Run the newer version, or restore the copy it made before it migrated."
        )
    copy = _copy_database(file, current)
    upgrade(file)
    _vacuum(file)
    return copy


def _copy_database(file: Path, revision: str) -> Path:
    """Let SQLite make a copy, named when it is whole, and delete all but the newest few copies."""
    copy = file.with_name(f"{file.name}.before-{revision}.bak")
    partial = copy.with_name(f"{copy.name}.partial")
    partial.unlink(missing_ok=True)  # of an attempt that was killed
    _check_free_space(file)
    make_private(partial)
    try:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(partial)) as target:
            target.execute("PRAGMA journal_mode=OFF")
            source.backup(target)
        partial.replace(copy)
    finally:
        partial.unlink(missing_ok=True)
    for old in list_copies(file)[:-_MAX_COPIES]:
        old.unlink()
    return copy


def _check_free_space(file: Path) -> None:
    """Raise StoreUnavailable unless there is space for a copy, and for the log that rewrites the file."""
    needed = 2 * file.stat().st_size
    free = shutil.disk_usage(file.parent).free
    if free < needed:
        raise StoreUnavailable(
            f"{file} is copied before it is migrated, and rewritten afterwards: that takes {needed:,} bytes "
            f"in {file.parent}, where {free:,} are free. Free some space there"
        )


def list_copies(file: Path) -> list[Path]:
    """The copies made of a database before it was migrated or replaced, the oldest first."""
    return sorted(file.parent.glob(f"{file.name}.before-*.bak"), key=lambda copy: copy.stat().st_mtime)


def delete_copies(file: Path, *, before: float, keep_newest: bool = False) -> int:
    """Delete the copies made before this moment (epoch seconds); returns how many."""
    copies = list_copies(file)[:-1] if keep_newest else list_copies(file)
    expired = [copy for copy in copies if copy.stat().st_mtime < before]
    for copy in expired:
        for suffix in ("", "-wal", "-shm"):  # side files exist if the database was too damaged to merge
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
    return len(expired)


def _vacuum(file: Path) -> None:
    """Rewrite the file without the remains of what was deleted from it earlier."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def upgrade(file: Path) -> None:
    """Migrate the database in `file` to the newest schema, without making a copy."""
    engine = create_blocking_engine(file)
    try:
        with engine.connect() as connection:
            upgrade_connection(connection)
    finally:
        engine.dispose()


def create_blocking_engine(file: Path) -> Engine:
    """An engine whose connections block the thread that uses them, and begin by taking the write lock."""
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "connect", _disable_implicit_commit)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _disable_implicit_commit(connection: Any, _record: object) -> None:
    # SQLite can roll schema changes back, but its driver would commit before each of them.
    connection.isolation_level = None
