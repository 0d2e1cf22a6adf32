"""Disturbs everything around the gateway: Telegram, the endpoint, the database's lock and the disk."""

import asyncio
import contextlib
import random
import resource
import sqlite3
import time
from dataclasses import dataclass
from functools import partial

from bot.sim.telegram.server import BotApiCall, BotApiFault
from bot.sim.vllm.server import SimulatedEndpoint
from tests.chaos.journal import Disturbance
from tests.chaos.state import ChaosRun
from tests.support.held_database import FULL_DISK_BYTES, hold_database

MAX_LOCK_SECONDS = 12.0
MAX_SHORT_LOCK_SECONDS = 2.0
MAX_OUTAGE_SECONDS = 6.0
MESSAGES_PER_LOCK = 200
MESSAGES_PER_SILENCE = 700
WRITES = ("sendMessage", "editMessageText")
CALLS = ("getUpdates", "sendMessageDraft", "sendChatAction", "getFile", "answerCallbackQuery", *WRITES)

TELEGRAM_FAULTS: tuple[tuple[str, BotApiFault, tuple[str, ...], float], ...] = (
    ("dropped", BotApiFault.drop(), CALLS, 0.01),
    ("answer lost", BotApiFault.accept_then_drop(), CALLS, 0.01),
    ("late", BotApiFault.slow(0.3), CALLS, 0.02),
    ("answered late", BotApiFault.slow(0.3, after_effect=True), CALLS, 0.02),
    ("429", BotApiFault.flood(1), CALLS, 0.01),
    ("502", BotApiFault.server_error(), CALLS, 0.01),
    ("500", BotApiFault.server_error(500, html=False), CALLS, 0.004),
    ("500 after its effect", BotApiFault.server_error(500, html=False, takes_effect=True), WRITES, 0.004),
    ("entities refused", BotApiFault.refuse("Bad Request: can't parse entities"), WRITES, 0.02),
    ("refused", BotApiFault.refuse("Bad Request: message is not allowed"), CALLS[1:5], 0.01),
)
"""Name, fault, methods, and the share of their calls that it hits."""
HANGS = (
    ("hung", BotApiFault.hang(), CALLS, 0.001),
    ("hung after its effect", BotApiFault.hang(after_effect=True), CALLS, 0.001),
)
ENDPOINT_FAULTS = {
    "busy": 5,
    "reset": 6,
    "error_line": 5,
    "slow": 4,
    "no_usage": 3,
    "crash": 3,
    "unauthorized": 1,
    "loading": 2,
    "refusing": 3,
}


