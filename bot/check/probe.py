"""Leads a check through its steps and keeps what was seen; an endpoint that dies on the way ends it, with a
reason.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import httpx

from bot.check.client import Limits, Lost, Spent, Wire
from bot.check.observations import Seen
from bot.check.steps import STEPS, Asker, Step

MOST_LOST: Final = 3  # calls in a row that may come to nothing

Progress = Callable[[int, int, str], None]
"""Told before each step: steps done, steps in all, what comes now."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which endpoint to look at, and what the gateway needs of it: `tokens` of context, `seats`."""

    url: str
    key: str | None = None
    model: str | None = None
    tokens: int | None = None
    seats: int | None = None
    limits: Limits = field(default_factory=Limits)


async def look(wish: Wish, progress: Progress, stop: asyncio.Event | None = None) -> Seen:
    """Make all calls of a check, or those until `stop`; never raises for what the endpoint does."""
    timeout = httpx.Timeout(wish.limits.call_seconds)
    # vLLM drops idle connections after 5 s; a call on one it is just dropping would look like a fault.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=3.0)
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, limits=limits) as http:
        probe = _Probe(Wire(http, wish.url, wish.key, wish.limits), wish)
        async with asyncio.TaskGroup() as tasks:
            leading = tasks.create_task(probe.lead(progress), name="check")
            stopping = tasks.create_task(_stopped(stop, leading), name="stop")
            leading.add_done_callback(lambda _: stopping.cancel())
        return probe.told(interrupted=leading.cancelled())


class _Probe:
    """One check on its way."""

    def __init__(self, wire: Wire, wish: Wish) -> None:
        self._wire = wire
        self._asker = Asker(wire, wish.model)
        self._lost = 0
        self._began = time.monotonic()
        self.seen = Seen(
            wish.url,
            has_key=wish.key is not None,
            wanted_model=wish.model,
            needs_tokens=wish.tokens,
            needs_seats=wish.seats,
        )

    async def lead(self, progress: Progress) -> None:
        """Take all steps."""
        for place, (name, step) in enumerate(STEPS):
            if self.seen.stopped is not None:
                break
            progress(place, len(STEPS), name)
            await self._take(name, step)
        progress(len(STEPS), len(STEPS), "done")

    def told(self, *, interrupted: bool) -> Seen:
        """What was seen so far."""
        seen = replace(self.seen, calls=self._wire.calls, seconds=time.monotonic() - self._began)
        if interrupted:
            return replace(seen, stopped="the check was interrupted")
        return seen

    async def _take(self, name: str, step: Step) -> None:
        try:
            found = await step(self._asker, self.seen)
            self.seen = replace(self.seen, **found)
            self._lost = 0
        except Spent:
            self.seen = replace(
                self.seen, stopped=f"all {self._wire.limits.calls} calls of a check were used up"
            )
        except Lost as lost:
            self.seen = replace(self.seen, lost={**self.seen.lost, name: f"{lost}, when asked for: {name}"})
            self._lost += 1
            await self._look_again(str(lost))

    async def _look_again(self, why: str) -> None:
        """A lost call may be one call's bad luck; a server that is gone ends the check."""
        if self.seen.version is None and self.seen.models is None:
            if "models" in self.seen.lost:
                self._gone(f"the endpoint cannot be reached: {why}")
            return
        if self._lost >= MOST_LOST:
            self._gone(f"the endpoint stopped answering after {self._wire.calls} calls: {why}")
            return
        try:
            alive = (await self._wire.route("GET", "/health")).status < 500
        except (Lost, Spent):
            alive = False
        if not alive:
            self._gone(f"the endpoint went away after {self._wire.calls} calls: {why}")

    def _gone(self, why: str) -> None:
        self.seen = replace(self.seen, stopped=why, gone=True)


async def _stopped(stop: asyncio.Event | None, leading: asyncio.Task[None]) -> None:
    if stop is not None:
        await stop.wait()
        leading.cancel()
