"""A turn at work: may be stopped at any moment, and knows how many seconds of work it has left.

Owns the task that is cut; only waiting (a model call, tools, a pause) runs under it, never a transaction.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Literal, TypeVar

from bot.usage.timers import Watch

T = TypeVar("T")


class Failures:
    """Model calls of a turn that failed in a row, wherever they went."""

    def __init__(self) -> None:
        self.count = 0
        self._since = 0.0

    def add(self, patience: float) -> bool:
        """One more; whether the first of them was `patience` seconds ago or longer."""
        self.count += 1
        now = time.monotonic()
        self._since = self._since or now
        return now - self._since >= patience

    def clear(self) -> None:
        """There was an answer."""
        self.count = 0
        self._since = 0.0


class Running:
    """The handle of one turn in its lane; `watch` measures what it is at."""

    def __init__(self, newest_item: int, seconds: float, watch: Watch | None = None) -> None:
        self.watch = watch or Watch()
        self.newest_item = newest_item
        self.left = seconds
        self.stopped = False
        self.failures = Failures()
        self.acting_since: float | None = None  # monotonic; None: cutting it now leaves nothing half done
        self._work: asyncio.Task[Any] | None = None
        self._awake = asyncio.Event()

    @property
    def over(self) -> Literal["stopped", "seconds"] | None:
        """Why nothing more may be begun, if so."""
        if self.stopped:
            return "stopped"
        if self.left > 0:
            return None
        return "seconds"

    def stop(self) -> None:
        """End the turn: cut what it waits for, and let it say what it has."""
        self.stopped = True
        if self._work is not None:
            self._work.cancel()

    def go_on(self) -> None:
        """Something has changed: the pause ends now, or the next one does not begin."""
        self._awake.set()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the turn is stopped or told to go on."""

        async def wait() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._awake.wait()

        await self.work(wait())
        self._awake.clear()

    async def work(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        """The result of `waiting`, or None if the turn was stopped before or meanwhile. Raises what it
        raises.
        """
        if self.stopped:
            waiting.close()
            return None
        try:
            async with asyncio.TaskGroup() as tasks:
                task = self._work = tasks.create_task(waiting)
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # there was one task
        finally:
            self._work = None
        return None if task.cancelled() else task.result()

    @contextlib.asynccontextmanager
    async def clocked(self) -> AsyncIterator[Callable[[], None]]:
        """Yields the function that starts the clock; TimeoutError ends the block when no seconds are left."""
        loop = asyncio.get_running_loop()
        began: list[float] = []
        async with asyncio.timeout(None) as limit:

            def begin() -> None:
                if not began:
                    began.append(loop.time())
                    limit.reschedule(began[0] + self.left)

            try:
                yield begin
            finally:
                if began:
                    if limit.expired():
                        self.left = 0.0
                    else:
                        self.left = max(0.0, self.left - (loop.time() - began[0]))
