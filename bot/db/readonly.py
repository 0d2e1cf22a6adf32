"""Opens a database read-only, beside a gateway that may be using it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.db.database_url import is_postgresql, parse_database_path
from bot.db.engine import Database
from bot.db.sqlite.readonly import check_file, open_file
from tools.threads import run_in_thread


@asynccontextmanager
async def open_readonly(url: str) -> AsyncIterator[Database]:
    """Open the database at `url`; only its `read_transaction` and `long_read_transaction` may be used.

    Raises StoreUnavailable if there is none or it cannot be read, SchemaUnknown if it has the schema of
    another version.
    """
    if is_postgresql(url):
        from bot.db.postgresql.engine import open_server

        await run_in_thread(check_readable, url)
        async with open_server(url) as server:
            yield server
        return
    async with open_file(parse_database_path(url)) as database:
        yield database


def check_readable(url: str) -> None:
    """Raise as `open_readonly` does unless there is a database of this version at `url`."""
    if is_postgresql(url):
        from bot.db.postgresql.migrate import check_server

        check_server(url)
        return
    check_file(parse_database_path(url))
