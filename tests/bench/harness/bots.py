"""The bots that are measured: how each is started as a process of its own, and what it costs the machine."""

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path

from bot.bench.harness import gateway_process
from bot.bench.harness.gateway_process import BenchEnvironment, BenchProcess
from tests.bench.harness.figures import BotName

BOT_LABELS: dict[BotName, str] = {"ours": "ours", "memory": "memory loop", "bare": "bare loop"}
MIB = 1 << 20
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class BotEnvironment(BenchEnvironment):
    """What a bot is connected to; ours may call Telegram without limits (`has_rate_limits` is False)."""

    has_rate_limits: bool = True


class BotProcess(BenchProcess):
    """One process of a bot, and what it takes of the machine."""

    def __init__(self, name: BotName, process: Process, log_file: Path, started_at: float) -> None:
        super().__init__(BOT_LABELS[name], process, log_file, started_at)
        self.name = name
        self._proc = Path(f"/proc/{process.pid}")

    async def stop(self) -> None:
        """End it in order, and after a timeout by force."""
        try:
            async with asyncio.timeout(STOP_SECONDS + 1):
                await self.end_with(signal.SIGTERM)
        except TimeoutError:
            await self.end_with(signal.SIGKILL)

    def read_cpu_seconds(self) -> float | None:
        """Seconds of processor time so far, of all its threads and ended children; None without /proc."""
        return read_cpu_seconds(self.pid)

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
    module, variables = build_launch(bot_name, environment)
    started_at = time.monotonic()
    process, log_file = await gateway_process.spawn(module, variables, environment.folder)
    return BotProcess(bot_name, process, log_file, started_at)


def build_launch(bot_name: BotName, environment: BotEnvironment) -> tuple[list[str], dict[str, str]]:
    """The module that a bot is, with its arguments, and its environment variables."""
    if bot_name != "ours":
        urls = [environment.telegram_url, environment.model_url]
        module = [f"tests.bench.load.{bot_name}_loop", environment.token, *urls]
        return module, gateway_process.list_common_variables()
    module = ["bot", "run"] if environment.has_rate_limits else ["tests.bench.load.unlimited_gateway"]
    return module, gateway_process.build_variables(environment)
