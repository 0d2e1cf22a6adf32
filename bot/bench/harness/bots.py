"""The bots that are measured: how each is started as a process of its own, and what it costs the machine.

Owns the processes. Their environment holds only what is said here, lest a real token of this machine's be
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
from bot.bench.harness.statistics import Name
from bot.errors import CanvasgramError

LABELS: dict[Name, str] = {"ours": "ours", "memory": "memory loop", "bare": "bare loop"}
GRACE = 10.0
MIB = 1 << 20

_ROOT = Path(bot.__file__).resolve().parent.parent
_LAST_WORDS = 5


class BenchFailed(CanvasgramError):
    """A measurement could not be made: says which bot did what."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a bot finds its world: the two simulators, and its own folder; `settings` are for ours alone."""

    token: str
    telegram_url: str
    model_url: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process holds, in MiB; `shared_out` counts shared pages in parts (PSS), None where unknown."""

    resident: float | None
    shared_out: float | None


class Running:
    """One process of a bot."""

    def __init__(self, name: Name, process: asyncio.subprocess.Process, log: Path, began: float) -> None:
        self.name = name
        self.began = began
        self.expected = False
        self._process = process
        self._log = log

    async def watch(self) -> None:
        """Until the process has ended; raises BenchFailed if nobody ended it."""
        code = await self._process.wait()
        if not self.expected:
            raise BenchFailed(f"{LABELS[self.name]} ended by itself with code {code}: {self.last_words()}")

    def last_words(self) -> str:
        """The end of what it has printed, on one line."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_WORDS:]
        return " | ".join(line.strip() for line in lines) or "(it printed nothing)"

    async def kill(self) -> None:
        """End it as a power cut would."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """End it in order, or at last without."""
        try:
            async with asyncio.timeout(GRACE + 1):
                await self._end(signal.SIGTERM)
        except TimeoutError:
            await self._end(signal.SIGKILL)

    def cpu(self) -> float | None:
        """Seconds of processor time so far, of all its threads and ended children; None where /proc does not
        tell.
        """
        with contextlib.suppress(OSError, ValueError):
            fields = (
                Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            )
            return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return None

    def memory(self) -> Memory:
        """What it holds now."""
        return Memory(self._kib("status", "VmRSS"), self._kib("smaps_rollup", "Pss"))

    def _kib(self, page: str, name: str) -> float | None:
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{self._process.pid}/{page}").read_text(encoding="ascii").splitlines():
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024 / MIB
        return None

    async def _end(self, number: signal.Signals) -> None:
        self.expected = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        await self._process.wait()


async def start(name: Name, where: Where) -> Running:
    """Start a bot; its output goes to a file in its folder."""
    command, settings = _launch(name, where)
    log = where.folder / "output.log"
    began = time.monotonic()
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *command),
            cwd=where.folder,
            env=settings,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is the bench's: it ends its bots itself
        )
    return Running(name, process, log, began)


def _launch(name: Name, where: Where) -> tuple[list[str], dict[str, str]]:
    paths = {"PYTHONPATH": str(_ROOT)}
    if name != "ours":
        return [f"bot.bench.load.{name}_loop", where.token, where.telegram_url, where.model_url], paths
    return ["bot", "run"], paths | {
        "TELEGRAM_TOKEN": where.token,
        "TELEGRAM_API_URL": where.telegram_url,
        "MODEL_URL": where.model_url,
        "DATABASE_URL": f"sqlite+aiosqlite:///{where.folder / 'canvasgram.db'}",
        "ADMIN_IDS": "1",
        "ACCESS": "open",
        "CANVASES_A_DAY": "1000000000",  # looked up for every message, and never used up
        "WARM_UP": "off",  # the yardsticks warm nothing, and every call counts
        **where.settings,
    }
