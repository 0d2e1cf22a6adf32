"""The seats of one endpoint, of which all replicas take: a queue that is kept in the database.

Never more calls than seats go on at a time, whichever replica makes them. A replica's seats come back to the
others once its session is lost for good, and it takes none while that is uncertain.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bot.db.engine import Database
from bot.db.queues import seat_requests
from bot.db.queues.seat_requests import SeatRequest
from bot.db.shares import LockHolders
from bot.db.transaction import Transaction
from bot.domain import PEOPLE_PRIORITY
from bot.errors import StoreUnavailable
from bot.llm.seats import SeatCall
from bot.replicas.messenger import ReplicaMessenger
from bot.replicas.seat_plan import TAKE_SECONDS, OwnCall, ReplicaView, list_waiting, plan_seats

LOOK_SECONDS = 1.0  # between looks while calls go on or wait here, for what no notification told of
RETRY_SECONDS = 0.25
CONFIRM_SECONDS = 0.01  # between looks whether this replica still has its locks for certain
_MAX_TOLD = 100  # in one notification, each some 40 bytes; others look
_FRESH_SECONDS = TAKE_SECONDS / 2  # the clocks of two machines differ
_LOOKS_UNTIL_GONE = 3  # a lost session is replaced within two


class LiveReplicas:
    """Which replicas live, by the locks that the share keeper looks at."""

    def __init__(self) -> None:
        self.session: int | None = None  # of this process
        self._looks: deque[frozenset[int]] = deque(maxlen=_LOOKS_UNTIL_GONE)

    def note(self, holders: LockHolders) -> bool:
        """Note who holds locks; returns whether a replica has come since, or is missing by now."""
        before = self._list_seen_lately()
        if holders.session != self.session:
            self._looks.clear()  # after a restart of the server others are not back yet
        self.session = holders.session
        self._looks.append(frozenset(holders.replicas))
        return self._list_seen_lately() != before

    def list_missing(self, lives: Iterable[int]) -> set[int]:
        """Those that were not seen for several looks; one may have come, or come back, since the last."""
        if len(self._looks) < _LOOKS_UNTIL_GONE:
            return set()
        return set(lives) - self._list_seen_lately()

    def _list_seen_lately(self) -> set[int]:
        return set().union(*self._looks)


@dataclass(frozen=True, slots=True)
class SeatStore:
    """Where the queues are kept, and how replicas know of each other.

    `database`: used for nothing else, so that no long transaction is waited for; each of its write
    transactions has the lock of the requests from its beginning. `list_replicas`: reads the
    replicas whose locks are held at that moment. `is_confirmed`: whether this one's were, lately.
    """

    database: Database
    messenger: ReplicaMessenger
    list_replicas: Callable[[Transaction], Awaitable[Collection[int]]]
    is_confirmed: Callable[[], bool]
    live_replicas: LiveReplicas = field(default_factory=LiveReplicas)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    lane: str
    priority: int
    since: float
    granted: asyncio.Future[None]

    @property
    def has_seat(self) -> bool:
        return self.granted.done() and not self.granted.cancelled()


class SharedSeats:
    """`count` seats of an endpoint for the calls of all replicas, granted while `run` runs.

    The order is that of SeatLimiter. What other replicas' calls do is known as of the last look.
    """

    def __init__(self, endpoint: str, count: int, store: SeatStore) -> None:
        self._endpoint = endpoint
        self._count = count
        self._store = store
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count(1)
        self._requests: tuple[SeatRequest, ...] = ()
        self._has_changes = asyncio.Event()

    @property
    def count(self) -> int:
        """How many seats there are."""
        return self._count

    @property
    def holders(self) -> Mapping[int, SeatCall]:
        """Who holds a seat, by its number from 1, of all replicas."""
        return {
            request.seat: SeatCall(request.lane, request.priority, request.since)
            for request in self._requests
            if request.seat is not None
        }

    @property
    def has_free_seat(self) -> bool:
        """Whether a user's call would get a seat at once."""
        life = self._store.messenger.life
        needed_elsewhere = [
            request
            for request in self._requests
            if request.life != life and (request.seat is not None or request.priority <= PEOPLE_PRIORITY)
        ]
        return self.in_use + len(needed_elsewhere) < self._count

    @property
    def in_use(self) -> int:
        """How many seats the calls of this process hold."""
        return sum(call.has_seat for call in self._calls.values())

    @property
    def queue_length(self) -> int:
        """How many calls of this process wait for a seat."""
        return len(self._calls) - self.in_use

    def queue_position(self, lane: str) -> int | None:
        """How many calls get a seat before this lane's next one, as it stands; None if it does not wait."""
        lanes = [request.lane for request in list_waiting(self._requests)]
        return lanes.index(lane) if lane in lanes else None

    def list_waiting(self) -> list[SeatCall]:
        """The calls that wait, of all replicas, in the order in which they get a seat as it stands."""
        waiting = list_waiting(self._requests)
        return [SeatCall(request.lane, request.priority, request.since) for request in waiting]

    @asynccontextmanager
    async def hold(self, lane: str, priority: int = PEOPLE_PRIORITY) -> AsyncIterator[None]:
        """Wait for a seat and hold it while the block runs; safe to cancel at any point."""
        number = next(self._numbers)
        call = _Call(lane, priority, time.time(), asyncio.get_running_loop().create_future())
        self._calls[number] = call
        self.wake()
        try:
            await call.granted
            yield
        finally:
            del self._calls[number]
            self.wake()

    def wake(self) -> None:
        """Have the queue looked at."""
        self._has_changes.set()

    def take(self, number: int, given_at: float) -> None:
        """Begin a call to which another replica gave a seat; the queue hears of it while the call runs.

        A process that was paused may have lost that seat by now, and looks first.
        """
        if abs(time.time() - given_at) < _FRESH_SECONDS and self._store.is_confirmed():
            self._begin_call(number)
        self.wake()

    async def refresh(self) -> None:
        """Read what other replicas' calls do now; while the database is away, nothing changes."""
        with suppress(StoreUnavailable):
            async with self._store.database.read_transaction() as tx:
                self._requests = tuple(await seat_requests.load(tx, self._endpoint))

    async def run(self) -> None:
        """Keep the queue until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS if self._calls else None):
                    await self._has_changes.wait()
            self._has_changes.clear()
            try:
                await self._look()
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
                self._has_changes.set()

    async def _look(self) -> None:
        """Update the queue, and begin the calls that have a seat by now.

        Others take no seat back from a session that lives, so with the same one afterwards it still has them.
        """
        await self._wait_until_confirmed()
        session = self._store.live_replicas.session
        await self._update()
        own_requests = [request for request in self._requests if request.life == self._store.messenger.life]
        await self._wait_until_confirmed()
        if self._store.live_replicas.session != session:
            self.wake()
            return
        for request in own_requests:
            if request.seat is not None:
                self._begin_call(request.number)

    async def _wait_until_confirmed(self) -> None:
        """Wait until others do not take this replica for dead; mostly it has not read a notification yet."""
        pause = CONFIRM_SECONDS / 16
        while not self._store.is_confirmed():
            await asyncio.sleep(pause)
            pause = min(2 * pause, CONFIRM_SECONDS)

    async def _update(self) -> None:
        """Store what has changed here, and give free seats to those first in line."""
        life = self._store.messenger.life
        own_calls = [
            OwnCall(number, call.lane, call.priority, call.since, call.has_seat)
            for number, call in self._calls.items()
        ]
        async with self._store.database.transaction(durable=False) as tx:
            stored = await seat_requests.load(tx, self._endpoint)
            view = ReplicaView(life, own_calls, await self._list_gone(tx, stored))
            plan = plan_seats(stored, view, self._count, now=time.time())
            await seat_requests.store(tx, self._endpoint, stored, plan.requests)
            await self._tell(tx, plan.granted_elsewhere)
        self._requests = plan.requests

    async def _list_gone(self, tx: Transaction, stored: Collection[SeatRequest]) -> Collection[int]:
        """The replicas that died. One may be back, or new, since the last look."""
        missing = self._store.live_replicas.list_missing({request.life for request in stored})
        if missing:
            missing -= set(await self._store.list_replicas(tx))
        return missing

    async def _tell(self, tx: Transaction, granted: Sequence[SeatRequest]) -> None:
        """Tell other replicas of seats that were given to their calls."""
        keys = [
            f"{self._endpoint} {request.life} {request.number} {request.since}"
            for request in granted[:_MAX_TOLD]
        ]
        await self._store.messenger.send_with(tx, [("seats", key) for key in keys])

    def _begin_call(self, number: int) -> None:
        call = self._calls.get(number)
        if call is not None and not call.granted.done():
            call.granted.set_result(None)


class ReplicaSeats:
    """The seats of each endpoint, as this replica shares them with the others."""

    def __init__(self, store: SeatStore) -> None:
        self._store = store
        self._seats: dict[str, SharedSeats] = {}

    def add(self, endpoint: str, count: int) -> SharedSeats:
        """Share the seats of one more endpoint, once `run` runs."""
        seats = self._seats[endpoint] = SharedSeats(endpoint, count, self._store)
        return seats

    def note_holders(self, holders: LockHolders) -> None:
        """Note which replicas live; seats of one that died come back."""
        if self._store.live_replicas.note(holders):
            for seats in self._seats.values():
                seats.wake()

    def receive(self, key: str) -> None:
        """Take a seat that another replica gave to a call of this one; `key` says which, and when."""
        endpoint, life, number, given_at = key.split(" ")
        if endpoint in self._seats and int(life) == self._store.messenger.life:
            self._seats[endpoint].take(int(number), float(given_at))

    async def run(self) -> None:
        """Keep the queues until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for endpoint, seats in self._seats.items():
                tasks.create_task(seats.run(), name=f"seats of {endpoint}")
