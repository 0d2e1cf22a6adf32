"""Which turns run: at most one a lane, each with the handle by which it is stopped or told to try again now."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bot.domain import Lane
from bot.errors import StoreUnavailable
from bot.turns.execution import TurnDependencies, TurnExecution
from bot.turns.handle import TurnHandle
from bot.turns.start import TurnRequest

SIDE_EFFECT_GRACE_SECONDS = (
    5.0  # tools of a due task may take so long to come to their end before a person goes first
)

RequestCompleter = Callable[[TurnHandle], Awaitable[TurnRequest | None]]


class TurnRunner:
    """Runs turns, at most one a lane, and stops them. `wake` is called when one has left work in the inbox."""

    def __init__(self, dependencies: TurnDependencies, *, wake_worker: Callable[[], None]) -> None:
        self._dependencies = dependencies
        self._wake_worker = wake_worker
        self._handles: dict[str, TurnHandle] = {}

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """End what runs in this lane, if it began before item `before`; False when nothing does."""
        running = self._handles.get(lane.key)
        if running is None or (before is not None and running.newest_item >= before):
            return False
        running.stop()
        return True

    def can_yield(self, lane: Lane) -> bool:
        """Whether what runs in this lane may give way now: not in the middle of calls that are not run again."""
        running = self._handles.get(lane.key)
        since = running.side_effects_since if running is not None else None
        return since is None or time.monotonic() - since >= SIDE_EFFECT_GRACE_SECONDS

    def wake(self, lane: Lane) -> None:
        """What runs in this lane waits no longer before it tries again: what it may do has changed."""
        running = self._handles.get(lane.key)
        if running is not None:
            running.wake()

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        """Answer `ask`, or go on answering it; its items are done when this returns.

        `complete` adds what has to be fetched first; it gives None if there is nothing to answer, and has
        said so.
        """
        channel = self._dependencies.channel_for(request.lane, request.items[0].id, silent=request.silent)
        watch = self._dependencies.timers.open(request.items[0], request.lane)
        running = self._handles[request.lane.key] = TurnHandle(
            request.items[-1].id, self._dependencies.turn_seconds, watch
        )
        try:
            channel.begin()
            whole = request if complete is None else await complete(running)
            if whole is None or await self._execute(
                TurnExecution(self._dependencies, whole, running, channel)
            ):
                self._dependencies.timers.forget(watch.item)
            watch.has_ended = True
        except StoreUnavailable:
            raise  # it is run again
        except asyncio.CancelledError:
            watch.wait_in_lane()
            raise
        except Exception:
            watch.has_ended = True  # it is set aside
            raise
        finally:
            if self._handles.get(request.lane.key) is running:
                del self._handles[request.lane.key]
            channel.end()

    async def _execute(self, execution: TurnExecution) -> bool:
        """Whether it was parked: how long it waits then is told by its rows."""
        if await execution.run():
            self._wake_worker()
        return execution.is_parked
