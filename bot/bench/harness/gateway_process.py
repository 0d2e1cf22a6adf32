"""A gateway as a process of its own, between simulators or before a real endpoint.

Owns the process. Its environment holds only what is set here, so that no real token of this machine is used.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bot
from bot.errors import CanvasgramError

ADMIN_ID = 1

SOURCE_FOLDER = Path(bot.__file__).resolve().parent.parent
# As in the image and the unit of the operations page.
_ALLOCATOR_SETTINGS = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "65536"}
_MAX_LAST_LINES = 5


class BenchFailed(CanvasgramError):
    """A measurement could not be made; the text says what did what."""


@dataclass(frozen=True, slots=True)
class BenchEnvironment:
    """What is measured, connected to Telegram and an endpoint: its own folder, and more settings."""

    token: str
    telegram_url: str
    model_url: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)


class BenchProcess:
    """A process that is measured; `label` names it in errors."""

    def __init__(
        self, label: str, process: asyncio.subprocess.Process, log_file: Path, started_at: float
    ) -> None:
        self.started_at = started_at
        self.end_expected = False
        self.pid = process.pid
        self._label = label
        self._process = process
        self._log_file = log_file

    async def watch(self) -> None:
        """Wait until the process has ended; raises BenchFailed if nobody ended it."""
        code = await self._process.wait()
        if not self.end_expected:
            raise BenchFailed(f"{self._label} ended by itself with code {code}: {self.last_output()}")

    def last_output(self) -> str:
        """The end of what it has printed, on one line."""
        lines = self._log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-_MAX_LAST_LINES:]
        return " | ".join(line.strip() for line in lines) or "(it printed nothing)"

    async def kill(self) -> None:
        """End it as a power cut would."""
        await self.end_with(signal.SIGKILL)

    async def end_with(self, signal_number: signal.Signals) -> None:
        """Send it a signal and wait for its end."""
        self.end_expected = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal_number)
        await self._process.wait()


async def start_gateway(environment: BenchEnvironment) -> BenchProcess:
    """Start a gateway; its output goes to a file in its folder."""
    started_at = time.monotonic()
    process, log_file = await spawn(("bot", "run"), build_variables(environment), environment.folder)
    return BenchProcess("the gateway", process, log_file, started_at)


def build_variables(environment: BenchEnvironment) -> dict[str, str]:
    """The environment variables of a gateway that is measured."""
    return {
        **list_common_variables(),
        "TELEGRAM_TOKEN": environment.token,
        "TELEGRAM_API_URL": environment.telegram_url,
        "MODEL_URL": environment.model_url,
        "DATABASE_URL": f"sqlite+aiosqlite:///{environment.folder / 'canvasgram.db'}",
        "ADMIN_IDS": str(ADMIN_ID),
        "ACCESS": "open",
        "CANVASES_A_DAY": "1000000000",  # checked for every message, and never used up
        "WARM_UP": "off",  # what else is measured does not warm up, and every call counts
        **environment.settings,
    }


def list_common_variables() -> dict[str, str]:
    """The environment variables of every process that is measured."""
    return {"PYTHONPATH": str(SOURCE_FOLDER), **_ALLOCATOR_SETTINGS}


async def spawn(
    module: Sequence[str], variables: Mapping[str, str], folder: Path
) -> tuple[asyncio.subprocess.Process, Path]:
    """Run a Python module with its arguments in a folder; returns its process and the file of its output."""
    log_file = folder / "output.log"
    with log_file.open("ab") as log_stream:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *module),
            cwd=folder,
            env=variables,
            stdout=log_stream,
            stderr=log_stream,
            start_new_session=True,  # Ctrl-C goes to the bench, which ends what it started itself
        )
    return process, log_file
