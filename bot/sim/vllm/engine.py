"""The engine behind the simulated endpoint: the time a canvas takes, faults in mid-reply, pauses and death.

Owns seats, prefix cache and counters. Yields canvases; knows nothing of HTTP.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from time import monotonic

from bot.sim.gemma.tokens import blocks_of
from bot.sim.vllm.images import told_apart
from bot.sim.vllm.metrics import Load, Metrics
from bot.sim.vllm.output import write
from bot.sim.vllm.prefix_cache import Cached, PrefixCache
from bot.sim.vllm.profile import Profile, Timing
from bot.sim.vllm.request import Canvas, Job
from bot.sim.vllm.script import Brain, Reply
from bot.sim.vllm.seats import Seats


class EngineDied(Exception):
    """The engine is gone, or failed this one request."""


class ConnectionCut(Exception):
    """The connection is to be cut without another word."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a request's canvases are like: tokens, denoising steps, and seconds more than the timing says."""

    width: int
    limit: int | None
    steps: int
    delay: float


class Engine:
    """One model on one GPU. `changed` is called whenever a count here changes."""

    def __init__(
        self, profile: Profile, timing: Timing, seats: int, brain: Brain, changed: Callable[[], None]
    ) -> None:
        self.profile = profile
        self.timing = timing
        self.brain = brain
        self.seats = Seats(seats, changed)
        self.metrics = Metrics()
        self.cache = self._empty_cache()
        self.died_at: float | None = None
        self._changed = changed
        self._death: asyncio.Future[None] | None = None
        self._held: asyncio.Future[None] | None = None

    @property
    def full(self) -> bool:
        """Whether the queue limit refuses the next request; it counts those that run, too."""
        limit = self.profile.max_queued
        return limit is not None and self.seats.running + self.seats.waiting >= limit

    @property
    def load(self) -> Load:
        """What runs and waits now."""
        return Load(self.seats.running, self.seats.waiting, self.cache.queries, self.cache.hits)

    def die(self) -> None:
        """The engine is gone; every open reply ends in an error."""
        self.died_at = monotonic()
        if self._death and not self._death.done():
            self._death.set_result(None)

    def revive(self) -> None:
        """Start again, with an empty cache."""
        self.died_at = None
        self._death = None
        self.cache = self._empty_cache()

    def hold(self) -> None:
        """No canvas is finished until `release`."""
        if self._held is None:
            self._held = asyncio.get_running_loop().create_future()

    def release(self) -> None:
        """Go on after `hold`."""
        if self._held is not None:
            self._held.set_result(None)
            self._held = None

    async def generate(self, job: Job, tick: float | None) -> AsyncGenerator[Canvas | None]:
        """The canvases of a reply as they are done; None each time `tick` seconds have passed with nothing to
        say.

        Close it (`aclosing`) when the reader is gone: that frees the seat.
        """
        place = self.seats.enter(job.priority if self.profile.by_priority else 0)
        try:
            while not await self._passed(place, None, tick):
                yield None
            job.log.seated = monotonic()
            self._changed()
            shape = self._think(job)
            assert job.output
            pause = self._before_first(job)
            canvases = job.output.canvases(shape.width)
            for number, (end, text) in enumerate(canvases):
                future = self._strike(job, number)
                pause += self.timing.canvas_time(job.log.prompt_tokens + end, shape.limit) + shape.delay
                until = monotonic() + pause if pause else None
                while not await self._passed(future, until, tick):
                    yield None
                pause = 0.0
                self._count(job, shape, end)
                yield Canvas(text, end, last=number + 1 == len(canvases))
        finally:
            self.seats.leave(place)

    async def read(self, prompt: str, canvases: int, priority: int) -> tuple[int, Cached]:
        """One denoising step for each of so many small canvases; returns the prompt's tokens and the cached
        ones.
        """
        place = self.seats.enter(priority if self.profile.by_priority else 0)
        try:
            await self._passed(place, None, None)
            blocks, tokens = blocks_of(prompt)
            cached = self.cache.admit(blocks, tokens)
            pause = self.timing.prefill_seconds(tokens - cached.hit) + canvases * self.timing.canvas_time(
                tokens, 1
            )
            await self._passed(self._held, monotonic() + pause if pause else None, None)
            self.metrics.read(canvases)
            self._changed()
            return tokens, cached
        finally:
            self.seats.leave(place)

    def _empty_cache(self) -> PrefixCache:
        if not self.profile.prefix_cache:
            return PrefixCache(capacity=0)
        return PrefixCache(dense=self.profile.dense_cache)

    def _think(self, job: Job) -> _Shape:
        """Look the prompt up, ask the brain, and end its text where the server would."""
        log = job.log
        salt = str(job.chat.body.get("cache_salt") or "")
        cached = self.cache.admit(job.blocks, log.prompt_tokens, salt)
        log.cached_tokens = cached.hit
        log.created_tokens = cached.created
        said = self.brain(job.chat)
        reply = said if isinstance(said, Reply) else Reply(said)
        if reply.crash:
            self.die()
            raise EngineDied
        knows = self.profile.diffusion_checks
        job.output = write(reply.text, job.chat.body, job.chat.max_tokens, detects_repetition=knows)
        if self.profile.dense_cache:
            whole, _ = blocks_of(log.prompt + "".join(job.output.tokens))
            self.cache.extend(told_apart(whole, job.pictures), salt)
        self.metrics.prompt_tokens += log.prompt_tokens
        self.metrics.cached_tokens += cached.hit
        options = (job.chat.body.get("vllm_xargs") or {}) if knows else {}
        limit = options.get("diffusion_max_steps")
        width = options.get("diffusion_canvas_length") or self.profile.canvas
        return _Shape(width, limit, self.timing.steps(limit), reply.delay)

    def _before_first(self, job: Job) -> float:
        if job.fault and job.fault.kind == "slow":
            slow = job.fault.seconds
        else:
            slow = 0.0
        return slow + self.timing.prefill_seconds(job.log.prompt_tokens - job.log.cached_tokens)

    def _strike(self, job: Job, number: int) -> asyncio.Future[None] | None:
        """Let the request's fault happen if this is its canvas; returns what to wait for besides time."""
        if not job.fault or number != job.fault.after_canvases:
            return self._held
        if job.fault.kind == "reset":
            raise ConnectionCut
        if job.fault.kind == "error_line":
            raise EngineDied
        if job.fault.kind == "silent":
            return asyncio.get_running_loop().create_future()
        return self._held

    def _count(self, job: Job, shape: _Shape, end: int) -> None:
        self.metrics.canvas(shape.width, shape.steps)
        self.metrics.generated_tokens += end - job.log.completion_tokens
        job.log.completion_tokens = end
        job.log.canvases += 1
        job.log.first = job.log.first or monotonic()
        self._changed()

    async def _passed(
        self, future: asyncio.Future[None] | None, until: float | None, tick: float | None
    ) -> bool:
        """Wait until `future` is done and the clock shows `until`; False if a tick went by before that."""
        bell = None if tick is None else monotonic() + tick
        while True:
            waits = future is not None and not future.done()
            if not waits and (until is None or monotonic() >= until):
                return True
            if bell is not None and monotonic() >= bell:
                return False
            await self._sleep(
                future if waits else None, [at for at in (None if waits else until, bell) if at is not None]
            )

    async def _sleep(self, future: asyncio.Future[None] | None, moments: list[float]) -> None:
        """Until the future is done or the first moment has come; the engine's death ends every sleep."""
        if self._death is None:
            self._death = asyncio.get_running_loop().create_future()
        timeout = max(0.0, min(moments) - monotonic()) if moments else None
        waiting = {self._death} if future is None else {self._death, future}
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if self._death.done():
            raise EngineDied
