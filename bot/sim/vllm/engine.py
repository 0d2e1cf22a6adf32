"""The engine behind the simulated endpoint: the time of a canvas, faults during a reply, pauses and crashes.

Owns seats, prefix cache and counters. Yields canvases; knows nothing of HTTP.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from bot.sim.gemma.tokens import split_blocks
from bot.sim.vllm.images import tag_image_blocks
from bot.sim.vllm.metrics import EngineLoad, EngineMetrics
from bot.sim.vllm.output import build_output
from bot.sim.vllm.prefix_cache import CacheLookup, PrefixCache
from bot.sim.vllm.profile import Profile, Timing
from bot.sim.vllm.request import Canvas, EngineJob
from bot.sim.vllm.script import Brain, ScriptedReply
from bot.sim.vllm.seats import EngineSeats


class EngineDied(Exception):
    """The engine has died, or failed this one request."""


class ConnectionCut(Exception):
    """The connection has to be cut without an answer."""


@dataclass(frozen=True, slots=True)
class _CanvasPlan:
    """The canvases of a request: tokens, denoising steps, and seconds in addition to the timing."""

    width: int
    step_limit: int | None
    steps: int
    delay: float
    is_filtered: bool


class Engine:
    """One model on one GPU. `on_change` is called whenever a count here changes."""

    def __init__(
        self, profile: Profile, timing: Timing, seats: int, brain: Brain, on_change: Callable[[], None]
    ) -> None:
        self.profile = profile
        self.timing = timing
        self.brain = brain
        self.seats = EngineSeats(seats, on_change)
        self.metrics = EngineMetrics()
        self.cache = self._empty_cache()
        self.died_at: float | None = None
        self._on_change = on_change
        self._death_signal: asyncio.Future[None] | None = None
        self._release_signal: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the queue limit refuses the next request; running requests count, too."""
        limit = self.profile.max_queued
        return limit is not None and self.seats.running + self.seats.waiting >= limit

    @property
    def load(self) -> EngineLoad:
        """The running and waiting requests."""
        return EngineLoad(self.seats.running, self.seats.waiting, self.cache.queries, self.cache.hits)

    def die(self) -> None:
        """Kill the engine; every open reply ends in an error."""
        self.died_at = monotonic()
        if self._death_signal and not self._death_signal.done():
            self._death_signal.set_result(None)

    def revive(self) -> None:
        """Start again, with an empty cache."""
        self.died_at = None
        self._death_signal = None
        self.cache = self._empty_cache()

    def hold(self) -> None:
        """Finish no canvas until `release`."""
        if self._release_signal is None:
            self._release_signal = asyncio.get_running_loop().create_future()

    def release(self) -> None:
        """Continue after `hold`."""
        if self._release_signal is not None:
            self._release_signal.set_result(None)
            self._release_signal = None

    async def generate(
        self, job: EngineJob, keep_alive_seconds: float | None
    ) -> AsyncGenerator[Canvas | None]:
        """The canvases of a reply as they are finished; None after `keep_alive_seconds` without one.

        Close it (`aclosing`) when the reader is gone: that frees the seat.
        """
        place = self.seats.enter(job.priority if self.profile.by_priority else 0)
        try:
            while not await self._wait_for(place, None, keep_alive_seconds):
                yield None
            job.log.seated_at = monotonic()
            self._on_change()
            shape = self._write_output(job)
            assert job.output
            pause = self._delay_before_first_canvas(job)
            canvases = job.output.canvases(shape.width)
            for number, (end, text) in enumerate(canvases):
                future = self._apply_fault(job, number)
                pause += shape.delay + self.timing.canvas_time(
                    job.log.prompt_tokens + end, shape.step_limit, is_filtered=shape.is_filtered
                )
                until = monotonic() + pause if pause else None
                while not await self._wait_for(future, until, keep_alive_seconds):
                    yield None
                while self._release_signal is not None:  # held since this canvas began
                    if not await self._wait_for(self._release_signal, None, keep_alive_seconds):
                        yield None
                pause = 0.0
                self._record_canvas(job, shape, end)
                yield Canvas(text, is_last=number + 1 == len(canvases))
        finally:
            self.seats.leave(place)

    async def read_once(self, prompt: str, canvases: int, priority: int) -> tuple[int, CacheLookup]:
        """Run one denoising step for each of so many small canvases.

        Returns the prompt's tokens and the cached ones.
        """
        place = self.seats.enter(priority if self.profile.by_priority else 0)
        try:
            await self._wait_for(place, None, None)
            blocks, tokens = split_blocks(prompt)
            cached = self.cache.admit(blocks, tokens)
            pause = self.timing.prefill_seconds(
                tokens - cached.hit_tokens
            ) + canvases * self.timing.canvas_time(tokens, 1)
            await self._wait_for(self._release_signal, monotonic() + pause if pause else None, None)
            self.metrics.count_read(canvases)
            self._on_change()
            return tokens, cached
        finally:
            self.seats.leave(place)

    def _empty_cache(self) -> PrefixCache:
        if not self.profile.prefix_cache:
            return PrefixCache(capacity=0)
        return PrefixCache(dense=self.profile.dense_cache)

    def _write_output(self, job: EngineJob) -> _CanvasPlan:
        """Look the prompt up, call the brain, and end its text where the server would."""
        log = job.log
        salt = str(job.chat.body.get("cache_salt") or "")
        cached = self.cache.admit(job.blocks, log.prompt_tokens, salt)
        log.cached_tokens = cached.hit_tokens
        log.created_tokens = cached.created_tokens
        reply = self.brain(job.chat)
        if not isinstance(reply, ScriptedReply):
            reply = ScriptedReply(reply)
        if reply.crashes_engine:
            self.die()
            raise EngineDied
        knows = self.profile.diffusion_checks
        job.output = build_output(reply.text, job.chat.body, job.chat.max_tokens, detects_repetition=knows)
        if self.profile.dense_cache:
            blocks, _ = split_blocks(log.prompt + "".join(job.output.tokens), self.profile.image_tokens)
            self.cache.extend(tag_image_blocks(blocks, job.image_digests, self.profile.image_tokens), salt)
        self.metrics.prompt_tokens += log.prompt_tokens
        self.metrics.cached_tokens += cached.hit_tokens
        options: dict[str, Any] = {}
        is_filtered = False
        if self.profile.knows_canvas_limits:
            options = job.chat.body.get("vllm_xargs") or {}
        if self.profile.knows_diffusion:
            top_p = job.chat.body.get("top_p") or self.profile.default_top_p
            is_filtered = top_p < 1 or (job.chat.body.get("top_k") or 0) > 0
        limit = options.get("diffusion_max_steps")
        width = options.get("diffusion_canvas_length") or self.profile.canvas
        steps = self.timing.steps(limit, is_filtered=is_filtered)
        return _CanvasPlan(width, limit, steps, reply.canvas_delay, is_filtered)

    def _delay_before_first_canvas(self, job: EngineJob) -> float:
        if job.fault and job.fault.kind == "slow":
            slow = job.fault.seconds
        else:
            slow = 0.0
        return slow + self.timing.prefill_seconds(job.log.prompt_tokens - job.log.cached_tokens)

    def _apply_fault(self, job: EngineJob, canvas_number: int) -> asyncio.Future[None] | None:
        """Inject the request's fault if this is its canvas; returns what to wait for in addition to time."""
        if not job.fault or canvas_number != job.fault.after_canvases:
            return self._release_signal
        if job.fault.kind == "reset":
            raise ConnectionCut
        if job.fault.kind == "error_line":
            raise EngineDied
        if job.fault.kind == "silent":
            return asyncio.get_running_loop().create_future()
        return self._release_signal

    def _record_canvas(self, job: EngineJob, plan: _CanvasPlan, end: int) -> None:
        self.metrics.count_canvas(plan.width, plan.steps)
        self.metrics.generated_tokens += end - job.log.completion_tokens
        job.log.completion_tokens = end
        job.log.canvases += 1
        job.log.first_canvas_at = job.log.first_canvas_at or monotonic()
        self._on_change()

    async def _wait_for(
        self, future: asyncio.Future[None] | None, deadline: float | None, keep_alive_seconds: float | None
    ) -> bool:
        """Wait until `future` is done and `deadline` has passed.

        False if `keep_alive_seconds` pass before that.
        """
        keep_alive_at = None
        if keep_alive_seconds is not None:
            keep_alive_at = monotonic() + keep_alive_seconds
        while True:
            is_pending = future is not None and not future.done()
            if not is_pending and (deadline is None or monotonic() >= deadline):
                return True
            if keep_alive_at is not None and monotonic() >= keep_alive_at:
                return False
            wake_times = [] if keep_alive_at is None else [keep_alive_at]
            if is_pending:
                await self._sleep(future, wake_times)
            else:
                if deadline is not None:
                    wake_times.append(deadline)
                await self._sleep(None, wake_times)

    async def _sleep(self, future: asyncio.Future[None] | None, deadlines: list[float]) -> None:
        """Wait until the future is done or the first moment has come; the engine's death ends every wait."""
        if self._death_signal is None:
            self._death_signal = asyncio.get_running_loop().create_future()
        timeout = max(0.0, min(deadlines) - monotonic()) if deadlines else None
        waiting = {self._death_signal}
        if future is not None:
            waiting.add(future)
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if self._death_signal.done():
            raise EngineDied
