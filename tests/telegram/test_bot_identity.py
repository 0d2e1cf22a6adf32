"""check_token asks a Bot API over HTTP whose token it is, and never shows the token."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bot.errors import TelegramAway, TelegramRefused
from bot.http_server import serve
from bot.telegram.bot_identity import BotIdentity, check_token

TOKEN = "1234567890:AAE-not-a-real-token"
ME = {"id": 7, "is_bot": True, "first_name": "Canvas", "username": "canvas_bot"}


@contextlib.asynccontextmanager
async def serve_bot_api(status: int, body: Any) -> AsyncIterator[str]:
    async def answer(request: Request) -> JSONResponse:
        assert request.path_params["token"] == TOKEN
        return JSONResponse(body, status)

    async with serve(Starlette(routes=[Route("/bot{token}/getMe", answer, methods=["GET", "POST"])])) as url:
        yield url


async def test_a_token_identifies_its_bot() -> None:
    async with serve_bot_api(200, {"ok": True, "result": ME}) as url:
        assert await check_token(TOKEN, url) == BotIdentity(7, "canvas_bot", "Canvas", has_topics=False)


@pytest.mark.parametrize(
    ("status", "description", "error"),
    [
        (401, "Unauthorized", TelegramRefused),
        (404, "Not Found", TelegramRefused),
        (502, "Bad Gateway", TelegramAway),
        (429, "Too Many Requests", TelegramAway),
    ],
)
async def test_a_refusal_and_an_absence_are_distinguished_without_the_token(
    status: int, description: str, error: type[Exception]
) -> None:
    async with serve_bot_api(status, {"ok": False, "error_code": status, "description": description}) as url:
        with pytest.raises(error) as caught:
            await check_token(TOKEN, url)
    assert TOKEN not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_no_telegram_at_the_address_is_reported() -> None:
    with pytest.raises(TelegramAway, match=r"does not answer at http://127\.0\.0\.1:9: Connection"):
        await check_token(TOKEN, "http://127.0.0.1:9")
