"""The seats of the simulated engine and the queue before them; owns who runs and who waits."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

Place = asyncio.Future[None]


class Seats:
    """So many sequences at once, the others in order of priority (lower first) and arrival.

    `changed` is called whenever somebody comes, sits down or goes.
    """

    def __init__(self, size: int, changed: Callable[[], None]) -> None:
        self.size = size
        self.running = 0
        self.peak = 0
        self._changed = changed
        self._order = count()
        self._queue: list[tuple[int, int, Place]] = []

    @property
    def waiting(self) -> int:
        """How many have no seat yet."""
        return sum(not place.done() for _, _, place in self._queue)

    def enter(self, priority: int) -> Place | None:
        """Take a seat (None), or a place in the queue that is done when a seat is free."""
        place = None
        if self.running < self.size:
            self._sit()
        else:
            place = asyncio.get_running_loop().create_future()
            heapq.heappush(self._queue, (priority, next(self._order), place))
        self._changed()
        return place

    def leave(self, place: Place | None) -> None:
        """Give the seat back, or the place in the queue."""
        if place is not None and not place.done():
            place.cancel()
        else:
            self.running -= 1
        while self._queue and self.running < self.size:
            _, _, first = heapq.heappop(self._queue)
            if not first.done():
                self._sit()
                first.set_result(None)
        self._changed()

    def _sit(self) -> None:
        self.running += 1
        self.peak = max(self.peak, self.running)
