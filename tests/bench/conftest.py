"""Bots of the bench as forks of a process that has imported them, where what is measured does not matter."""

import time

import pytest

from bot.bench.harness import bots
from bot.bench.harness.bots import BotEnvironment, BotProcess
from bot.bench.harness.statistics import BotName
from tests.kill.gateway import ForkServer
from tests.support.empty_database import place_empty_database


@pytest.fixture
def forked_bots(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork bots, and give ours a migrated database: what it starts with is no part of the measurement."""

    async def fork_bot(bot_name: BotName, environment: BotEnvironment) -> BotProcess:
        command, settings = bots._build_launch(bot_name, environment)
        database = environment.folder / "canvasgram.db"
        if bot_name == "ours" and not database.exists():
            place_empty_database(database)
        started_at = time.monotonic()
        log_file = environment.folder / "output.log"
        process = await fork_server.fork(environment.folder, command, settings, log_file.name)
        return BotProcess(bot_name, process, log_file, started_at)  # type: ignore[arg-type]

    monkeypatch.setattr(bots, "start_bot", fork_bot)
