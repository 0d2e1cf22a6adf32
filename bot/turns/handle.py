"""A turn at work: may be stopped at any moment, and knows how many seconds of work it has left.

Owns the task that is cut; only waiting (a model call, tools, a pause) runs under it, never a transaction.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Literal, TypeVar

from bot.usage.timers import TurnTimer

T = TypeVar("T")


class FailureStreak:
    """Model calls of a turn that failed in a row, wherever they went."""

    def __init__(self) -> None:
        self.count = 0
        self._first_failed_at = 0.0

    def add(self, patience_seconds: float) -> bool:
        """One more; whether the first of them was `patience` seconds ago or longer."""
        self.count += 1
        now = time.monotonic()
        self._first_failed_at = self._first_failed_at or now
        return now - self._first_failed_at >= patience_seconds

    def reset(self) -> None:
        """There was an answer."""
        self.count = 0
        self._first_failed_at = 0.0


class TurnHandle:
    """The handle of one turn in its lane; `watch` measures what it is at."""

    def __init__(self, newest_item: int, max_seconds: float, timer: TurnTimer | None = None) -> None:
        self.timer = timer or TurnTimer()
        self.newest_item = newest_item
        self.seconds_left = max_seconds
        self.is_stopped = False
        self.failures = FailureStreak()
        self.side_effects_since: float | None = (
            None  # monotonic; None: cutting it now leaves nothing half done
        )
        self._task: asyncio.Task[Any] | None = None
        self._wake_event = asyncio.Event()

    @property
    def stop_reason(self) -> Literal["stopped", "seconds"] | None:
        """Why nothing more may be begun, if so."""
        if self.is_stopped:
            return "stopped"
        if self.seconds_left > 0:
            return None
        return "seconds"

    def stop(self) -> None:
        """End the turn: cut what it waits for, and let it say what it has."""
        self.is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """Something has changed: the pause ends now, or the next one does not begin."""
        self._wake_event.set()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the turn is stopped or told to go on."""

        async def wait() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake_event.wait()

        await self.run_cancellable(wait())
        self._wake_event.clear()

    async def run_cancellable(self, coroutine: Coroutine[Any, Any, T]) -> T | None:
        """The result of `waiting`, or None if the turn was stopped before or meanwhile. Raises what it
        raises.
        """
        if self.is_stopped:
            coroutine.close()
            return None
        try:
            async with asyncio.TaskGroup() as tasks:
                task = self._task = tasks.create_task(coroutine)
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # there was one task
        finally:
            self._task = None
        return None if task.cancelled() else task.result()

    @contextlib.asynccontextmanager
    async def deadline(self) -> AsyncIterator[Callable[[], None]]:
        """Yields the function that starts the clock; TimeoutError ends the block when no seconds are left."""
        loop = asyncio.get_running_loop()
        began: list[float] = []
        async with asyncio.timeout(None) as limit:

            def begin() -> None:
                if not began:
                    began.append(loop.time())
                    limit.reschedule(began[0] + self.seconds_left)

            try:
                yield begin
            finally:
                if began:
                    if limit.expired():
                        self.seconds_left = 0.0
                    else:
                        self.seconds_left = max(0.0, self.seconds_left - (loop.time() - began[0]))
