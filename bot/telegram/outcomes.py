"""What came of a call to Telegram: it shows it, it surely did not arrive, nobody knows, or it was refused.

Pure; owns what Telegram's refusals mean and translates every error of PTB and httpx.
"""

import datetime
from dataclasses import dataclass
from typing import Literal

import httpx
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter, TelegramError

_LONGEST_WHY = 200
_NEVER_LEFT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)

Refusal = Literal["entities", "thread", "gone", "blocked", "other"]
_REFUSALS: tuple[tuple[str, Refusal], ...] = (
    ("message thread not found", "thread"),
    ("topic_deleted", "thread"),
    ("message to edit not found", "gone"),
    ("message to delete not found", "gone"),
    ("message can't be edited", "gone"),
    ("message can't be deleted", "gone"),
    ("message_id_invalid", "gone"),
    ("entit", "entities"),
    ("chat not found", "blocked"),
    ("peer_id_invalid", "blocked"),
)


@dataclass(frozen=True, slots=True)
class Delivered:
    """Telegram shows it; the id of the message sent or edited, None for a sign of life."""

    message_id: int | None = None


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """It surely did not arrive and may be tried again, after `after` seconds if Telegram named them.

    `locked_out`: Telegram does not know the token, or not the method.
    """

    why: str
    reason: Literal["network", "flood", "locked_out"] = "network"
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have arrived."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Telegram will not have it."""

    kind: Refusal
    why: str


Outcome = Delivered | NotDelivered | Unknown | Refused


def sorted_out(error: TelegramError) -> Outcome:
    """What an error of PTB says about the call it was raised for."""
    text = error.message.lower()
    why = _why(error)
    if isinstance(error, RetryAfter):
        return NotDelivered(why, "flood", seconds(error))
    if text.startswith("too many requests"):
        return NotDelivered(why, "flood")
    if isinstance(error, InvalidToken):
        return NotDelivered(why, "locked_out")
    if isinstance(error.__cause__, _NEVER_LEFT):
        return NotDelivered(why)
    if "message is not modified" in text:
        return Delivered()
    if isinstance(error, Forbidden):
        return Refused("blocked", why)
    if isinstance(error, BadRequest):
        return Refused(next((kind for words, kind in _REFUSALS if words in text), "other"), why)
    return Unknown(why)


def _why(error: TelegramError) -> str:
    """In Telegram's words, or the name of what went wrong on the way: httpx may put the address, with the
    token, in.
    """
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return type(cause).__name__
    return error.message[:_LONGEST_WHY]


def seconds(error: RetryAfter) -> float:
    """How long Telegram wants to be left alone."""
    after = error.retry_after
    if isinstance(after, datetime.timedelta):
        return after.total_seconds()
    return float(after)
