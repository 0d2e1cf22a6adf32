"""Opens a SQLite file read-only, beside a gateway that may be using it.

Owns the messages for a database that does not exist, is none of Canvasgram, or has another version's schema.
"""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.exc import DatabaseError

from bot.db.schema import find_newest_revision
from bot.db.sqlite.connections import create_engines
from bot.db.sqlite.engine import SqliteDatabase
from bot.db.sqlite.migrate import read_current_revision
from bot.errors import SchemaUnknown, StoreUnavailable

_PRAGMAS = (
    "PRAGMA query_only=ON",
    "PRAGMA mmap_size=8589934592",  # 8 GiB: sums over a large ledger read it in random order
    "PRAGMA temp_store=MEMORY",
)


@contextlib.asynccontextmanager
async def open_file(file: Path) -> AsyncIterator[SqliteDatabase]:
    """Open the database in `file`; it can only be read.

    Raises StoreUnavailable if there is none or it cannot be read, SchemaUnknown if it has the schema of
    another version.
    """
    check_file(file)
    # The file itself is opened read-only; SQLite still shares the gateway's index of the write-ahead log, so
    # that what is not merged yet is read as well.
    database = SqliteDatabase(create_engines(_build_readonly_uri(file), _PRAGMAS))
    try:
        with _translate_errors(file):
            yield database
    finally:
        await database.close()


def _build_readonly_uri(file: Path) -> str:
    return f"file:{quote(str(file.absolute()))}?mode=ro"


def check_file(file: Path) -> None:
    """Raise as `open_file` does unless there is a database of this version in `file`."""
    with _translate_errors(file):
        _check_schema(file)


def _check_schema(file: Path) -> None:
    if not file.is_file():
        raise StoreUnavailable(
            f"There is no database at {file}. DATABASE_URL names it; `canvasgram run` makes it, "
            "and so does `canvasgram migrate`."
        )
    current = read_current_revision(file)
    newest = find_newest_revision()
    if current is None:
        raise StoreUnavailable(f"{file} is no database of Canvasgram. DATABASE_URL names the file.")
    if current > newest:
        raise SchemaUnknown(
            f"{file} has schema {current}, this version knows up to {newest}. Use the newer version."
        )
    if current < newest:
        raise SchemaUnknown(
            f"{file} has schema {current}, this version reads {newest}. "
            "Restart the gateway, which migrates it."
        )


@contextlib.contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, DatabaseError) as error:
        sqlite_error = getattr(error, "orig", error)  # SQLAlchemy wraps it
        if getattr(sqlite_error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
            raise  # the statement itself is wrong: waiting does not help
        raise StoreUnavailable(f"{file} cannot be read: {sqlite_error}.") from error
