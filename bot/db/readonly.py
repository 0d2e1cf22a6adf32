"""Opens a database only to look at it, beside a gateway that may be at work on it; nothing in it can be
written.

Owns the sentences for a database that is not there, is none of ours, or has another version's schema.
"""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError
from sqlalchemy.ext.asyncio import create_async_engine

from bot.db import driver
from bot.db import migrate as migrating
from bot.db.engine import Database, parse_database_path
from bot.errors import SchemaUnknown, StoreUnavailable

_PRAGMAS = (
    "PRAGMA query_only=ON",
    "PRAGMA busy_timeout=5000",
    "PRAGMA mmap_size=8589934592",  # sums over a large ledger read it in no order
    "PRAGMA temp_store=MEMORY",
)


@contextlib.asynccontextmanager
async def open_readonly(url: str) -> AsyncIterator[Database]:
    """The SQLite database at `url`; use its `reading` alone.

    Raises StoreUnavailable if there is none or it cannot be read, SchemaUnknown if its schema is not this
    version's.
    """
    file = parse_database_path(url)
    with _translate_errors(file):
        _check_schema(file)
    # Read-only by the open file itself; SQLite still shares the gateway's memory of what has not been merged
    # yet.
    address = f"sqlite+aiosqlite:///file:{quote(str(file.absolute()))}?mode=ro&uri=true"
    engine = create_async_engine(
        address,
        pool_size=4,
        pool_reset_on_return=None,
        hide_parameters=True,
        connect_args={"async_creator_fn": driver.connect},
    )
    event.listen(engine.sync_engine, "connect", _configure_connection)
    event.listen(engine.sync_engine, "begin", _begin)
    try:
        with _translate_errors(file):
            yield Database(engine)
    finally:
        await engine.dispose()


def check_readable(url: str) -> None:
    """Raise as `looked_at` does unless there is a database of this version at `url`."""
    with _translate_errors(parse_database_path(url)):
        _check_schema(parse_database_path(url))


def _check_schema(file: Path) -> None:
    if not file.is_file():
        raise StoreUnavailable(
            f"There is no database at {file}. DATABASE_URL names it; `canvasgram run` makes it."
        )
    at = migrating.read_current_revision(file)
    wanted = migrating.find_newest_revision()
    if at is None:
        raise StoreUnavailable(f"{file} is no database of Canvasgram. DATABASE_URL names the file.")
    if at > wanted:
        raise SchemaUnknown(
            f"{file} has schema {at}, this version knows up to {wanted}. Use the newer version."
        )
    if at < wanted:
        raise SchemaUnknown(
            f"{file} has schema {at}, this version reads {wanted}. `canvasgram migrate` brings it up."
        )


@contextlib.contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, DatabaseError) as error:
        known = getattr(error, "orig", error)
        if getattr(known, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
            raise  # the statement is wrong, and will be tomorrow
        raise StoreUnavailable(f"{file} cannot be read: {known}.") from error


def _configure_connection(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin(connection: Connection) -> None:
    driver.unwrap(connection).begin_with_next("BEGIN")
