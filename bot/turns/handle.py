"""The handles of running turns, at most one a lane: each stops its turn, and counts the seconds it has left.

A handle owns the task that is cancelled; only waiting runs in it (a model call, tools, a pause), never a
transaction.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Literal, Protocol, TypeVar

from bot.domain import Lane
from bot.usage.timers import TurnTimer

T = TypeVar("T")

# Seconds that the tools of a scheduled task may take to end before a person's message interrupts them.
SIDE_EFFECT_GRACE_SECONDS = 5.0


class FailureStreak:
    """Model calls of a turn that failed in a row, at either endpoint."""

    def __init__(self) -> None:
        self.count = 0
        self._first_failed_at = 0.0

    def add(self, patience_seconds: float) -> bool:
        """Count one more; True if the first of them is at least `patience_seconds` ago."""
        self.count += 1
        now = time.monotonic()
        self._first_failed_at = self._first_failed_at or now
        return now - self._first_failed_at >= patience_seconds

    def reset(self) -> None:
        """End the streak: there was an answer."""
        self.count = 0
        self._first_failed_at = 0.0


def _extend_nothing(_: float) -> None:
    """No clock runs."""


class TurnHandle:
    """The handle of one turn in its lane.

    `newest_item`: the newest inbox item the turn answers.
    `side_effects_since`: since when (monotonic seconds) a call runs that cannot be repeated; None: no such
    call runs, and cancelling the turn leaves nothing half done.
    """

    def __init__(self, newest_item: int, max_seconds: float, timer: TurnTimer | None = None) -> None:
        self.timer = timer or TurnTimer()
        self.newest_item = newest_item
        self.seconds_left = max_seconds
        self.is_stopped = False
        self._is_edited = False
        self.failures = FailureStreak()
        self.side_effects_since: float | None = None
        self._task: asyncio.Task[Any] | None = None
        self._wake_event = asyncio.Event()
        self._extend_deadline: Callable[[float], None] = _extend_nothing

    def prolong(self, seconds: float) -> None:
        """Give the work that runs so many seconds more, or take them back: a person is waited for."""
        self._extend_deadline(seconds)

    @property
    def stop_reason(self) -> Literal["stopped", "edited", "seconds"] | None:
        """Why nothing more may begin; None: the turn may work."""
        if self.is_stopped:
            return "edited" if self._is_edited else "stopped"
        if self.seconds_left > 0:
            return None
        return "seconds"

    def stop(self, *, is_edited: bool = False) -> None:
        """End the turn: cancel what it waits for; it then answers with what it has.

        `is_edited`: its message reads differently now.
        """
        self._is_edited |= is_edited and not self.is_stopped
        self.is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """End the current pause, or skip the next one: something has changed."""
        self._wake_event.set()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the turn is stopped or woken."""

        async def wait() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake_event.wait()

        await self.run_cancellable(wait())
        self._wake_event.clear()

    async def run_cancellable(self, coroutine: Coroutine[Any, Any, T]) -> T | None:
        """The coroutine's result; None if the turn is stopped before or meanwhile. Raises its exception."""
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
        started_at: float | None = None
        async with asyncio.timeout(None) as timeout:

            def start_clock() -> None:
                nonlocal started_at
                if started_at is None:
                    started_at = loop.time()
                    timeout.reschedule(started_at + self.seconds_left)

            def extend(seconds: float) -> None:
                nonlocal started_at
                if started_at is not None and not timeout.expired():
                    started_at += seconds
                    timeout.reschedule(started_at + self.seconds_left)

            self._extend_deadline = extend
            try:
                yield start_clock
            finally:
                self._extend_deadline = _extend_nothing
                if timeout.expired():
                    self.seconds_left = 0.0
                elif started_at is not None:
                    self.seconds_left = max(0.0, self.seconds_left - (loop.time() - started_at))


class TurnsElsewhere(Protocol):
    """The turns of lanes that other replicas have."""

    def stop(self, lane: Lane, before: int | None) -> None:
        """Have the lane's turn stopped where it runs, if it began before the item `before`."""
        ...

    def wake(self, lane: Lane) -> None:
        """Have the pause ended, where the lane's turn runs, before it retries."""
        ...


class RunningTurns:
    """Stops and wakes turns by their lanes; `elsewhere` does for those that do not run here."""

    def __init__(self, elsewhere: TurnsElsewhere | None = None) -> None:
        self._elsewhere = elsewhere
        self._handles: dict[Lane, TurnHandle] = {}

    def add(self, lane: Lane, handle: TurnHandle) -> None:
        """Note the handle of a turn that begins in a lane."""
        self._handles[lane] = handle

    def remove(self, lane: Lane) -> None:
        """Forget the handle of a turn that is over."""
        self._handles.pop(lane, None)

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """Stop the lane's turn, if it began before the item `before`; False if nothing is stopped here."""
        if self._elsewhere is not None and lane not in self._handles:
            self._elsewhere.stop(lane, before)
        return self.stop_here(lane, before)

    def stop_edited(self, lane: Lane, before: int) -> bool:
        """Stop the lane's turn as `stop` does, because the message that it answers was edited."""
        return self.stop_here(lane, before, is_edited=True)

    def stop_here(self, lane: Lane, before: int | None = None, *, is_edited: bool = False) -> bool:
        """Stop the lane's turn as `stop` does, if it runs in this process."""
        handle = self._handles.get(lane)
        if handle is None or (before is not None and handle.newest_item >= before):
            return False
        handle.stop(is_edited=is_edited)
        return True

    def can_yield(self, lane: Lane) -> bool:
        """Whether the lane's turn may give way now: calls that must not run twice get a grace period."""
        handle = self._handles.get(lane)
        if handle is None or handle.side_effects_since is None:
            return True
        return time.monotonic() - handle.side_effects_since >= SIDE_EFFECT_GRACE_SECONDS

    def wake(self, lane: Lane) -> None:
        """End the pause before the lane's turn retries: what it may do has changed."""
        if self._elsewhere is not None and lane not in self._handles:
            self._elsewhere.wake(lane)
        self.wake_here(lane)

    def wake_here(self, lane: Lane) -> None:
        """End that pause if the turn runs in this process."""
        handle = self._handles.get(lane)
        if handle is not None:
            handle.wake()
