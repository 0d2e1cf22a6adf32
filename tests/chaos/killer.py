"""Ends a gateway again and again: with kill -9 at chosen moments, or twice in a row, and with SIGTERM."""

import asyncio
import contextlib
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from bot.db.queues.outbox import UNSURE_TEXT
from bot.sim.telegram.server import BotApiCall
from tests.chaos.callers import find_caller
from tests.chaos.marks import read_marks
from tests.chaos.state import ChaosRun
from tests.kill.gateway import PATIENCE, GatewayProcess
from tests.support.telegram.server import BotApiFault

MIGRATION_KILLS = 4  # while the first starts migrate the database
MAX_CALLS_PER_LIFE = 40  # to Telegram, before a kill is prepared
AIM_SECONDS = 8.0  # until a moment that does not come is given up
MAX_START_SECONDS = 1.0  # in which a kill hits a start
MAX_DOWN_SECONDS = 8.0  # between an end and the next start, now and then


def is_partial(call: BotApiCall) -> bool:
    """Whether a call shows the beginning of an answer without its end."""
    words = {mark.word for mark in read_marks(call.text)}
    return any(word.startswith("B") and f"E{word[1:]}" not in words for word in words)


MOMENTS: dict[str, tuple[str | None, Callable[[BotApiCall], bool]]] = {
    "sent": ("sendMessage", lambda call: True),
    "streaming": (None, is_partial),
    "edited": ("editMessageText", lambda call: True),
    "tap answered": ("answerCallbackQuery", lambda call: True),
    "question sent": ("sendMessage", lambda call: call.text == UNSURE_TEXT),
    "polled": ("getUpdates", lambda call: True),
}
"""Calls of the gateway at which it is killed: before they take effect, or after, when the answer is lost."""

AIMS = {
    "sent": 20,
    "streaming": 20,
    "edited": 20,
    "tap answered": 4,
    "question sent": 4,
    "polled": 6,
    "commit": 12,
    "starting": 8,
    "twice": 8,
    "any moment": 10,
    "SIGTERM": 12,
}


@dataclass
class Killer:
    """Starts the gateway of this number and ends it; `calls` are those of this life to Telegram."""

    run: ChaosRun
    rng: random.Random
    number: int = 0
    calls: int = 0

    @property
    def gateway(self) -> GatewayProcess:
        return self.run.gateways[self.number]

    def count(self, call: BotApiCall) -> bool:
        """Count a call of this gateway; it is not hit."""
        if self._is_caller():
            self.calls += 1
            if call.method == "getUpdates":
                self.run.poller = self.number
        return False

    def _is_caller(self) -> bool:
        return find_caller() == self.number

    async def end_gateways(self) -> None:
        """Start and end gateways until the run is over; the last one is left to run, if it does."""
        gateway = self.gateway
        kill_count = 0 if self.run.options.replicas else min(MIGRATION_KILLS, self.run.options.kills // 4)
        for _ in range(kill_count):
            await gateway.spawn()
            await self._kill_within(MAX_START_SECONDS, "while it migrates")
        while not self.run.is_over:
            self.calls = 0
            await gateway.spawn()
            if not await self._live():
                continue
            async with self.run.ending:
                await self._end(self.rng.choices([*AIMS], [*AIMS.values()])[0])
            if self.rng.random() < 0.2:
                with self.run.noting("down"):
                    await asyncio.sleep(self.rng.uniform(0.5, MAX_DOWN_SECONDS))

    async def _live(self) -> bool:
        """Wait until it is time for an end; False if the run is over, or the process has ended by itself."""
        last_call = self.rng.randint(3, MAX_CALLS_PER_LIFE)
        environment = self.run.environment
        while self.gateway.is_running and not self.run.is_over:
            with contextlib.suppress(TimeoutError):
                await environment.api.wait_until(lambda: self._is_time(last_call), 1.0)
                return not self.run.is_over and self.gateway.is_running
        if not self.run.is_over:
            await self._record_exit(set())
        return False

    def _is_time(self, last_call: int) -> bool:
        options = self.run.options
        is_due = self.run.kills < 1 + options.kills * self.run.progress
        is_free = not self.run.ending.locked()  # else another replica is about to be ended
        return self.run.is_over or (is_due and is_free and self.calls >= last_call)

    async def _end(self, aim: str) -> None:
        match aim:
            case "SIGTERM":
                await self._terminate()
            case "twice":
                await self._kill_within(0.0, "the first of two")
                await self.gateway.spawn()
                await self._kill_within(MAX_START_SECONDS / 2, "the second of two")
            case "starting":
                await self._kill_within(0.0, "before a start")
                await self.gateway.spawn()
                await self._kill_within(MAX_START_SECONDS, "at the start")
            case "any moment":
                await self._kill_within(MAX_START_SECONDS / 4, "at any moment")
            case "commit":
                await self._kill_at_commit()
            case _:
                await self._kill_at_call(aim)

    async def _kill_at_call(self, aim: str) -> None:
        """Kill it at its next call of a kind, which takes effect or not; at any moment if there is none."""
        method, matches = MOMENTS[aim]
        takes_effect = self.rng.random() < 0.5

        def kill_if_matching(call: BotApiCall) -> bool:
            if not self._is_caller() or not matches(call):
                return False
            self._kill(f"{aim}, {'after' if takes_effect else 'before'} its effect")
            return True

        fault = BotApiFault() if takes_effect else BotApiFault.drop()
        injection = self.run.environment.api.inject_fault(fault, method, when=kill_if_matching)
        await self._wait_for_exit(AIM_SECONDS)
        injection.lift()
        await self._kill_within(0.0, "at any moment")

    async def _kill_at_commit(self) -> None:
        """Have it kill itself around one of its next commits."""
        when = f"{self.rng.choice(('before', 'after'))} {self.rng.randint(1, 12)}"
        await self.gateway.arm(when)
        if await self._wait_for_exit(AIM_SECONDS):
            self.run.note(f"kill -9 {when} commits")
        await self._kill_within(0.0, "at any moment")

    async def _kill_within(self, seconds: float, why: str) -> None:
        """Kill it at a random moment of so many seconds, if it still runs; record how it ended."""
        if seconds:
            await self._wait_for_exit(self.rng.uniform(0.0, seconds))
        self._kill(why)
        await self._record_exit({-signal.SIGKILL})

    def _kill(self, why: str) -> None:
        if self.gateway.is_running:
            with contextlib.suppress(ProcessLookupError):
                self.gateway.signal(signal.SIGKILL)
                self.run.note(f"kill -9 {why}")

    async def _terminate(self) -> None:
        self.run.terminated = self.gateway
        with self.run.noting("SIGTERM"):
            with contextlib.suppress(ProcessLookupError):
                self.gateway.signal(signal.SIGTERM)
            if not await self._wait_for_exit(PATIENCE):
                self.run.exit_codes.append(-signal.SIGTERM)  # it did not end in time
                self._kill("after SIGTERM")
        self.run.terminated = None
        self.run.terminations += 1
        # It may just have been spawned, if late calls of the last process were counted.
        await self._record_exit({0, -signal.SIGTERM, -signal.SIGKILL})

    async def _record_exit(self, expected_codes: set[int]) -> None:
        """Count a kill; remember a process that ended otherwise."""
        code = await self.gateway.wait_for_exit()
        if code == -signal.SIGKILL:
            self.run.kills += 1
            self.run.leader_kills += self.run.poller == self.number
        if code not in expected_codes:
            self.run.exit_codes.append(code)

    async def _wait_for_exit(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.gateway.wait_for_exit()
        except TimeoutError:
            return False
        return True
