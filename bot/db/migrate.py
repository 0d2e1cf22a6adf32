"""Brings a database to the schema of this version; owns the copy made before and the refusal of newer
schemas.

Alembic is imported only when there is something to do, so that a gateway whose schema is current starts fast.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event

import migrations
from bot.db.engine import make_private, parse_database_path
from bot.errors import SchemaUnknown

_MIGRATIONS_FOLDER = Path(migrations.__file__).parent
_MAX_COPIES = 3


def find_newest_revision() -> str:
    """The revision this version works with; revisions are numbered in the names of their files."""
    return max(file.name.split("_")[0] for file in (_MIGRATIONS_FOLDER / "versions").glob("[0-9]*.py"))


def read_current_revision(file: Path) -> str | None:
    """The revision the database is at; None for a new or empty one."""
    if not file.exists():
        return None
    with closing(sqlite3.connect(file)) as connection:
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError:
            return None
    if row:
        return str(row[0])
    return None


def migrate(url: str) -> str | None:
    """Migrate the SQLite database at `url`; returns the path of the copy made before, if one was.

    Raises SchemaUnknown when a newer version wrote it.
    """
    file = parse_database_path(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    make_private(file)
    at = read_current_revision(file)
    wanted = find_newest_revision()
    if at == wanted:
        return None
    if at is not None and at > wanted:
        raise SchemaUnknown(
            f"{file} has schema {at}, this version knows schemas up to {wanted}. "
            "Run the newer version, or restore the copy it made before it migrated."
        )
    copy = _copy_database(file, at) if at is not None else None
    upgrade(url)
    if copy is not None:
        _vacuum(file)
    if copy:
        return str(copy)
    return None


def _copy_database(file: Path, revision: str) -> Path:
    """A whole copy beside the file, made by SQLite itself; only the newest few are kept."""
    copy = file.with_name(f"{file.name}.before-{revision}.bak")
    make_private(copy)
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    for old in list_copies(file)[:-_MAX_COPIES]:
        old.unlink()
    return copy


def list_copies(file: Path) -> list[Path]:
    """The copies made of a database before it was migrated or replaced, the oldest first."""
    return sorted(file.parent.glob(f"{file.name}.before-*.bak"), key=lambda one: one.stat().st_mtime)


def delete_copies(file: Path, *, before: float) -> None:
    """Delete the copies made before this moment (epoch seconds)."""
    for copy in list_copies(file):
        if copy.stat().st_mtime < before:
            for suffix in ("", "-wal", "-shm"):  # of a database that was too damaged to be merged
                Path(f"{copy}{suffix}").unlink(missing_ok=True)


def _vacuum(file: Path) -> None:
    """Write the file anew: what was deleted from it in former times is left out."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def upgrade(url: str) -> None:
    """Bring the SQLite database at `url` to the newest schema, without a copy."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS_FOLDER).replace("%", "%%"))
    engine = create_engine(url.replace("+aiosqlite", ""))
    event.listen(engine, "connect", _disable_implicit_commit)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
    finally:
        engine.dispose()


def _disable_implicit_commit(connection: Any, _record: object) -> None:
    # SQLite can undo schema changes, but its driver would commit before each of them.
    connection.isolation_level = None
