"""The seats of one endpoint, of which all replicas take: a queue that is kept in the database.

Never more calls than seats go on at a time, whichever replica makes them. A replica's seats come back to the
others once its session is lost for good, and it takes none while that is uncertain.

While nobody waits, a replica keeps the seat of a call that has ended for about a second: its row stays as it
is, and the next call of the same priority takes it without the database. A call elsewhere that wants it waits
for two messages and no longer:

- calls begin to wait in a transaction that has the lock of the queue. The one that stores the first of them
  tells all replicas, which give back what they keep;
- a replica keeps seats only after a look at the queue has shown that nobody waits, unless something was told
  since that look began: a call that waited before was seen, and one that began to wait later is told;
- with a new session it keeps none until it has looked again, as what was told between two sessions is lost.

Should a message be lost all the same, the next look is at most a second away.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bot.db.engine import Database
from bot.db.postgresql.session_locks import list_replicas
from bot.db.queues import seat_requests
from bot.db.queues.seat_requests import SeatRequest
from bot.db.shares import LockHolders
from bot.db.transaction import Transaction
from bot.domain import PEOPLE_PRIORITY
from bot.errors import StoreUnavailable
from bot.llm.seats import SeatCall
from bot.replicas.messenger import ReplicaMessenger, Topic
from bot.replicas.seat_plan import (
    TAKE_SECONDS,
    OwnCall,
    ReplicaView,
    SeatPlan,
    list_waiting,
    may_keep_seats,
    plan_seats,
)

LOOK_SECONDS = 1.0  # between looks while calls go on or wait here, or a seat is kept, for what was not told
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
    transactions has the lock of the requests from its beginning. `is_confirmed`: whether this replica's
    locks were held, lately.
    """

    database: Database
    messenger: ReplicaMessenger
    is_confirmed: Callable[[], bool]
    live_replicas: LiveReplicas = field(default_factory=LiveReplicas)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    lane: str
    priority: int
    since: float
    granted: asyncio.Future[None]
    took_kept_seat: bool

    @property
    def has_seat(self) -> bool:
        return self.granted.done() and not self.granted.cancelled()


