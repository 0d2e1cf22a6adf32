"""The seats of the simulated engine and the queue for them; owns which request runs and which waits."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

SeatWaiter = asyncio.Future[None]


class EngineSeats:
    """So many sequences at once, the others in order of priority (lower first) and arrival.

    `on_change` is called whenever a request arrives, gets a seat or leaves.
    """

    def __init__(self, size: int, on_change: Callable[[], None]) -> None:
        self.size = size
        self.running = 0
        self.peak_running = 0
        self._on_change = on_change
        self._arrivals = count()
        self._queue: list[tuple[int, int, SeatWaiter]] = []

    @property
    def waiting(self) -> int:
        """The number of requests without a seat."""
        return sum(not place.done() for _, _, place in self._queue)

    def enter(self, priority: int) -> SeatWaiter | None:
        """Take a seat (None), or a place in the queue: a future that is done when a seat is free."""
        place = None
        if self.running < self.size:
            self._occupy_seat()
        else:
            place = asyncio.get_running_loop().create_future()
            heapq.heappush(self._queue, (priority, next(self._arrivals), place))
        self._on_change()
        return place

    def leave(self, waiter: SeatWaiter | None) -> None:
        """Release the seat, or the place in the queue."""
        if waiter is not None and not waiter.done():
            waiter.cancel()
        else:
            self.running -= 1
        while self._queue and self.running < self.size:
            _, _, first = heapq.heappop(self._queue)
            if not first.done():
                self._occupy_seat()
                first.set_result(None)
        self._on_change()

    def _occupy_seat(self) -> None:
        self.running += 1
        self.peak_running = max(self.peak_running, self.running)
