"""A database on a PostgreSQL server with one table, `words`."""

from collections.abc import AsyncIterator, Iterator

import pytest

from bot.db.engine import Database, open_database
from tests.support.postgresql import PostgresServer


@pytest.fixture
def server_url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_bare_database() as url:
        yield url


@pytest.fixture
async def server_database(server_url: str) -> AsyncIterator[Database]:
    async with open_database(server_url) as database:
        async with database.transaction() as tx:
            await tx.exec_driver_sql("CREATE TABLE words (word text UNIQUE)")
        yield database
