"""What many rooms' tests need: an empty database as the house has it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from bot.db.engine import Database, connected
from bot.db.migrating import migrate

settings.register_profile("house", deadline=None)  # a busy machine is no finding
settings.load_profile("house")


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A migrated database in a file of its own."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'canvasgram.db'}"
    migrate(url)
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with connected(database_url) as database:
        yield database
