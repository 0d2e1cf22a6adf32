"""A server that is away, restarted or lost in the middle of a commit."""

import asyncio
import contextlib
from typing import Literal

import pytest

from bot.db.engine import Database, open_database
from bot.errors import SettingsRefused, StoreUnavailable
from tests.db.postgresql.test_engine import count, insert
from tests.support.postgresql import PostgresServer
from tests.support.postgresql_proxies import BreakingConnections, TransactionPooler, listen


async def test_after_a_restart_of_the_server_reads_and_writes_go_on(
    server_database: Database, postgresql_server: PostgresServer
):
    await insert(server_database, "before")
    assert await count(server_database) == 1
    postgresql_server.stop()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await insert(server_database, "meanwhile")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await count(server_database)
    postgresql_server.start()
    assert await count(server_database) == 1
    await insert(server_database, "after")
    postgresql_server.stop(abruptly=True)
    postgresql_server.start()
    await insert(server_database, "after the second")
    assert await count(server_database) == 3


async def test_a_password_that_is_changed_meanwhile_is_waited_for(
    server_url: str, postgresql_server: PostgresServer
):
    postgresql_server.execute("DROP ROLE IF EXISTS ben; CREATE ROLE ben LOGIN PASSWORD 'old'")
    async with open_database(server_url.replace("postgres@", "ben:old@")) as database:
        async with database.transaction() as tx:
            await tx.exec_driver_sql("SELECT 1")
        postgresql_server.execute("ALTER ROLE ben PASSWORD 'new'")
        postgresql_server.stop()
        postgresql_server.start()
        with pytest.raises(StoreUnavailable, match="password authentication failed"):
            await count(database)
        postgresql_server.execute("ALTER ROLE ben PASSWORD 'old'")
        async with database.transaction() as tx:
            await tx.exec_driver_sql("SELECT 1")


async def test_first_reads_at_once_wait_for_a_server_that_answers_late(
    server_database: Database, server_url: str, postgresql_server: PostgresServer
):
    folder = postgresql_server.folder
    async with (
        listen(folder / "b", BreakingConnections(folder).serve) as host,
        open_database(server_url.replace(str(folder), host)) as database,
        asyncio.TaskGroup() as tasks,
    ):
        counting = [tasks.create_task(count(database)) for _ in range(3)]
    assert [task.result() for task in counting] == [0, 0, 0]


@pytest.mark.parametrize(("lost", "is_stored"), [("request", False), ("answer", True)])
async def test_a_commit_whose_answer_is_lost_is_neither_repeated_nor_taken_for_lost(
    server_database: Database,
    server_url: str,
    postgresql_server: PostgresServer,
    lost: Literal["request", "answer"],
    is_stored: bool,
):
    connections = BreakingConnections(postgresql_server.folder)
    folder = postgresql_server.folder
    async with (
        listen(folder / "b", connections.serve) as host,
        open_database(server_url.replace(str(folder), host)) as database,
    ):
        await insert(database, "first")

        async def write() -> None:
            async with database.transaction() as tx:
                await tx.exec_driver_sql("INSERT INTO words VALUES ('second')")
                connections.lose = lost

        if is_stored:
            await write()
        else:
            with pytest.raises(StoreUnavailable):
                await write()
    assert await count(server_database) == 1 + is_stored


async def test_writes_beside_a_commit_without_an_answer_are_refused_and_do_not_wait(
    server_database: Database, server_url: str, postgresql_server: PostgresServer
):
    async def write() -> None:
        async with database.transaction() as tx:
            await tx.exec_driver_sql("INSERT INTO words VALUES ('lost')")
            has_begun.set()
            await is_killed.wait()

    async def lose_commit() -> None:
        with pytest.raises(StoreUnavailable):
            await write()

    async def insert_beside() -> None:
        with pytest.raises(StoreUnavailable, match="did not answer a commit"):
            await insert(database, "beside")

    has_begun = asyncio.Event()
    is_killed = asyncio.Event()
    async with open_database(server_url, stop=asyncio.Event()) as database, asyncio.TaskGroup() as tasks:
        tasks.create_task(lose_commit())
        await has_begun.wait()
        waiting = tasks.create_task(insert_beside())
        await asyncio.sleep(0)
        postgresql_server.stop(abruptly=True)
        is_killed.set()
        async with asyncio.timeout(60):
            await waiting
            await insert_beside()
        postgresql_server.start()
    assert await count(server_database) == 0


async def test_a_pooler_that_shares_sessions_is_refused(server_url: str, postgresql_server: PostgresServer):
    folder = postgresql_server.folder
    async with listen(folder / "p", TransactionPooler(folder).serve) as host:
        with pytest.raises(SettingsRefused, match="PgBouncer does in transaction mode"):
            async with open_database(server_url.replace(str(folder), host), for_gateway=True):
                pass


async def test_what_need_not_be_durable_survives_the_death_of_the_server(
    server_url: str, postgresql_server: PostgresServer
):
    async with open_database(server_url) as database:
        async with database.transaction() as tx:
            await tx.exec_driver_sql("CREATE TABLE words (word text)")
        async with database.transaction(durable=False) as tx:
            await tx.exec_driver_sql("INSERT INTO words VALUES ('kept')")
        postgresql_server.stop(abruptly=True)
        postgresql_server.start()
        while True:
            with contextlib.suppress(StoreUnavailable):
                assert await count(database) == 1
                break
