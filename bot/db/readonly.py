"""Opens a database read-only, beside a gateway that may be using it.

Owns the messages for a database that does not exist, is none of Canvasgram, or has another version's schema.
"""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.exc import DatabaseError

from bot.db.connections import create_engines
from bot.db.engine import Database, parse_database_path
from bot.db.migrate import find_newest_revision, read_current_revision
from bot.errors import SchemaUnknown, StoreUnavailable

_PRAGMAS = (
    "PRAGMA query_only=ON",
    "PRAGMA mmap_size=8589934592",  # 8 GiB: sums over a large ledger read it in random order
    "PRAGMA temp_store=MEMORY",
)


@contextlib.asynccontextmanager
async def open_readonly(url: str) -> AsyncIterator[Database]:
    """Open the SQLite database at `url`; only its `read_transaction` may be used.

    Raises StoreUnavailable if there is none or it cannot be read, SchemaUnknown if it has the schema of
    another version.
    """
    file = parse_database_path(url)
    with _translate_errors(file):
        _check_schema(file)
    # The file itself is opened read-only; SQLite still shares the gateway's index of the write-ahead log, so
    # that what is not merged yet is read as well.
    database = Database(create_engines(f"file:{quote(str(file.absolute()))}?mode=ro", _PRAGMAS))
    try:
        with _translate_errors(file):
            yield database
    finally:
        await database.close()


def check_readable(url: str) -> None:
    """Raise as `open_readonly` does unless there is a database of this version at `url`."""
    with _translate_errors(parse_database_path(url)):
        _check_schema(parse_database_path(url))


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
            f"{file} has schema {current}, this version reads {newest}. `canvasgram migrate` brings it up."
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