@dataclass
class Disturber:
    """Makes what is around the gateway fail, one thing after the other, and Telegram all along."""

    run: ChaosRun
    rng: random.Random
    _locks: int = 0
    _silences: int = 0
    _harvested_at: float = 0.0

    def prepare(self) -> None:
        """Let Telegram fail a share of all calls from now on."""
        faults = TELEGRAM_FAULTS + (HANGS if self.run.options.is_long else ())
        for name, fault, methods, share in faults:
            for method in methods:
                hits = partial(self._draws, name, share)
                self.run.environment.api.inject_fault(fault, method, when=hits, times=None)

    def _draws(self, name: str, share: float, call: BotApiCall) -> bool:
        if self.run.is_over or self.rng.random() >= share:
            return False
        if name == "entities refused" and not call.params.text("entities"):
            return False
        self.run.note(f"{call.method}: {name}", call.chat_id)
        return True

    async def disturb(self) -> None:
        """Do one thing after the other until the run is over."""
        while not self.run.is_over:
            await asyncio.sleep(self.rng.uniform(0.5, 4.0))
            self.harvest_endpoint_faults()
            bring_jobs_forward(self.run)
            await self._disturb_once()
        self.harvest_endpoint_faults()

    async def _disturb_once(self) -> None:
        written = len(self.run.requests)
        if written >= MESSAGES_PER_LOCK * self._locks + 20:
            self._locks += 1
            await self._hold_lock()
            await self._fill_disk()
        elif self.run.options.is_long and written >= MESSAGES_PER_SILENCE * (self._silences + 1):
            self._silences += 1
            self.run.environment.endpoint.inject_fault("silent", after_canvases=1)
        elif self.rng.random() < 0.1:
            await self._cut_telegram()
        else:
            kind = self.rng.choices([*ENDPOINT_FAULTS], [*ENDPOINT_FAULTS.values()])[0]
            await self._disturb_endpoint(self.run.environment.endpoint, kind)

    async def _hold_lock(self) -> None:
        """Have another process hold the database."""
        longest = MAX_LOCK_SECONDS if self.run.options.is_long else MAX_SHORT_LOCK_SECONDS
        statement = self.rng.choice(("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"))
        seconds = self.rng.uniform(longest / 2, longest)
        async with hold_database(self.run.environment.folder / "gateway.db", statement):
            with self.run.noting(f"database held for {seconds:.1f} s"):
                await asyncio.sleep(seconds)

    async def _fill_disk(self) -> None:
        """Let this process write nothing for a while; the next one may."""
        with self.run.noting("disk full"):
            self._limit_file_size(FULL_DISK_BYTES)
            await asyncio.sleep(self.rng.uniform(0.5, 3.0))
            self._limit_file_size(resource.RLIM_INFINITY)

    def _limit_file_size(self, byte_count: int) -> None:
        if self.run.environment.gateway.is_running:
            with contextlib.suppress(ProcessLookupError):
                self.run.environment.gateway.limit_file_size(byte_count)

    async def _cut_telegram(self) -> None:
        """Cut every call for some seconds, before or after its effect."""
        fault = self.rng.choice((BotApiFault.drop(), BotApiFault.accept_then_drop()))
        injection = self.run.environment.api.inject_fault(fault, times=None)
        with self.run.noting("Telegram away"):
            await asyncio.sleep(self.rng.uniform(0.5, MAX_OUTAGE_SECONDS))
        injection.lift()

    async def _disturb_endpoint(self, endpoint: SimulatedEndpoint, kind: str) -> None:
        match kind:
            case "loading":
                with self.run.noting("model loading"):
                    endpoint.simulate_loading(2.0)
                    await asyncio.sleep(2.0)
            case "refusing":
                with self.run.noting("model refuses connections"):
                    endpoint.refuse_connections(2.0)
                    await asyncio.sleep(2.0)
            case "crash":
                with self.run.noting("model crashed"):
                    endpoint.inject_fault("crash", after_canvases=self.rng.randint(0, 2))
                    await asyncio.sleep(self.rng.uniform(1.0, 3.0))
                    endpoint.heal()
            case "busy" | "reset" | "error_line" | "slow" | "no_usage" | "unauthorized":
                endpoint.inject_fault(kind, after_canvases=self.rng.randint(0, 3), seconds=1.0)

    def harvest_endpoint_faults(self) -> None:
        """Remember which of the endpoint's requests since the last time were hit."""
        since = self._harvested_at
        self._harvested_at = time.monotonic()
        offset = time.time() - time.monotonic()
        for request in self.run.environment.endpoint.requests:
            if request.fault_kind is not None and request.received_at >= since:
                started_at = request.received_at + offset
                name = f"model {request.fault_kind}"
                self.run.disturbances.append(Disturbance(started_at, started_at + 1.0, name))


def bring_jobs_forward(run: ChaosRun) -> None:
    """Let every second job that is far off be due within seconds, and in a short run each: a minute is long.

    Also while the gateway is down. A database that is held is left alone.
    """
    now = time.time()
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(run.environment.folder / "gateway.db", timeout=0)) as connection,
        connection,
    ):
        connection.execute(
            "update jobs set next_due = ? + id % 10 where kind != 'system' and next_due > ? and id % ? = 0",
            (now, now + 10, 2 if run.options.is_long else 1),
        )
