"""What came of a call to Telegram: it shows it, it surely did not arrive, nobody knows, or it was refused.

Pure; owns what Telegram's refusals mean and translates every error of PTB and httpx.
"""

import datetime
from dataclasses import dataclass
from typing import Literal

import httpx
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter, TelegramError

_MAX_DETAIL_CHARS = 200
_NOT_SENT_ERRORS = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)

RefusalKind = Literal["entities", "thread", "gone", "blocked", "other"]
_REFUSAL_KINDS: tuple[tuple[str, RefusalKind], ...] = (
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
class DeliverySuccess:
    """Telegram shows it; the id of the message sent or edited, None for a sign of life."""

    message_id: int | None = None


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """It surely did not arrive and may be tried again, after `after` seconds if Telegram named them.

    `locked_out`: Telegram does not know the token, or not the method.
    """

    detail: str
    reason: Literal["network", "flood", "locked_out"] = "network"
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class UnknownDelivery:
    """It may have arrived."""

    detail: str


@dataclass(frozen=True, slots=True)
class DeliveryRefusal:
    """Telegram will not have it."""

    kind: RefusalKind
    detail: str


DeliveryOutcome = DeliverySuccess | DeliveryFailure | UnknownDelivery | DeliveryRefusal


def classify_error(error: TelegramError) -> DeliveryOutcome:
    """What an error of PTB says about the call it was raised for."""
    text = error.message.lower()
    why = _describe_error(error)
    if isinstance(error, RetryAfter):
        return DeliveryFailure(why, "flood", get_retry_after(error))
    if text.startswith("too many requests"):
        return DeliveryFailure(why, "flood")
    if isinstance(error, InvalidToken):
        return DeliveryFailure(why, "locked_out")
    if isinstance(error.__cause__, _NOT_SENT_ERRORS):
        return DeliveryFailure(why)
    if "message is not modified" in text:
        return DeliverySuccess()
    if isinstance(error, Forbidden):
        return DeliveryRefusal("blocked", why)
    if isinstance(error, BadRequest):
        return DeliveryRefusal(next((kind for words, kind in _REFUSAL_KINDS if words in text), "other"), why)
    return UnknownDelivery(why)


def _describe_error(error: TelegramError) -> str:
    """In Telegram's words, or the name of what went wrong on the way: httpx may put the address, with the
    token, in.
    """
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return type(cause).__name__
    return error.message[:_MAX_DETAIL_CHARS]


def get_retry_after(error: RetryAfter) -> float:
    """How long Telegram wants to be left alone."""
    after = error.retry_after
    if isinstance(after, datetime.timedelta):
        return after.total_seconds()
    return float(after)
