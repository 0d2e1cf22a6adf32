"""Keeps the demo's gateway running: starts its process, and starts it again when it was killed.

Owns the process, and what was measured of each time without one.
"""

import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from bot.errors import CanvasgramError

STOP_SECONDS = 1.0  # for the gateway to end; its database is deleted in any case
MAX_LINE_BYTES = 4 << 20
_PROGRAM = "import gc, sys; gc.disable(); sys.path = {path!r}; from bot.demo.gateway import main; main()"


class GatewayEnded(CanvasgramError):
    """The gateway has ended by itself."""


@dataclass(slots=True)
class Outage:
    """A time without a gateway: `seconds` after `killed_at` the next one could answer; None: none can."""

    killed_at: float
    seconds: float | None = None


class GatewayProcess:
    """Call `run` at once, and set `order` later: the process imports what it needs meanwhile.

    `report`: the last that it told of its newest turn. `ready` is set once it could answer.
    """

    def __init__(self) -> None:
        self.order: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.outages: list[Outage] = []
        self.ready = asyncio.Event()
        self.report: dict[str, Any] | None = None
        self._process: Process | None = None
        self._is_closing = False
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return self._process.pid if self._process is not None else None

    def kill(self) -> None:
        """kill -9. Raises ValueError if it is down."""
        if self._process is None or self._is_down:
            raise ValueError("The gateway is down already.")
        self.outages.append(Outage(time.time()))
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def run(self) -> None:
        """Keep it running until `close`. Raises GatewayEnded if it ends by itself."""
        try:
            while not self._is_closing:
                code = await self._run_process()
                if not self._is_closing and (code >= 0 or not self.ready.is_set()):
                    raise GatewayEnded(f"The gateway ended by itself with code {code}.")
                if not self._is_down:
                    self.outages.append(Outage(time.time()))  # somebody else has killed it
        finally:
            self._ended.set()

    async def close(self) -> None:
        """Let it end as on SIGTERM, if it can within STOP_SECONDS."""
        self._is_closing = True
        self.order.cancel()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._ended.wait()

    @property
    def _is_down(self) -> bool:
        return bool(self.outages) and self.outages[-1].seconds is None

    async def _run_process(self) -> int:
        """Run a process until it ends; returns its exit code. Kills it if cancelled."""
        self._process = process = await _start_process()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            order = await asyncio.shield(self.order)
            process.stdin.write(f"{json.dumps(order)}\n".encode())
            async for line in process.stdout:
                self._hear(json.loads(line))
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _hear(self, report: dict[str, Any]) -> None:
        if "is_ready" in report:
            self.ready.set()
            if self._is_down:
                self.outages[-1].seconds = time.time() - self.outages[-1].killed_at
            return
        if self.outages and self.report is not None and self.report["item"] == report["item"]:
            self._add_past(report, self.report, self.outages[-1].killed_at)
        self.report = report

    @staticmethod
    def _add_past(report: dict[str, Any], previous: dict[str, Any], killed_at: float) -> None:
        """Let a report begin with all that a killed process told, also of what it had not stored."""
        past = [span for span in previous["spans"] if span[1] < killed_at]
        report["spans"] = [*past, *(span for span in report["spans"] if span[1] >= killed_at)]
        report["block_times"] = sorted({*previous["block_times"], *report["block_times"]})


async def _start_process() -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _PROGRAM.format(path=sys.path)),
        stdin=PIPE,
        stdout=PIPE,
        limit=MAX_LINE_BYTES,
        start_new_session=True,  # Ctrl-C is for the demo, which ends it
    )


@contextlib.asynccontextmanager
async def run_gateway() -> AsyncIterator[GatewayProcess]:
    """A gateway that runs while the block does, once it has its order."""
    gateway = GatewayProcess()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(gateway.run(), name="gateway")
        try:
            yield gateway
        finally:
            await gateway.close()
            running.cancel()
