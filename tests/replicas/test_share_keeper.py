"""Replicas on one PostgreSQL server divide the shares, and take over those of one that is gone."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bot.db.engine import Database, open_database
from bot.db.postgresql.session_locks import SessionLocks, open_session_locks
from bot.db.schema import find_newest_revision
from bot.db.shares import OwnShares
from bot.db.transaction import Transaction
from bot.db.usage import process_lives
from bot.domain import SHARE_COUNT
from bot.errors import SettingsRefused, StoreUnavailable
from bot.replicas.agreement import ReplicaIdentity, digest_settings
from bot.replicas.share_keeper import LEADING_SECONDS, ReplicaCallbacks, ShareKeeper
from tests.support.cache_warmup import wait_until
from tests.support.postgresql import PostgresServer

END_LISTENERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')
"""


SCHEMA = find_newest_revision()


class RecordedWork:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.busy: set[int] = set()
        self.taken_over: list[int] = []
        self.given_away: list[int] = []
        self.begun = 0
        self.abandoned: list[int] = []
        self.is_draining = False

    def list_busy_shares(self) -> Collection[int]:
        return self.busy

    async def take_over(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        self.taken_over += numbers

    async def give_away(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        self.given_away += numbers

    async def begin(self) -> None:
        self.begun += 1

    async def abandon(self, numbers: Collection[int]) -> None:
        self.abandoned += numbers

    def drain(self) -> None:
        self.is_draining = True


class Replica:
    def __init__(
        self, keeper: ShareKeeper, own_shares: OwnShares, work: RecordedWork, task: "asyncio.Task[None]"
    ) -> None:
        self.keeper = keeper
        self.own_shares = own_shares
        self.work = work
        self.task = task
        self.sessions = 0
        self.can_connect = asyncio.Event()
        self.can_connect.set()

    @property
    def shares(self) -> set[int]:
        return set(self.own_shares.holds)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@asynccontextmanager
async def run_replica(
    database: Database,
    url: str,
    life: int | None = None,
    schema: str = SCHEMA,
    leading_seconds: float = LEADING_SECONDS,
    **values: object,
) -> AsyncIterator[Replica]:
    if life is None:
        async with database.transaction() as tx:
            life = await process_lives.begin(tx, began_at=0.0)
    work = RecordedWork()
    own_shares = OwnShares()
    callbacks = ReplicaCallbacks(work, lambda payload: None, lambda holders: None)

    @asynccontextmanager
    async def open_locks() -> AsyncIterator[SessionLocks]:
        await replica.can_connect.wait()
        async with open_session_locks(url) as locks:
            replica.sessions += 1
            yield locks

    identity = ReplicaIdentity(life, schema, digest_settings(values))
    keeper = ShareKeeper(
        database, own_shares, open_locks, callbacks, identity, leading_seconds=leading_seconds
    )
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(keeper, own_shares, work, tasks.create_task(keeper.run()))
        yield replica
        await replica.end()


async def test_replicas_divide_the_shares_and_take_over(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database, run_replica(database, url) as first:
            await wait_until(lambda: len(first.shares) == SHARE_COUNT)
            await wait_until(lambda: first.keeper.leadership.is_granted)
            first.work.busy = {3}
            async with run_replica(database, url) as second:
                await wait_until(lambda: len(first.shares) == len(second.shares) == SHARE_COUNT // 2)
                assert 3 in first.shares
                assert not first.shares & second.shares
                assert not second.keeper.leadership.is_granted
                await first.end()
                await wait_until(lambda: len(second.shares) == SHARE_COUNT)
                await wait_until(lambda: second.keeper.leadership.is_granted)
                assert sorted(second.work.taken_over) == list(range(SHARE_COUNT))
                assert sorted(first.work.abandoned) == sorted(first.work.given_away)


async def test_a_session_that_the_server_still_takes_for_alive_is_ended(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database:
            async with database.transaction() as tx:
                life = await process_lives.begin(tx, began_at=0.0)
            with pytest.raises(StoreUnavailable):  # noqa: PT012  # the session is lost in the block
                async with open_session_locks(url) as earlier:
                    await earlier.join(life)
                    await earlier.try_take(range(SHARE_COUNT))
                    async with run_replica(database, url, life) as replica:
                        await wait_until(lambda: len(replica.shares) == SHARE_COUNT)
                    await earlier.list_holders()


async def test_a_replica_keeps_its_work_when_only_its_session_was_lost(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database, run_replica(database, url) as replica:
            await wait_until(lambda: len(replica.shares) == SHARE_COUNT)
            holds = dict(replica.own_shares.holds)
            async with database.transaction() as tx:
                await tx.exec_driver_sql(END_LISTENERS)
            await wait_until(lambda: not replica.own_shares.is_confirmed() or replica.sessions > 1)
            await wait_until(lambda: replica.own_shares.is_confirmed() and replica.sessions > 1)
            assert replica.own_shares.holds == holds
            assert replica.work.abandoned == []
            assert len(replica.work.taken_over) == SHARE_COUNT


async def test_a_replica_whose_session_fell_silent_leads_only_until_another_may(
    postgresql_server: PostgresServer,
):
    leading_seconds = 0.1
    with postgresql_server.open_database() as url:
        async with (
            open_database(url) as database,
            run_replica(database, url, leading_seconds=leading_seconds) as replica,
        ):
            await wait_until(lambda: len(replica.shares) == SHARE_COUNT)
            await wait_until(lambda: replica.keeper.leadership.is_granted)
            replica.can_connect.clear()
            async with database.transaction() as tx:
                await tx.exec_driver_sql("LOCK TABLE alembic_version")  # a look waits for it
                await asyncio.sleep(2 * leading_seconds)
                assert replica.keeper.leadership.is_granted
                await tx.exec_driver_sql(END_LISTENERS)
            await wait_until(lambda: not replica.keeper.leadership.is_granted)


async def test_a_replica_gives_all_to_others_once_the_schema_is_of_another_version(
    postgresql_server: PostgresServer,
):
    with postgresql_server.open_database() as url:
        async with open_database(url) as database, run_replica(database, url) as old:
            await wait_until(lambda: len(old.shares) == SHARE_COUNT)
            old.work.busy = {3}
            async with database.transaction() as tx:
                await tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
            await wait_until(lambda: old.shares == {3} and old.work.is_draining)
            assert old.own_shares.other_schema == "9999"
            async with run_replica(database, url, schema="9999") as new:
                await wait_until(lambda: new.shares == set(range(SHARE_COUNT)) - {3})
                await wait_until(lambda: new.keeper.leadership.is_granted)
                old.work.busy = set()
                await wait_until(lambda: new.shares == set(range(SHARE_COUNT)))
                assert new.own_shares.other_schema is None


async def test_a_replica_names_the_settings_in_which_it_differs_and_refuses_another_bot(
    postgresql_server: PostgresServer, caplog: pytest.LogCaptureFixture
):
    settings: dict[str, Any] = {"bot": 1, "ACCESS": "pairing", "ADMIN_IDS": [7, 8], "MODEL_SEATS": 4}
    with postgresql_server.open_database() as url:
        async with open_database(url) as database, run_replica(database, url, **settings) as first:
            await wait_until(lambda: len(first.shares) == SHARE_COUNT)
            async with run_replica(database, url, **settings) as second:
                await wait_until(lambda: len(second.shares) == SHARE_COUNT // 2)
            assert "differ" not in caplog.text
            other = settings | {"MODEL_SEATS": 8, "ADMIN_IDS": [7]}
            async with run_replica(database, url, **other) as third:
                await wait_until(lambda: len(third.shares) == SHARE_COUNT // 2)
                await wait_until(
                    lambda: "ADMIN_IDS, MODEL_SEATS differ from those of a gateway" in caplog.text
                )
            with pytest.RaisesGroup(pytest.RaisesExc(SettingsRefused, match="another bot")):
                async with run_replica(database, url, **settings | {"bot": 2}) as fourth:
                    await asyncio.wait([fourth.task])
            await wait_until(lambda: len(first.shares) == SHARE_COUNT)
