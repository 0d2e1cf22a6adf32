"""Disturbs everything around the gateway: Telegram, the endpoint and the database."""

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass
from functools import partial

from bot.sim.telegram.server import BotApiCall
from tests.chaos.journal import Disturbance
from tests.chaos.state import ChaosRun
from tests.chaos.stores import ChaosStore, bring_jobs_forward
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.server import BotApiFault

MAX_OUTAGE_SECONDS = 6.0
MAX_QUIET_SECONDS = 10.0
MAX_MESSAGES_BETWEEN = 20  # one thing and the next
MAX_FEW_MESSAGES_BETWEEN = 4  # in a short run
MESSAGES_PER_OUTAGE = 200
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
    store: ChaosStore
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
            longest = MAX_MESSAGES_BETWEEN if self.run.options.is_long else MAX_FEW_MESSAGES_BETWEEN
            await self._wait_for_messages(self.rng.randint(1, longest))
            self.harvest_endpoint_faults()
            await bring_jobs_forward(self.run, self.store)
            await self._disturb_once()
        self.harvest_endpoint_faults()

    async def _wait_for_messages(self, count: int) -> None:
        """Wait until people have written so many more, or enough, or have waited long."""
        last = len(self.run.requests) + count
        with contextlib.suppress(TimeoutError):
            await self.run.environment.api.wait_until(
                lambda: self.run.is_over or len(self.run.requests) >= last, MAX_QUIET_SECONDS
            )

    async def _disturb_once(self) -> None:
        written = len(self.run.requests)
        if written >= MESSAGES_PER_OUTAGE * self.run.outages + 20:
            await self.store.disturb(self.run, self.rng)
            self.run.outages += 1
        elif self.run.options.is_long and written >= MESSAGES_PER_SILENCE * (self._silences + 1):
            self._silences += 1
            self.run.environment.endpoint.inject_fault("silent", after_canvases=1)
        elif self.rng.random() < 0.1:
            await self._cut_telegram()
        else:
            kind = self.rng.choices([*ENDPOINT_FAULTS], [*ENDPOINT_FAULTS.values()])[0]
            await self._disturb_endpoint(self.run.environment.endpoint, kind)

    async def _cut_telegram(self) -> None:
        """Cut every call for some seconds, before or after its effect."""
        fault = self.rng.choice((BotApiFault.drop(), BotApiFault.accept_then_drop()))
        injection = self.run.environment.api.inject_fault(fault, times=None)
        with self.run.noting("Telegram away"):
            await asyncio.sleep(self.rng.uniform(0.5, MAX_OUTAGE_SECONDS))
        injection.lift()

    async def _disturb_endpoint(self, endpoint: ScriptedEndpoint, kind: str) -> None:
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