class SharedSeats:
    """`count` seats of an endpoint for the calls of all replicas, granted while `run` runs.

    The order is that of SeatLimiter. What other replicas' calls do is known as of the last look; a seat that
    they keep counts as taken, one that this replica keeps as free.
    """

    def __init__(self, endpoint: str, count: int, store: SeatStore) -> None:
        self._endpoint = endpoint
        self._count = count
        self._store = store
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count(1)
        self._requests: tuple[SeatRequest, ...] = ()
        # While nobody waits: the priority of each own call that is stored with a seat, by its number. A seat
        # whose call has ended is kept.
        self._own_seats: dict[int, int] = {}
        self._may_keep = False  # nothing was told since the last look began
        self._is_leaving = False
        self._has_changes = asyncio.Event()

    @property
    def count(self) -> int:
        """How many seats there are."""
        return self._count

    @property
    def holders(self) -> Mapping[int, SeatCall]:
        """Who holds a seat, by its number from 1, of all replicas."""
        return {
            request.seat: call
            for request in self._requests
            if request.seat is not None and (call := self._find_holder(request)) is not None
        }

    def _find_holder(self, request: SeatRequest) -> SeatCall | None:
        """The call that has the seat of a stored one: an own seat may have another by now, or none."""
        if request.life != self._store.messenger.life:
            return SeatCall(request.lane, request.priority, request.since)
        call = self._calls.get(request.number)
        if call is None:
            return None
        since = call.since if call.took_kept_seat else request.since
        return SeatCall(call.lane, call.priority, since)

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
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        kept = self._find_kept_seat(priority)
        number = next(self._numbers) if kept is None else kept
        self._calls[number] = _Call(lane, priority, time.time(), granted, took_kept_seat=kept is not None)
        if kept is None:
            self.stop_keeping()
            self.wake()
        else:
            self._begin_call(number)
        try:
            await granted
            yield
        finally:
            del self._calls[number]
            if number not in self._own_seats:
                self.wake()

    def _find_kept_seat(self, priority: int) -> int | None:
        """The number of a call that has ended and whose seat is kept for one of this priority.

        A process that was paused may have lost it.
        """
        kept = (
            number
            for number, of_call in self._own_seats.items()
            if of_call == priority and number not in self._calls
        )
        return next(kept, None) if self._store.is_confirmed() else None

    def stop_keeping(self) -> None:
        """Give kept seats back, and keep none until a look has shown that nobody waits."""
        if self._own_seats.keys() - self._calls.keys():
            self.wake()
        self._own_seats = {}
        self._may_keep = False

    def leave(self) -> None:
        """Keep no seat from now on."""
        self._is_leaving = True
        self.stop_keeping()

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
                async with asyncio.timeout(LOOK_SECONDS if self._calls or self._own_seats else None):
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
        requests = self._requests
        await self._wait_until_confirmed()
        if self._store.live_replicas.session != session:
            self.wake()
            return
        life = self._store.messenger.life
        own_seats = {
            request.number: request.priority
            for request in requests
            if request.life == life and request.seat is not None
        }
        for number in own_seats:
            self._begin_call(number)
        if self._may_keep and may_keep_seats(requests, life, self._count):
            self._own_seats = own_seats

    async def _wait_until_confirmed(self) -> None:
        """Wait until others do not take this replica for dead; mostly it has not read a notification yet."""
        pause = CONFIRM_SECONDS / 16
        while not self._store.is_confirmed():
            await asyncio.sleep(pause)
            pause = min(2 * pause, CONFIRM_SECONDS)

    async def _update(self) -> None:
        """Store what has changed here, and give free seats to those first in line; what was kept is free."""
        self._own_seats = {}
        self._may_keep = not self._is_leaving
        life = self._store.messenger.life
        own_calls = [
            OwnCall(number, call.lane, call.priority, call.since, call.has_seat, call.took_kept_seat)
            for number, call in self._calls.items()
        ]
        async with self._store.database.transaction(durable=False) as tx:
            stored = await seat_requests.load(tx, self._endpoint)
            view = ReplicaView(life, own_calls, await self._list_gone(tx, stored))
            plan = plan_seats(stored, view, self._count, now=time.time())
            await seat_requests.store(tx, self._endpoint, stored, plan.requests)
            await self._tell(tx, plan)
        self._requests = plan.requests

    async def _list_gone(self, tx: Transaction, stored: Collection[SeatRequest]) -> Collection[int]:
        """The replicas that died. One may be back, or new, since the last look."""
        missing = self._store.live_replicas.list_missing({request.life for request in stored})
        if missing:
            missing -= set(await list_replicas(tx))
        return missing

    async def _tell(self, tx: Transaction, plan: SeatPlan) -> None:
        """Tell other replicas of seats that were given to their calls, or are wanted back."""
        messages: list[tuple[Topic, str]] = [
            ("seats", f"{self._endpoint} {request.life} {request.number} {request.since}")
            for request in plan.granted_elsewhere[:_MAX_TOLD]
        ]
        if plan.wants_kept_seats:
            messages.append(("seat_wanted", self._endpoint))
        await self._store.messenger.send_with(tx, messages)

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
        if holders.session != self._store.live_replicas.session:
            self._stop_keeping(self._seats)
        if self._store.live_replicas.note(holders):
            for seats in self._seats.values():
                seats.wake()

    def leave(self) -> None:
        """Keep no seats from now on: this replica gives everything to the others."""
        for seats in self._seats.values():
            seats.leave()

    def build_handlers(self) -> dict[Topic, Callable[[str], object]]:
        """What is done when another replica tells of something."""
        return {"seats": self._take, "seat_wanted": lambda endpoint: self._stop_keeping([endpoint])}

    def _stop_keeping(self, endpoints: Iterable[str]) -> None:
        for endpoint in endpoints:
            if endpoint in self._seats:
                self._seats[endpoint].stop_keeping()

    def _take(self, key: str) -> None:
        """Take a seat that another replica gave to a call of this one; `key` says which, and when."""
        endpoint, life, number, given_at = key.split(" ")
        if endpoint in self._seats and int(life) == self._store.messenger.life:
            self._seats[endpoint].take(int(number), float(given_at))

    async def run(self) -> None:
        """Keep the queues until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for endpoint, seats in self._seats.items():
                tasks.create_task(seats.run(), name=f"seats of {endpoint}")
