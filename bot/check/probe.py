"""Leads a check through its steps and keeps what was seen; an endpoint that dies on the way ends it, with a
reason.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import httpx

from bot.check.client import CallBudgetSpent, CallLost, CheckLimits, ProbeClient
from bot.check.observations import Observations
from bot.check.steps import STEPS, ProbeStep, ProbeSteps

MAX_LOST_CALLS: Final = 3  # calls in a row that may come to nothing

CheckProgress = Callable[[int, int, str], None]
"""Told before each step: steps done, steps in all, what comes now."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Which endpoint to look at, and what the gateway needs of it: `tokens` of context, `seats`."""

    url: str
    key: str | None = None
    model: str | None = None
    tokens: int | None = None
    seats: int | None = None
    limits: CheckLimits = field(default_factory=CheckLimits)


async def observe_endpoint(
    options: CheckOptions, on_progress: CheckProgress, stop: asyncio.Event | None = None
) -> Observations:
    """Make all calls of a check, or those until `stop`; never raises for what the endpoint does."""
    timeout = httpx.Timeout(options.limits.call_seconds)
    # vLLM drops idle connections after 5 s; a call on one it is just dropping would look like a fault.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=3.0)
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, limits=limits) as http:
        probe = _CheckRun(ProbeClient(http, options.url, options.key, options.limits), options)
        async with asyncio.TaskGroup() as tasks:
            leading = tasks.create_task(probe.run_steps(on_progress), name="check")
            stopping = tasks.create_task(_cancel_on_stop(stop, leading), name="stop")
            leading.add_done_callback(lambda _: stopping.cancel())
        return probe.build_observations(was_interrupted=leading.cancelled())


class _CheckRun:
    """One check on its way."""

    def __init__(self, client: ProbeClient, options: CheckOptions) -> None:
        self._client = client
        self._steps = ProbeSteps(client, options.model)
        self._lost_in_a_row = 0
        self._began_at = time.monotonic()
        self.observations = Observations(
            options.url,
            has_key=options.key is not None,
            wanted_model=options.model,
            needs_tokens=options.tokens,
            needs_seats=options.seats,
        )

    async def run_steps(self, on_progress: CheckProgress) -> None:
        """Take all steps."""
        for place, (name, step) in enumerate(STEPS):
            if self.observations.stopped is not None:
                break
            on_progress(place, len(STEPS), name)
            await self._run_step(name, step)
        on_progress(len(STEPS), len(STEPS), "done")

    def build_observations(self, *, was_interrupted: bool) -> Observations:
        """What was seen so far."""
        seen = replace(self.observations, calls=self._client.calls, seconds=time.monotonic() - self._began_at)
        if was_interrupted:
            return replace(seen, stopped="the check was interrupted")
        return seen

    async def _run_step(self, name: str, step: ProbeStep) -> None:
        try:
            found = await step(self._steps, self.observations)
            self.observations = replace(self.observations, **found)
            self._lost_in_a_row = 0
        except CallBudgetSpent:
            self.observations = replace(
                self.observations,
                stopped=f"all {self._client.limits.max_calls} calls of a check were used up",
            )
        except CallLost as lost:
            self.observations = replace(
                self.observations, lost={**self.observations.lost, name: f"{lost}, when asked for: {name}"}
            )
            self._lost_in_a_row += 1
            await self._check_alive(str(lost))

    async def _check_alive(self, reason: str) -> None:
        """A lost call may be one call's bad luck; a server that is gone ends the check."""
        if self.observations.version is None and self.observations.models is None:
            if "models" in self.observations.lost:
                self._mark_gone(f"the endpoint cannot be reached: {reason}")
            return
        if self._lost_in_a_row >= MAX_LOST_CALLS:
            self._mark_gone(f"the endpoint stopped answering after {self._client.calls} calls: {reason}")
            return
        try:
            alive = (await self._client.request_route("GET", "/health")).status < 500
        except (CallLost, CallBudgetSpent):
            alive = False
        if not alive:
            self._mark_gone(f"the endpoint went away after {self._client.calls} calls: {reason}")

    def _mark_gone(self, reason: str) -> None:
        self.observations = replace(self.observations, stopped=reason, gone=True)


async def _cancel_on_stop(stop: asyncio.Event | None, check_task: asyncio.Task[None]) -> None:
    if stop is not None:
        await stop.wait()
        check_task.cancel()
