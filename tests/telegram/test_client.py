"""What an error of the client says about the call: arrived, surely not, unknown, or refused."""

import asyncio

import httpx
import pytest
from telegram.error import (
    BadRequest,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from bot.telegram.client import create_bot, open_bot
from bot.telegram.outcomes import (
    DeliveryFailure,
    DeliveryOutcome,
    DeliveryRefusal,
    DeliverySuccess,
    UnknownDelivery,
    classify_error,
)
from tests.support.telegram.server import ScriptedBotApi


def set_cause(error: TelegramError, cause: Exception) -> TelegramError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Forbidden("user is deactivated"), DeliveryRefusal("blocked", "user is deactivated")),
        (NetworkError("Too Many Requests (429)"), DeliveryFailure("Too Many Requests (429)", "flood")),
        (set_cause(NetworkError("x"), httpx.ConnectError("no")), DeliveryFailure("ConnectError")),
        (set_cause(TimedOut(), httpx.ConnectTimeout("no")), DeliveryFailure("ConnectTimeout")),
        (set_cause(TimedOut("pool"), httpx.PoolTimeout("no")), DeliveryFailure("PoolTimeout")),
        (set_cause(TimedOut(), httpx.ReadTimeout("?")), UnknownDelivery("ReadTimeout")),
        (set_cause(TimedOut(), httpx.WriteTimeout("?")), UnknownDelivery("WriteTimeout")),
        (
            set_cause(NetworkError("x"), httpx.RemoteProtocolError("?")),
            UnknownDelivery("RemoteProtocolError"),
        ),
        (NetworkError("Bad Gateway"), UnknownDelivery("Bad Gateway")),
        (TelegramError("Invalid server response"), UnknownDelivery("Invalid server response")),
        (InvalidToken("Unauthorized"), DeliveryFailure("Unauthorized", "locked_out")),
        (Forbidden("bot was blocked by the user"), DeliveryRefusal("blocked", "bot was blocked by the user")),
        (BadRequest("Chat not found"), DeliveryRefusal("blocked", "Chat not found")),
        (BadRequest("Message is not modified: same"), DeliverySuccess()),
        (BadRequest("Message to edit not found"), DeliveryRefusal("gone", "Message to edit not found")),
        (BadRequest("Message thread not found"), DeliveryRefusal("thread", "Message thread not found")),
        (BadRequest("TOPIC_CLOSED"), DeliveryRefusal("closed", "TOPIC_CLOSED")),
        (BadRequest("Can't parse entities: x"), DeliveryRefusal("entities", "Can't parse entities: x")),
        (BadRequest("Entity URL 'x' is invalid"), DeliveryRefusal("entities", "Entity URL 'x' is invalid")),
        (BadRequest("Something else"), DeliveryRefusal("other", "Something else")),
    ],
)
def test_every_error_is_sorted(error: TelegramError, outcome: DeliveryOutcome):
    assert classify_error(error) == outcome


def test_a_flood_names_the_seconds_to_wait():
    create_bot(
        "1:x", "http://127.0.0.1:9"
    )  # silences what python-telegram-bot says about the attribute's type
    assert classify_error(RetryAfter(7)) == DeliveryFailure(
        "Flood control exceeded. Retry in 7 seconds", "flood", 7.0
    )


def test_the_client_speaks_to_the_given_address():
    bot = create_bot("1:x", "http://127.0.0.1:9")
    assert bot.base_url == "http://127.0.0.1:9/bot1:x"
    assert bot.base_file_url == "http://127.0.0.1:9/file/bot1:x"


async def test_a_bot_api_server_on_this_machine_is_reached_without_the_proxy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    api = ScriptedBotApi()
    async with api.serve_on_loopback() as url, create_bot(api.token, url) as bot:
        assert bot.username


async def test_telegram_away_at_the_start_is_told_once_with_host_and_reason(
    caplog: pytest.LogCaptureFixture,
):
    stop = asyncio.Event()

    async def stop_after_further_attempts() -> None:
        while not caplog.messages:  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        stop.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stop_after_further_attempts())
        async with open_bot("123:secret", "http://127.0.0.1:9", stop) as bot:
            assert bot is None
    [line] = caplog.messages
    assert line == "Telegram at 127.0.0.1 does not answer: Connection refused"
