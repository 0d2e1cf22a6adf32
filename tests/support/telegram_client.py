"""Talks to the simulated Bot API through python-telegram-bot's real client."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from telegram import Bot
from telegram.error import BadRequest
from telegram.request import HTTPXRequest

from bot.sim.telegram.server import FloodLimits
from tests.support.telegram.server import ScriptedBotApi

PATIENCE_SECONDS = 60.0  # for each answer; the machine may be busy


@asynccontextmanager
async def open_bot(api: ScriptedBotApi, url: str) -> AsyncIterator[Bot]:
    """A bot of the real client; the log of calls begins after the getMe it begins with."""
    async with Bot(
        api.token,
        f"{url}/bot",
        f"{url}/file/bot",
        request=_build_request(),
        get_updates_request=_build_request(),
    ) as bot:
        api.calls.clear()
        yield bot


def build_api(limits: FloodLimits, **options: Any) -> ScriptedBotApi:
    """A simulated Telegram whose clock only tests move: a slow machine lets nothing expire."""
    api = ScriptedBotApi(limits=limits, **options)
    api.clock.stop()
    return api


def open_http() -> httpx.AsyncClient:
    """A client for plain HTTP, which need not load the machine's certificates."""
    return httpx.AsyncClient(verify=False, timeout=PATIENCE_SECONDS)


def _build_request() -> HTTPXRequest:
    return HTTPXRequest(
        read_timeout=PATIENCE_SECONDS,
        write_timeout=PATIENCE_SECONDS,
        connect_timeout=PATIENCE_SECONDS,
        pool_timeout=PATIENCE_SECONDS,
        media_write_timeout=PATIENCE_SECONDS,
        httpx_kwargs={"verify": False},
    )


async def fetch_updates(
    bot: Bot,
    offset: int | None = None,
    timeout: int = 0,  # noqa: ASYNC109  # Bot API parameter
    **parameters: Any,
) -> list[dict[str, Any]]:
    """Raw getUpdates, as the gateway's intake asks."""
    fetched: list[dict[str, Any]] = await bot.do_api_request(
        "getUpdates", api_kwargs={"offset": offset, "timeout": timeout, **parameters}
    )
    return fetched


async def refusal_reason(call: Awaitable[object]) -> str:
    """The reason of a 400, as the real client words it."""
    with pytest.raises(BadRequest) as caught:
        await call
    return caught.value.message
