"""How much a chaos run is to do, and what it has come to; its people, killer and disturber share it."""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.journal import ButtonTap, Disturbance, WrittenRequest
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayProcess

LONG_RUN_MESSAGES = 500  # a run of at least so many also has the faults that take half a minute and more
MAX_EXITS = 5  # of gateways that nobody ended, after which a run is given up


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """How much is written, by how many people, and how often the gateway is killed meanwhile.

    `minutes`: after which nothing more is written, whatever has been reached.
    `replicas`: so many gateways on one PostgreSQL database; 0: one on a file of SQLite.
    """

    seed: int = 1
    messages: int = 2000
    chats: int = 40
    kills: int = 150
    minutes: float = 60.0
    replicas: int = 0

    @property
    def is_long(self) -> bool:
        return self.messages >= LONG_RUN_MESSAGES


@dataclass
class ChaosRun:
    """What is known of a run while it lasts; `stops` are chats and moments of a /stop or a tap on Stop.

    `gateways`: all replicas. `terminated`: one that ends in order now. `ending`: held while one is ended.
    `outages`: how often the database was made to fail.
    `poller`: the number of the replica that asked Telegram for updates last.
    """

    options: ChaosOptions
    environment: KillEnvironment
    gateways: Sequence[GatewayProcess]
    terminated: GatewayProcess | None = None
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)
    poller: int = 0
    is_over: bool = False
    outages: int = 0
    kills: int = 0
    leader_kills: int = 0
    terminations: int = 0
    requests: dict[int, WrittenRequest] = field(default_factory=dict)
    taps: list[ButtonTap] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    stops: list[tuple[int, float]] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    odd_updates: set[int] = field(default_factory=set)
    exit_codes: list[int] = field(default_factory=list)
    _started_at: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._started_at

    @property
    def progress(self) -> float:
        """The share of the messages that is written."""
        return len(self.requests) / self.options.messages

    def has_written_enough(self) -> bool:
        """Whether nothing more is to be written."""
        is_complete = self.progress >= 1 and self.kills >= self.options.kills and self.outages
        is_hopeless = len(self.exit_codes) >= MAX_EXITS
        return bool(is_complete) or is_hopeless or self.seconds > 60 * self.options.minutes

    def seeded(self, name: str) -> random.Random:
        """A source of chance for one purpose."""
        return random.Random(f"{self.options.seed} {name}")

    def note(self, name: str, chat: int = 0) -> None:
        """Remember what is done to the gateway now."""
        now = time.time()
        self.disturbances.append(Disturbance(now, now, name, chat))

    @contextlib.contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Remember what is done while the block runs."""
        started_at = time.time()
        try:
            yield
        finally:
            self.disturbances.append(Disturbance(started_at, time.time(), name))
