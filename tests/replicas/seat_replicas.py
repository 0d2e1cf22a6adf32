"""Replicas that take seats from one queue on a PostgreSQL server, and do nothing else."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bot.db.engine import Database, open_database
from bot.db.postgresql.engine import open_server
from bot.db.postgresql.session_locks import open_session_locks
from bot.db.queues import seat_requests
from bot.db.schema import find_newest_revision
from bot.db.shares import OwnShares
from bot.db.transaction import Transaction
from bot.db.usage import process_lives
from bot.replicas.agreement import ReplicaIdentity
from bot.replicas.messenger import ReplicaMessenger
from bot.replicas.share_keeper import ReplicaCallbacks, ShareKeeper
from bot.replicas.shared_seats import ReplicaSeats, SeatStore, SharedSeats
from tests.support.cache_warmup import wait_until


class NoWork:
    """A replica that holds shares and does nothing for them."""

    def list_busy_shares(self) -> Collection[int]:
        return ()

    def drain(self) -> None:
        pass

    async def take_over(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        pass

    async def give_away(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        pass

    async def begin(self) -> None:
        pass

    async def abandon(self, numbers: Collection[int]) -> None:
        pass


class HeldCall:
    """A call that holds its seat until it is ended."""

    task: "asyncio.Task[None]"

    def __init__(self, seats: SharedSeats, lane: str) -> None:
        self._seats = seats
        self._lane = lane
        self._ended = asyncio.Event()
        self.began = asyncio.Event()

    async def run(self) -> None:
        async with self._seats.hold(self._lane):
            self.began.set()
            await self._ended.wait()

    async def end(self) -> None:
        self._ended.set()
        await self.task

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@dataclass
class Replica:
    """A process of the gateway, as far as seats go; `kill` ends it as `kill -9` does, its calls excepted."""

    tasks: asyncio.TaskGroup
    database: Database
    seats: SharedSeats
    seats_task: "asyncio.Task[None]"
    keeper_task: "asyncio.Task[None]"

    def call(self, lane: str) -> "HeldCall":
        call = HeldCall(self.seats, lane)
        call.task = self.tasks.create_task(call.run())
        return call

    async def pause(self) -> None:
        """Do nothing more, with the session that stands for the replica alive."""
        self.seats_task.cancel()
        await asyncio.wait([self.seats_task])

    async def kill(self) -> None:
        await self.pause()
        self.keeper_task.cancel()
        await asyncio.wait([self.keeper_task])


@asynccontextmanager
async def run_replica(url: str, count: int) -> AsyncIterator[Replica]:
    async with open_database(url) as database, open_server(url, lock=seat_requests.LOCK) as seat_database:
        async with database.transaction() as tx:
            life = await process_lives.begin(tx, began_at=0.0)
        messenger = ReplicaMessenger(database)
        messenger.life = life
        own_shares = OwnShares()
        replica_seats = ReplicaSeats(SeatStore(seat_database, messenger, own_shares.is_confirmed))
        seats = replica_seats.add("main", count)
        messenger.handlers = replica_seats.build_handlers()
        callbacks = ReplicaCallbacks(NoWork(), messenger.receive, replica_seats.note_holders)
        keeper = ShareKeeper(
            database,
            own_shares,
            partial(open_session_locks, url),
            callbacks,
            ReplicaIdentity(life, find_newest_revision()),
        )
        async with asyncio.TaskGroup() as tasks:
            replica = Replica(
                tasks,
                database,
                seats,
                tasks.create_task(replica_seats.run()),
                tasks.create_task(keeper.run()),
            )
            await wait_until(own_shares.is_confirmed)
            yield replica
            await replica.kill()


@asynccontextmanager
async def run_replicas(url: str, replica_count: int, seat_count: int) -> AsyncIterator[list[Replica]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(run_replica(url, seat_count)) for _ in range(replica_count)]


async def load_requests(database: Database) -> list[seat_requests.SeatRequest]:
    async with database.read_transaction() as tx:
        return await seat_requests.load(tx, "main")


async def wait_until_empty(database: Database) -> None:
    async with asyncio.timeout(60):
        while await load_requests(database):  # noqa: ASYNC110  # other replicas change it
            await asyncio.sleep(0.02)
