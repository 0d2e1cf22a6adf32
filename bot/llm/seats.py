"""A fair limiter of the model calls that run at once: a seat is one sequence of the endpoint.

Only a model call holds a seat, a turn never does. Owns the queue of waiting calls. Lanes take turns: a lane
that was served goes to the end, new lanes come after those that wait.
"""

import asyncio
import itertools
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from bot.domain import PEOPLE_PRIORITY


@dataclass(frozen=True, slots=True)
class SeatCall:
    """A call that holds a seat, or waits for one, since `since` (epoch seconds)."""

    lane: str
    priority: int
    since: float


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    call: SeatCall
    granted: asyncio.Future[None]


_Ring = OrderedDict[str, deque[_Waiter]]


class Seats(Protocol):
    """The seats of an endpoint: this process's own (SeatLimiter), or those of all replicas (SharedSeats)."""

    @property
    def count(self) -> int:
        """How many seats there are."""
        ...

    @property
    def holders(self) -> Mapping[int, SeatCall]:
        """Who holds a seat, by its number from 1."""
        ...

    @property
    def has_free_seat(self) -> bool:
        """Whether a user's call would get a seat at once."""
        ...

    @property
    def in_use(self) -> int:
        """How many seats the calls of this process hold."""
        ...

    @property
    def queue_length(self) -> int:
        """How many calls of this process wait for a seat."""
        ...

    def queue_position(self, lane: str) -> int | None:
        """How many calls get a seat before this lane's next one, as it stands; None if it does not wait."""
        ...

    def list_waiting(self) -> list[SeatCall]:
        """The calls that wait, in the order in which they get a seat as it stands."""
        ...

    def hold(self, lane: str, priority: int = PEOPLE_PRIORITY) -> AbstractAsyncContextManager[None]:
        """Wait for a seat and hold it while the block runs; safe to cancel at any point."""
        ...

    async def refresh(self) -> None:
        """Learn who holds seats and who waits now."""
        ...


class SeatLimiter:
    """`count` seats for calls of many lanes. Of the waiting calls, the lowest priority number goes first.

    Of several seats one is reserved for users: other calls hold all but one at most. A single seat is for
    all.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = count
        self._free_for_others = max(1, count - 1)  # seats that calls of the system may still take
        self._rings: dict[int, _Ring] = {}
        self._holders: dict[int, SeatCall] = {}

    @property
    def count(self) -> int:
        """How many seats there are."""
        return self._count

    @property
    def holders(self) -> Mapping[int, SeatCall]:
        """Who holds a seat now, by its number from 1."""
        return self._holders

    @property
    def has_free_seat(self) -> bool:
        """Whether a user's call would get a seat at once."""
        return self._free > 0

    @property
    def in_use(self) -> int:
        """How many seats are taken."""
        return self._count - self._free

    @property
    def queue_length(self) -> int:
        """How many calls wait for a seat."""
        return sum(len(queue) for ring in self._rings.values() for queue in ring.values())

    def queue_position(self, lane: str) -> int | None:
        """How many calls get a seat before this lane's next one, as it stands; None if it does not wait."""
        ahead = 0
        for priority in sorted(self._rings):
            ring = self._rings[priority]
            if lane in ring:
                return ahead + list(ring).index(lane)
            ahead += sum(len(queue) for queue in ring.values())
        return None

    def list_waiting(self) -> list[SeatCall]:
        """The calls that wait, in the order in which they get a seat as it stands."""
        waiting: list[SeatCall] = []
        for priority in sorted(self._rings):
            rounds = itertools.zip_longest(*self._rings[priority].values())
            waiting += [waiter.call for waiter in itertools.chain.from_iterable(rounds) if waiter is not None]
        return waiting

    @asynccontextmanager
    async def hold(self, lane: str, priority: int = PEOPLE_PRIORITY) -> AsyncIterator[None]:
        """Wait for a seat and hold it while the block runs; safe to cancel at any point."""
        if self._can_take(priority):
            self._take(priority)
        else:
            await self._wait(lane, priority)
        number = next(number for number in itertools.count(1) if number not in self._holders)
        self._holders[number] = SeatCall(lane, priority, time.time())
        try:
            yield
        finally:
            del self._holders[number]
            self._release(priority)

    async def refresh(self) -> None:
        """Do nothing: all calls are of this process."""

    async def _wait(self, lane: str, priority: int) -> None:
        granted = asyncio.get_running_loop().create_future()
        waiter = _Waiter(SeatCall(lane, priority, time.time()), granted)
        self._rings.setdefault(priority, OrderedDict()).setdefault(lane, deque()).append(waiter)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._remove_waiter(waiter)
            else:
                self._release(priority)
            raise

    def _can_take(self, priority: int) -> bool:
        # A call that waits while a seat is free may not take that one, so nobody is overtaken here.
        return self._free > 0 and (priority <= PEOPLE_PRIORITY or self._free_for_others > 0)

    def _take(self, priority: int) -> None:
        self._free -= 1
        self._free_for_others -= priority > PEOPLE_PRIORITY

    def _release(self, priority: int) -> None:
        self._free += 1
        self._free_for_others += priority > PEOPLE_PRIORITY
        while self._rings and self._can_take(first := min(self._rings)):
            granted = self._pop_waiter(first).granted
            # A waiter cancelled in this very tick is still queued; its future is done already.
            if not granted.done():
                self._take(first)
                granted.set_result(None)

    def _pop_waiter(self, priority: int) -> _Waiter:
        ring = self._rings[priority]
        lane, queue = ring.popitem(last=False)
        waiter = queue.popleft()
        if queue:
            ring[lane] = queue
        if not ring:
            del self._rings[priority]
        return waiter

    def _remove_waiter(self, waiter: _Waiter) -> None:
        ring = self._rings.get(waiter.call.priority, OrderedDict())
        queue = ring.get(waiter.call.lane, deque())
        if waiter not in queue:
            return
        queue.remove(waiter)
        if not queue:
            del ring[waiter.call.lane]
        if not ring:
            del self._rings[waiter.call.priority]
