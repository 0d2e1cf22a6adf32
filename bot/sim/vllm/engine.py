"""The engine behind the simulated endpoint: what a canvas is and how long it takes.

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
from bot.sim.vllm.script import Brain
from bot.sim.vllm.seats import EngineSeats


@dataclass(frozen=True, slots=True)
class _CanvasPlan:
    """The canvases of a request: their tokens and denoising steps."""

    width: int
    step_limit: int | None
    steps: int
    is_filtered: bool


class Engine:
    """One model on one GPU. `on_change` is called whenever a count here changes."""

    def __init__(
        self,
        profile: Profile,
        timing: Timing,
        seats: int,
        brain: Brain,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.profile = profile
        self.timing = timing
        self.brain = brain
        self.seats = EngineSeats(seats, on_change)
        self.metrics = EngineMetrics()
        self.cache = self.empty_cache()
        self.on_change = on_change

    @property
    def load(self) -> EngineLoad:
        """The running and waiting requests."""
        return EngineLoad(self.seats.running, self.seats.waiting, self.cache.queries, self.cache.hits)

    async def generate(
        self, job: EngineJob, keep_alive_seconds: float | None
    ) -> AsyncGenerator[Canvas | None]:
        """The canvases of a reply as they are finished; None after `keep_alive_seconds` without one.

        Close it (`aclosing`) when the reader is gone: that frees the seat.
        """
        place = self.seats.enter(job.priority if self.profile.by_priority else 0)
        try:
            if place is not None:
                async for _ in self.wait_for(place, keep_alive_seconds):
                    yield None
            job.log.seated_at = monotonic()
            self.on_change()
            shape = self._write_output(job)
            assert job.output
            canvases = job.output.canvases(shape.width)
            for number, (end, text) in enumerate(canvases):
                pause = self.seconds_before_canvas(job, number) + self.timing.canvas_time(
                    job.log.prompt_tokens + end, shape.step_limit, is_filtered=shape.is_filtered
                )
                async for _ in self.compute(pause, keep_alive_seconds):
                    yield None
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
            if place is not None:
                await self.sleep(place, None)
            blocks, tokens = split_blocks(prompt)
            cached = self.cache.admit(blocks, tokens)
            pause = self.timing.prefill_seconds(
                tokens - cached.hit_tokens
            ) + canvases * self.timing.canvas_time(tokens, 1)
            async for _ in self.compute(pause, None):
                pass
            self.metrics.count_read(canvases)
            self.on_change()
            return tokens, cached
        finally:
            self.seats.leave(place)

    def empty_cache(self) -> PrefixCache:
        """The prefix cache of a server that has just started."""
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
        text = self.ask_brain(job)
        knows = self.profile.diffusion_checks
        job.output = build_output(text, job.chat.body, job.chat.max_tokens, detects_repetition=knows)
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
        return _CanvasPlan(width, limit, steps, is_filtered)

    def ask_brain(self, job: EngineJob) -> str:
        """What the model writes."""
        return self.brain(job.chat)

    def seconds_before_canvas(self, job: EngineJob, number: int) -> float:
        """The seconds before work on a canvas begins: of the prompt, before the first."""
        if number:
            return 0.0
        return self.timing.prefill_seconds(job.log.prompt_tokens - job.log.cached_tokens)

    async def compute(self, seconds: float, keep_alive_seconds: float | None) -> AsyncGenerator[None]:
        """Take so long; yields after each `keep_alive_seconds` of it."""
        deadline = monotonic() + seconds
        while (left := deadline - monotonic()) > 0:
            pause = left if keep_alive_seconds is None else min(left, keep_alive_seconds)
            await self.sleep(None, pause)
            if pause < left:
                yield

    def _record_canvas(self, job: EngineJob, plan: _CanvasPlan, end: int) -> None:
        self.metrics.count_canvas(plan.width, plan.steps)
        self.metrics.generated_tokens += end - job.log.completion_tokens
        job.log.completion_tokens = end
        job.log.canvases += 1
        job.log.first_canvas_at = job.log.first_canvas_at or monotonic()
        self.on_change()

    async def wait_for(
        self, future: asyncio.Future[None], keep_alive_seconds: float | None
    ) -> AsyncGenerator[None]:
        """Wait until `future` is done; yields after each `keep_alive_seconds` before that."""
        while not future.done():
            await self.sleep(future, keep_alive_seconds)
            if not future.done():
                yield

    async def sleep(self, future: asyncio.Future[None] | None, seconds: float | None) -> None:
        """Wait until the future is done or so much time has passed."""
        await asyncio.wait({future or asyncio.get_running_loop().create_future()}, timeout=seconds)
