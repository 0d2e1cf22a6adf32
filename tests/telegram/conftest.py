"""Fixtures for tests of delivery: a simulated Telegram with its limits, where a person has written."""

from collections.abc import AsyncIterator

import pytest

from bot.db.engine import Database
from bot.http_server import serve
from bot.telegram.delivery import progress, sender
from tests.support.delivery_harness import DeliveryHarness
from tests.support.telegram.server import ScriptedBotApi


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be given up, or shown once more, because the machine is busy."""
    monkeypatch.setattr(sender, "_STOP_GRACE_SECONDS", 60.0)
    monkeypatch.setattr(progress, "_DRAFT_REFRESH_SECONDS", 600.0)
    monkeypatch.setattr(progress, "_TYPING_REFRESH_SECONDS", 600.0)


@pytest.fixture
async def harness(database: Database, patience: None) -> AsyncIterator[DeliveryHarness]:
    api = ScriptedBotApi()
    api.person(7).send("hello")
    async with serve(api.app) as url:
        yield DeliveryHarness(api, url, database)
