"""A replica keeps the seat of a call that has ended, while nobody waits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest

from bot.db.engine import Database, open_database
from bot.db.transaction import Transaction
from bot.domain import TASKS_PRIORITY
from bot.replicas import shared_seats
from bot.replicas.messenger import ReplicaMessenger
from bot.replicas.shared_seats import ReplicaSeats, SeatStore, SharedSeats
from tests.replicas.seat_replicas import load_requests, run_replica, run_replicas, wait_until_empty
from tests.support.cache_warmup import wait_until
from tests.support.postgresql import PostgresServer


@pytest.fixture
def url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_database() as url:
        yield url


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No replica looks by itself: what it needs to know is told, or it never learns of it."""
    monkeypatch.setattr(shared_seats, "LOOK_SECONDS", 600.0)


class TellingDatabase:
    """Another replica's message comes after each commit, before who committed goes on."""

    tell: Callable[[], object]

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Transaction]:
        async with self._database.transaction(durable=durable) as tx:
            yield tx
        self.tell()


async def take_turns(seats: Sequence[SharedSeats]) -> None:
    """Let the replicas make calls in turn, each once the one before has ended."""
    async with asyncio.timeout(60):
        for caller in (*seats, *seats) * 5:
            async with caller.hold("chat:1"):
                pass
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(("seat_count", "replica_count"), [(4, 1), (1, 2)])
async def test_a_seat_that_nobody_uses_is_taken_before_anybody_looks_by_itself(
    url: str, quiet: None, seat_count: int, replica_count: int
):
    """It is the replica's own, or another one keeps it."""
    async with run_replicas(url, replica_count, seat_count) as replicas:
        await take_turns([replica.seats for replica in replicas])


async def test_a_seat_that_is_free_is_taken_before_anybody_looks_by_itself(url: str, quiet: None):
    async with run_replica(url, 4) as replica:
        replica.seats.leave()
        await take_turns([replica.seats])


async def test_calls_in_a_row_take_the_kept_seat_without_the_database(url: str, quiet: None):
    async with run_replica(url, 4) as replica:
        for _ in range(30):
            async with replica.seats.hold("A"):
                assert (replica.seats.in_use, len(replica.seats.holders)) == (1, 1)
            await load_requests(replica.database)  # while which the seat would go back
        assert (replica.seats.in_use, replica.seats.queue_length, replica.seats.holders) == (0, 0, {})
        assert replica.seats.has_free_seat
        [kept] = await load_requests(replica.database)
        assert (kept.lane, kept.seat) == ("A", 1)
        assert kept.number < 10  # of one call in thirty, unless a notification was just on its way
        async with replica.seats.hold("B", TASKS_PRIORITY):
            [request] = await load_requests(replica.database)
            assert (request.lane, request.priority) == ("B", TASKS_PRIORITY)
        replica.seats.leave()
        await wait_until_empty(replica.database)
        async with replica.seats.hold("C"):
            pass
        await wait_until_empty(replica.database)


async def test_a_call_takes_no_kept_seat_before_one_that_waits(url: str, quiet: None):
    async with run_replica(url, 1) as replica:
        running = replica.call("A")
        await running.began.wait()
        await replica.pause()
        waiting = [replica.call(lane) for lane in "BC"]
        await wait_until(lambda: replica.seats.queue_length == 2)
        await running.end()
        waiting.append(replica.call("D"))
        await wait_until(lambda: replica.seats.queue_length == 3)
        for call in waiting:
            await call.cancel()


async def test_others_see_within_a_second_who_has_a_kept_seat_and_that_it_is_free(url: str):
    async with run_replicas(url, 2, 1) as [first, second]:
        async with first.seats.hold("A"):
            pass
        async with first.seats.hold("B"):
            assert [call.lane for call in first.seats.holders.values()] == ["B"]
            while [request.lane for request in await load_requests(first.database)] != ["B"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await wait_until_empty(first.database)
        await second.seats.refresh()
        assert second.seats.has_free_seat


async def test_a_replica_keeps_nothing_when_its_session_was_lost(
    url: str, quiet: None, postgresql_server: PostgresServer
):
    async with run_replica(url, 1) as replica:
        async with replica.seats.hold("A"):
            pass
        postgresql_server.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"
        )
        await wait_until_empty(replica.database)


async def test_a_seat_is_not_kept_if_calls_begin_to_wait_while_that_is_looked_at(url: str, quiet: None):
    async with open_database(url) as database:
        telling_database = TellingDatabase(database)
        messenger = ReplicaMessenger(database)
        store = SeatStore(cast("Database", telling_database), messenger, lambda: True)
        replica_seats = ReplicaSeats(store)
        seats = replica_seats.add("main", 1)
        telling_database.tell = partial(replica_seats.build_handlers()["seat_wanted"], "main")
        async with asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(replica_seats.run())
            async with seats.hold("A"):
                pass
            await wait_until_empty(database)
            keeper.cancel()
