"""The simulated Bot API served on loopback, and python-telegram-bot's real client talking to it."""

from collections.abc import AsyncIterator

import pytest
from telegram import Bot

from bot.sim.telegram.server import FloodLimits
from tests.support.endpoint import gate
from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import build_api, open_bot


@pytest.fixture
def lingering_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead engine's server answers on, however slow the machine is."""
    monkeypatch.setattr(gate, "_DEAD_SECONDS", 600.0)


@pytest.fixture
def api() -> ScriptedBotApi:
    return build_api(FloodLimits.unlimited())


@pytest.fixture
async def api_url(api: ScriptedBotApi) -> AsyncIterator[str]:
    async with api.serve_on_loopback() as url:
        yield url


@pytest.fixture
async def bot(api: ScriptedBotApi, api_url: str) -> AsyncIterator[Bot]:
    async with open_bot(api, api_url) as bot:
        yield bot
