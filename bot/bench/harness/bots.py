"""The bots that are measured: how each is started as a process of its own, and what it costs the machine.

Owns the processes. Their environment holds only what is set here, so that no real token of this machine is
used.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import bot
from bot.bench.harness.statistics import BotName
from bot.errors import CanvasgramError

BOT_LABELS: dict[BotName, str] = {"ours": "ours", "memory": "memory loop", "bare": "bare loop"}
ADMIN_ID = 1  # of ours
STOP_SECONDS = 10.0
MIB = 1 << 20

SOURCE_FOLDER = Path(bot.__file__).resolve().parent.parent
# As in the image and the unit of the operations page, for all bots alike.
_ALLOCATOR_SETTINGS = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "65536"}
_MAX_LAST_LINES = 5


class BenchFailed(CanvasgramError):
    """A measurement could not be made; the text says which bot did what."""


@dataclass(frozen=True, slots=True)
class BotEnvironment:
    """What a bot is connected to: the two simulators, and its own folder.

    For ours alone: `settings`, and whether it calls Telegram without limits (`has_rate_limits` is False).
    """

    token: str
    telegram_url: str
    model_url: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    has_rate_limits: bool = True


class BotProcess:
    """One process of a bot."""

    def __init__(
        self, name: BotName, process: asyncio.subprocess.Process, log_file: Path, started_at: float
    ) -> None:
        self.name = name
        self.started_at = started_at
        self.end_expected = False
        self._process = process
        self._proc = Path(f"/proc/{process.pid}")
        self._log_file = log_file

    async def watch(self) -> None:
        """Wait until the process has ended; raises BenchFailed if nobody ended it."""
        code = await self._process.wait()
        if not self.end_expected:
            raise BenchFailed(
                f"{BOT_LABELS[self.name]} ended by itself with code {code}: {self.last_output()}"
            )

    def last_output(self) -> str:
        """The end of what it has printed, on one line."""
        lines = self._log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-_MAX_LAST_LINES:]
        return " | ".join(line.strip() for line in lines) or "(it printed nothing)"

    async def kill(self) -> None:
        """End it as a power cut would."""
        await self._end_with(signal.SIGKILL)

    async def stop(self) -> None:
        """End it in order, and after a timeout by force."""
        try:
            async with asyncio.timeout(STOP_SECONDS + 1):
                await self._end_with(signal.SIGTERM)
        except TimeoutError:
            await self._end_with(signal.SIGKILL)

    def read_cpu_seconds(self) -> float | None:
        """Seconds of processor time so far, of all its threads and ended children; None without /proc."""
        return read_cpu_seconds(self._process.pid)

    def read_resident_mib(self) -> float | None:
        """Its memory now, shared pages included; None without /proc."""
        value = _read_field(self._proc / "status", "VmRSS")
        return None if value is None else value * 1024 / MIB

    def count_descriptors(self) -> int | None:
        """How many files and sockets it has open; None without /proc."""
        with contextlib.suppress(OSError):
            return sum(1 for _ in (self._proc / "fd").iterdir())
        return None

    def count_threads(self) -> int | None:
        """How many threads it has; None without /proc."""
        return _read_field(self._proc / "status", "Threads")

    def count_wakeups(self) -> int | None:
        """How often its threads have waited for something and been woken; None without /proc."""
        with contextlib.suppress(OSError):
            files = [task / "status" for task in (self._proc / "task").iterdir()]
            return sum(_read_field(file, "voluntary_ctxt_switches") or 0 for file in files)
        return None

    async def _end_with(self, signal_number: signal.Signals) -> None:
        self.end_expected = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal_number)
        await self._process.wait()


def read_cpu_seconds(pid: int) -> float | None:
    """Seconds of processor time of a process, all its threads and ended children; None without /proc."""
    with contextlib.suppress(OSError, ValueError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return None


def _read_field(file: Path, name: str) -> int | None:
    """The number in a line of a file in /proc; None without it."""
    with contextlib.suppress(OSError):
        for line in file.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return None


async def start_bot(bot_name: BotName, environment: BotEnvironment) -> BotProcess:
    """Start a bot; its output goes to a file in its folder."""
    command, settings = _build_launch(bot_name, environment)
    log_file = environment.folder / "output.log"
    started_at = time.monotonic()
    with log_file.open("ab") as log_stream:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *command),
            cwd=environment.folder,
            env=settings,
            stdout=log_stream,
            stderr=log_stream,
            start_new_session=True,  # Ctrl-C goes to the bench, which ends its bots itself
        )
    return BotProcess(bot_name, process, log_file, started_at)


def _build_launch(bot_name: BotName, environment: BotEnvironment) -> tuple[list[str], dict[str, str]]:
    paths = {"PYTHONPATH": str(SOURCE_FOLDER), **_ALLOCATOR_SETTINGS}
    if bot_name != "ours":
        urls = [environment.telegram_url, environment.model_url]
        return [f"bot.bench.load.{bot_name}_loop", environment.token, *urls], paths
    command = ["bot", "run"] if environment.has_rate_limits else ["bot.bench.load.unlimited_gateway"]
    return command, paths | {
        "TELEGRAM_TOKEN": environment.token,
        "TELEGRAM_API_URL": environment.telegram_url,
        "MODEL_URL": environment.model_url,
        "DATABASE_URL": f"sqlite+aiosqlite:///{environment.folder / 'canvasgram.db'}",
        "ADMIN_IDS": str(ADMIN_ID),
        "ACCESS": "open",
        "CANVASES_A_DAY": "1000000000",  # checked for every message, and never used up
        "WARM_UP": "off",  # the baseline bots do not warm up, and every call counts
        **environment.settings,
    }
