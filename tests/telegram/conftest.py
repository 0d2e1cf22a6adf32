"""What tests of delivering share: a simulated Telegram with its limits, where somebody has written to the bot."""

from collections.abc import AsyncIterator

import pytest

from bot.db.engine import Database
from bot.serving import serve
from bot.sim.botapi import BotApi
from tests.telegram.office import PostOffice


@pytest.fixture
async def office(database: Database) -> AsyncIterator[PostOffice]:
    api = BotApi()
    api.person(7).send("hello")
    async with serve(api.app) as url:
        yield PostOffice(api, url, database)
