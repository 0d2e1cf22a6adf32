"""Bots of the bench as forks of a process that has imported them, where what is measured does not matter."""

from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bot.bench.harness import gateway_process
from tests.kill.gateway import ForkServer
from tests.support.empty_database import place_empty_database


@pytest.fixture
def forked_bots(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork bots, and give ours a migrated database: what it starts with is no part of the measurement."""

    async def spawn(
        module: Sequence[str], variables: Mapping[str, str], folder: Path
    ) -> tuple[Process, Path]:
        database = folder / "canvasgram.db"
        if "DATABASE_URL" in variables and not database.exists():
            place_empty_database(database)
        log_file = folder / "output.log"
        log_file.touch()  # as of a started process: the fork opens it only once it runs
        process = await fork_server.fork(folder, [*module], {**variables}, log_file.name)
        return process, log_file  # type: ignore[return-value]

    monkeypatch.setattr(gateway_process, "spawn", spawn)
