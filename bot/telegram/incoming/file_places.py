"""Places for files that are fetched and read now, shared fairly between people.

A place is held from before the download until the file is read, so that the places bound the memory that
files take. Who holds fewest is next.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.telegram.incoming.downloads import MAX_BYTES

MAX_BYTES_IN_FLIGHT = 100 * 1024 * 1024  # of all people together
MAX_PLACES = MAX_BYTES_IN_FLIGHT // MAX_BYTES
MAX_PLACES_PER_PERSON = 2


class FilePlaces:
    """The places of one process."""

    def __init__(self) -> None:
        self._held = Counter[int]()
        self._waiting = list[tuple[int, asyncio.Future[None]]]()

    @asynccontextmanager
    async def take(self, person: int) -> AsyncIterator[None]:
        """Hold a place of a person; waits until there is one."""
        granted = asyncio.get_running_loop().create_future()
        waiter = (person, granted)
        self._waiting.append(waiter)
        self._grant()
        try:
            await granted
            yield
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._held[person] -= 1
            self._held += Counter()  # forgets who holds none
            self._grant()

    def _grant(self) -> None:
        while self._held.total() < MAX_PLACES:
            allowed = [waiter for waiter in self._waiting if self._held[waiter[0]] < MAX_PLACES_PER_PERSON]
            if not allowed:
                return
            chosen = min(allowed, key=lambda waiter: self._held[waiter[0]])
            person, granted = chosen
            self._waiting.remove(chosen)
            self._held[person] += 1
            if not granted.done():
                granted.set_result(None)
