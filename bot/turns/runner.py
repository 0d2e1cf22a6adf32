"""Which turns run: at most one a lane, each with the handle by which it is stopped or told to try again now."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bot.domain import Lane
from bot.errors import StoreUnavailable
from bot.turns.execution import Means, Playing
from bot.turns.handle import Running
from bot.turns.start import Ask

ACTING_SECONDS = 5.0  # tools of a due task may take so long to come to their end before a person goes first

Complete = Callable[[Running], Awaitable[Ask | None]]


class Turns:
    """Runs turns, at most one a lane, and stops them. `wake` is called when one has left work in the inbox."""

    def __init__(self, means: Means, *, wake: Callable[[], None]) -> None:
        self._means = means
        self._wake = wake
        self._running: dict[str, Running] = {}

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """End what runs in this lane, if it began before item `before`; False when nothing does."""
        running = self._running.get(lane.key)
        if running is None or (before is not None and running.newest_item >= before):
            return False
        running.stop()
        return True

    def yields(self, lane: Lane) -> bool:
        """Whether what runs in this lane may give way now: not in the middle of calls that are not run again."""
        running = self._running.get(lane.key)
        since = running.acting_since if running is not None else None
        return since is None or time.monotonic() - since >= ACTING_SECONDS

    def go_on(self, lane: Lane) -> None:
        """What runs in this lane waits no longer before it tries again: what it may do has changed."""
        running = self._running.get(lane.key)
        if running is not None:
            running.go_on()

    async def run(self, ask: Ask, complete: Complete | None = None) -> None:
        """Answer `ask`, or go on answering it; its items are done when this returns.

        `complete` adds what has to be fetched first; it gives None if there is nothing to answer, and has
        said so.
        """
        channel = self._means.channel_for(ask.lane, ask.items[0].id, silent=ask.silent)
        watch = self._means.watches.open(ask.items[0], ask.lane)
        running = self._running[ask.lane.key] = Running(ask.items[-1].id, self._means.seconds, watch)
        try:
            channel.begin()
            whole = ask if complete is None else await complete(running)
            if whole is None or await self._play(Playing(self._means, whole, running, channel)):
                self._means.watches.forget(watch.item)
            watch.over = True
        except StoreUnavailable:
            raise  # it is run again
        except asyncio.CancelledError:
            watch.give_way()
            raise
        except Exception:
            watch.over = True  # it is set aside
            raise
        finally:
            if self._running.get(ask.lane.key) is running:
                del self._running[ask.lane.key]
            channel.end()

    async def _play(self, playing: Playing) -> bool:
        """Whether it was parked: how long it waits then is told by its rows."""
        if await playing.play():
            self._wake()
        return playing.parked
