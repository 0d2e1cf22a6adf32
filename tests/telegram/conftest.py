"""Fixtures for tests of delivery: a simulated Telegram with its limits, where a person has written."""

from collections.abc import AsyncIterator

import pytest

from bot.db.engine import Database
from bot.http_server import serve
from bot.sim.telegram.server import BotApi
from tests.support.delivery_harness import DeliveryHarness


@pytest.fixture
async def harness(database: Database) -> AsyncIterator[DeliveryHarness]:
    api = BotApi()
    api.person(7).send("hello")
    async with serve(api.app) as url:
        yield DeliveryHarness(api, url, database)
