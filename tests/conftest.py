"""What many rooms' tests need: an empty database as the house has it."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from bot.db.engine import Database, open_database
from bot.turns import call_ledger as booking
from tests.support.empty_database import place_empty_database

MEMORY = Path("/dev/shm")  # where the operating system has it, and nothing is of value
MOST = 4 * 2**30  # bytes that a run of all tests leaves far from filled


def pytest_configure() -> None:
    """Have the files of tests in memory where there is room for them: a slow disk is no finding, either."""
    if os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free > MOST:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # noqa: TID251  # so pytest is told


settings.register_profile("house", deadline=None)  # a busy machine is no finding
settings.load_profile("house")


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A migrated database in a file of its own."""
    return place_empty_database(tmp_path / "canvasgram.db")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with open_database(database_url) as database:
        yield database


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call took is stored when the house goes down, however busy the machine is."""
    monkeypatch.setattr(booking, "SHUTDOWN_WRITE_SECONDS", 20.0)
