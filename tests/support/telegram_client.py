"""Talks to the simulated Bot API through python-telegram-bot's real client."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from telegram import Bot
from telegram.error import BadRequest
from telegram.request import HTTPXRequest

from bot.sim.telegram.server import BotApi


@asynccontextmanager
async def open_bot(api: BotApi, url: str) -> AsyncIterator[Bot]:
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


def _build_request() -> HTTPXRequest:
    """A client for plain HTTP, which need not load the machine's certificates."""
    return HTTPXRequest(httpx_kwargs={"verify": False})


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
