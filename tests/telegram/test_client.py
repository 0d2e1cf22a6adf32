"""What an error of the client says about the call: arrived, surely not, unknown, or refused."""

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

from bot.telegram.client import bot_for
from bot.telegram.outcomes import Delivered, NotDelivered, Outcome, Refused, Unknown, sorted_out


def caused(error: TelegramError, cause: Exception) -> TelegramError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NetworkError("Too Many Requests (429)"), NotDelivered("Too Many Requests (429)", "flood")),
        (caused(NetworkError("x"), httpx.ConnectError("no")), NotDelivered("ConnectError")),
        (caused(TimedOut(), httpx.ConnectTimeout("no")), NotDelivered("ConnectTimeout")),
        (caused(TimedOut("pool"), httpx.PoolTimeout("no")), NotDelivered("PoolTimeout")),
        (caused(TimedOut(), httpx.ReadTimeout("?")), Unknown("ReadTimeout")),
        (caused(TimedOut(), httpx.WriteTimeout("?")), Unknown("WriteTimeout")),
        (caused(NetworkError("x"), httpx.RemoteProtocolError("?")), Unknown("RemoteProtocolError")),
        (NetworkError("Bad Gateway"), Unknown("Bad Gateway")),
        (TelegramError("Invalid server response"), Unknown("Invalid server response")),
        (InvalidToken("Unauthorized"), NotDelivered("Unauthorized", "locked_out")),
        (Forbidden("bot was blocked by the user"), Refused("blocked", "bot was blocked by the user")),
        (BadRequest("Chat not found"), Refused("blocked", "Chat not found")),
        (BadRequest("Message is not modified: same"), Delivered()),
        (BadRequest("Message to edit not found"), Refused("gone", "Message to edit not found")),
        (BadRequest("Message thread not found"), Refused("thread", "Message thread not found")),
        (BadRequest("Can't parse entities: x"), Refused("entities", "Can't parse entities: x")),
        (BadRequest("Entity URL 'x' is invalid"), Refused("entities", "Entity URL 'x' is invalid")),
        (BadRequest("Something else"), Refused("other", "Something else")),
    ],
)
def test_every_error_is_sorted(error: TelegramError, outcome: Outcome):
    assert sorted_out(error) == outcome


def test_a_flood_names_the_seconds_to_wait():
    bot_for("1:x", "http://127.0.0.1:9")  # silences what python-telegram-bot says about the attribute's type
    assert sorted_out(RetryAfter(7)) == NotDelivered(
        "Flood control exceeded. Retry in 7 seconds", "flood", 7.0
    )


def test_the_client_speaks_to_the_given_address():
    bot = bot_for("1:x", "http://127.0.0.1:9")
    assert bot.base_url == "http://127.0.0.1:9/bot1:x"
    assert bot.base_file_url == "http://127.0.0.1:9/file/bot1:x"
