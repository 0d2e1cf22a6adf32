"""Several replicas take the seats of one endpoint from one queue on a PostgreSQL server."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from bot.db.engine import Database
from bot.db.postgresql.engine import open_server
from bot.db.queues import seat_requests
from bot.domain import PEOPLE_PRIORITY, TASKS_PRIORITY
from bot.errors import StoreUnavailable
from bot.replicas import shared_seats
from bot.replicas.shared_seats import SharedSeats
from tests.replicas.seat_replicas import load_requests, run_replica, run_replicas, wait_until_empty
from tests.support.cache_warmup import wait_until
from tests.support.postgresql import PostgresServer

NO_LOOK_SECONDS = 6000.0
PATIENCE = 300.0  # seconds, for a few dozens of calls that each go to the server


@pytest.fixture
def url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_database() as url:
        yield url


async def pause_in_transaction(database: Database, seats: SharedSeats) -> None:
    """Hold the queue's lock until another replica's call has had a seat."""
    async with database.transaction() as tx:
        async with seats.hold("A"):
            pass
        await seat_requests.load(tx, "main")


async def test_three_replicas_use_all_of_four_seats_for_everybody(url: str):
    """In which order is shown by test_seat_plan.py."""
    running = 0
    all_run = asyncio.Event()
    served = set[str]()

    async def call_always(seats: SharedSeats, lane: str) -> None:
        nonlocal running
        while True:
            async with seats.hold(lane):
                running += 1
                assert running <= 4
                if running == 4:
                    all_run.set()
                await all_run.wait()
                running -= 1
            served.add(lane)

    async with run_replicas(url, 3, 4) as replicas, asyncio.TaskGroup() as tasks:
        callers = [
            tasks.create_task(call_always(replicas[number % 3].seats, f"chat:{number}"))
            for number in range(12)
        ]
        await wait_until(lambda: len(served) == 12)
        for caller in callers:
            caller.cancel()
        await wait_until_empty(replicas[0].database)


async def test_a_seat_goes_from_replica_to_replica_without_a_pause(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_seats, "LOOK_SECONDS", NO_LOOK_SECONDS)  # all that is needed is told
    monkeypatch.setattr(shared_seats, "RETRY_SECONDS", NO_LOOK_SECONDS)  # only while the database is away
    turns: list[str] = []

    async def call_often(seats: SharedSeats, lane: str) -> None:
        for _ in range(8):
            async with seats.hold(lane):
                turns.append(lane)

    async with run_replicas(url, 2, 1) as [first, second], asyncio.timeout(PATIENCE):
        async with asyncio.TaskGroup() as tasks:
            for lane in "AB":
                tasks.create_task(call_often(first.seats, lane))
                tasks.create_task(call_often(second.seats, lane.lower()))
        assert len(turns) == 32


async def test_the_seats_of_a_killed_replica_come_back(url: str):
    async with run_replicas(url, 2, 2) as [first, second]:
        calls = [first.call(lane) for lane in "AB"]
        for call in calls:
            await call.began.wait()
        waiting = second.call("C")
        await wait_until(lambda: second.seats.queue_position("C") == 0)
        assert [call.lane for call in second.seats.holders.values()] == ["A", "B"]
        assert (second.seats.in_use, second.seats.queue_length) == (0, 1)
        await first.kill()
        await waiting.began.wait()
        assert second.seats.has_free_seat
        assert [request.lane for request in await load_requests(second.database)] == ["C"]
        for call in (*calls, waiting):
            await call.end()
        await wait_until_empty(second.database)


async def test_a_replica_that_is_paused_keeps_no_seat_that_it_does_not_use(url: str):
    async with run_replicas(url, 2, 1) as [first, second]:
        call = first.call("A")
        await call.began.wait()
        paused_calls = [second.call(lane) for lane in "BC"]
        await wait_until(lambda: second.seats.queue_position("C") == 1)
        await second.pause()
        waiting = first.call("D")
        await wait_until(lambda: first.seats.queue_position("D") == 2)
        await call.end()
        await waiting.began.wait()
        assert [call.lane for call in first.seats.list_waiting()] == ["B", "C"]
        for call in (*paused_calls, waiting):
            await call.cancel()


async def test_a_replica_that_is_paused_while_it_changes_the_queue_holds_nobody_up(url: str):
    async with (
        run_replica(url, 1) as replica,
        open_server(url, lock=seat_requests.LOCK) as paused_database,
    ):
        with pytest.raises(StoreUnavailable):
            await pause_in_transaction(paused_database, replica.seats)


async def test_a_call_that_waits_for_the_server_can_be_cancelled_and_loses_no_seat(
    url: str, postgresql_server: PostgresServer
):
    async with run_replicas(url, 2, 2) as [first, second]:
        held = first.call("A")
        await held.began.wait()
        async with first.seats.hold("X"):
            pass  # its seat is kept, and nobody is certain of it while the server is away
        postgresql_server.stop(abruptly=True)
        waiting = first.call("B")
        cancelled = second.call("C")
        await asyncio.sleep(0)
        await cancelled.cancel()
        assert not waiting.began.is_set()
        postgresql_server.start()
        await waiting.began.wait()
        last = second.call("D")
        await wait_until(lambda: second.seats.queue_position("D") == 0)
        assert sorted(call.lane for call in second.seats.holders.values()) == ["A", "B"]
        await held.end()
        await last.began.wait()
        await waiting.end()
        await last.end()
        await wait_until_empty(first.database)


async def test_seats_are_neither_exceeded_nor_lost_however_calls_are_cancelled(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shared_seats, "LOOK_SECONDS", NO_LOOK_SECONDS)  # all that is needed is told
    choices = random.Random(17)
    running = Counter[bool]()

    async def call_once(seats: SharedSeats, lane: str, priority: int) -> None:
        async with seats.hold(lane, priority):
            running[priority == PEOPLE_PRIORITY] += 1
            try:
                assert running.total() <= 3
                assert running[False] <= 2
                await asyncio.sleep(choices.choice([0, 0.002, 0.01]))
            finally:
                running[priority == PEOPLE_PRIORITY] -= 1

    async with run_replicas(url, 3, 3) as replicas:
        calls: list[asyncio.Task[None]] = []
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            for _ in range(80):
                seats = choices.choice(replicas).seats
                priority = choices.choice([PEOPLE_PRIORITY, TASKS_PRIORITY])
                calls.append(tasks.create_task(call_once(seats, choices.choice("AABCDE"), priority)))
                await asyncio.sleep(choices.choice([0, 0, 0.003]))
                if choices.random() < 0.4:
                    choices.choice(calls).cancel()
        for replica in replicas:
            replica.seats.leave()
        await wait_until_empty(replicas[0].database)
        await wait_until(lambda: all(replica.seats.has_free_seat for replica in replicas))
