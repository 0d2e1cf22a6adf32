"""The simulated engine with faults: replies that stop, slow canvases, pauses, and its death."""

import asyncio
from collections.abc import AsyncGenerator
from time import monotonic
from typing import Any

from bot.sim.vllm.engine import Engine
from bot.sim.vllm.request import EngineJob
from tests.support.endpoint.brains import ScriptedReply
from tests.support.endpoint.faults import FaultyRecord


class EngineDied(Exception):
    """The engine has died, or failed this one request."""


class ConnectionCut(Exception):
    """The connection has to be cut without an answer."""


class FaultyEngine(Engine):
    """An engine of which each request may have a fault."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.died_at: float | None = None
        self._death_signal: asyncio.Future[None] | None = None
        self._release_signal: asyncio.Future[None] | None = None

    def die(self) -> None:
        """Kill the engine; every open reply ends in an error."""
        self.died_at = monotonic()
        if self._death_signal and not self._death_signal.done():
            self._death_signal.set_result(None)

    def revive(self) -> None:
        """Start again, with an empty cache."""
        self.died_at = None
        self._death_signal = None
        self.cache = self.empty_cache()

    def hold(self) -> None:
        """Finish no canvas until `release`."""
        if self._release_signal is None:
            self._release_signal = asyncio.get_running_loop().create_future()

    def release(self) -> None:
        """Continue after `hold`."""
        if self._release_signal is not None:
            self._release_signal.set_result(None)
            self._release_signal = None

    def ask_brain(self, job: EngineJob) -> str:
        """What the model writes, unless that crashes the engine."""
        text = super().ask_brain(job)
        if isinstance(text, ScriptedReply):
            find_record(job).canvas_delay = text.canvas_delay
            if text.crashes_engine:
                self.die()
                raise EngineDied
        return text

    def seconds_before_canvas(self, job: EngineJob, number: int) -> float:
        """The seconds before work on a canvas begins; raises if the request ends here by its fault."""
        log = find_record(job)
        seconds = super().seconds_before_canvas(job, number) + log.canvas_delay
        fault = log.fault
        if fault is None:
            return seconds
        if fault.kind == "slow" and number == 0:
            return seconds + fault.seconds
        if number == fault.after_canvases:
            if fault.kind == "reset":
                raise ConnectionCut
            if fault.kind == "error_line":
                raise EngineDied
            if fault.kind == "silent":
                return float("inf")
        return seconds

    async def compute(self, seconds: float, keep_alive_seconds: float | None) -> AsyncGenerator[None]:
        """Take so long, and as long as the engine is held; yields after each `keep_alive_seconds` of it."""
        async for _ in super().compute(seconds, keep_alive_seconds):
            yield
        while self._release_signal is not None:
            async for _ in self.wait_for(self._release_signal, keep_alive_seconds):
                yield

    async def sleep(self, future: asyncio.Future[None] | None, seconds: float | None) -> None:
        """Wait until the future is done or so much time has passed; the engine's death ends every wait."""
        if self._death_signal is None:
            self._death_signal = asyncio.get_running_loop().create_future()
        waiting = {self._death_signal}
        if future is not None:
            waiting.add(future)
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._death_signal.done():
            raise EngineDied


def find_record(job: EngineJob) -> FaultyRecord:
    """The record of a job, which knows its fault."""
    assert isinstance(job.log, FaultyRecord)
    return job.log
