"""The outcome of a call to Telegram: shown, surely not arrived, unknown, or refused.

Pure; owns what Telegram's refusals mean, and translates every error of python-telegram-bot and httpx.
"""

import datetime
import os
import socket
import ssl
from dataclasses import dataclass
from typing import Literal

import httpx
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, RetryAfter, TelegramError

MAX_WAIT_SECONDS = 3600.0
_MAX_DETAIL_CHARS = 200
_NOT_SENT_ERRORS = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)

RefusalKind = Literal[
    "entities", "thread", "closed", "gone", "blocked", "muted", "migrated", "photo", "voice", "other"
]
_REFUSAL_KINDS: tuple[tuple[str, RefusalKind], ...] = (
    ("message thread not found", "thread"),
    ("topic_deleted", "thread"),
    ("topic_closed", "closed"),
    ("message to edit not found", "gone"),
    ("message to delete not found", "gone"),
    ("message can't be edited", "gone"),
    ("message can't be deleted", "gone"),
    ("message_id_invalid", "gone"),
    ("photo_invalid_dimensions", "photo"),
    ("photo_save_file_invalid", "photo"),
    ("image_process_failed", "photo"),
    ("too big for a photo", "photo"),
    ("voice_messages_forbidden", "voice"),
    ("send_voices_forbidden", "voice"),
    ("not enough rights to send voice", "voice"),
    ("entit", "entities"),
    ("chat not found", "blocked"),
    ("peer_id_invalid", "blocked"),
    ("not enough rights to send", "muted"),
    ("have no rights to send", "muted"),
    ("chat_write_forbidden", "muted"),
)


@dataclass(frozen=True, slots=True)
class DeliverySuccess:
    """Telegram shows it; the id of the message sent or edited, None for a typing sign or draft.

    `file_ids`: Telegram's, of the files that it took.
    """

    message_id: int | None = None
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """It surely did not arrive and may be tried again.

    `retry_after_seconds`: how long Telegram asked us to wait, if it did.
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
    """Telegram refuses it.

    `photo`: as a photo; it may still be sent as a document. `voice`: this chat takes no voice messages.
    `new_chat`: the supergroup that the chat has become, for the kind `migrated`.
    """

    kind: RefusalKind
    detail: str
    new_chat: int | None = None


DeliveryOutcome = DeliverySuccess | DeliveryFailure | UnknownDelivery | DeliveryRefusal


def classify_error(error: TelegramError) -> DeliveryOutcome:
    """Derive from an error of python-telegram-bot what became of its call."""
    text = error.message.lower()
    detail = _describe_error(error)
    if isinstance(error, RetryAfter):
        return DeliveryFailure(detail, "flood", get_retry_after(error))
    if text.startswith("too many requests"):
        return DeliveryFailure(detail, "flood")
    if isinstance(error, InvalidToken):
        return DeliveryFailure(detail, "locked_out")
    if isinstance(error.__cause__, _NOT_SENT_ERRORS):
        return DeliveryFailure(detail)
    if "message is not modified" in text:
        return DeliverySuccess()
    if isinstance(error, ChatMigrated):
        return DeliveryRefusal("migrated", detail, error.new_chat_id)
    if isinstance(error, Forbidden):
        return DeliveryRefusal("blocked", detail)
    if isinstance(error, BadRequest):
        return DeliveryRefusal(_classify_refusal(text), detail)
    return UnknownDelivery(detail)


def _classify_refusal(text: str) -> RefusalKind:
    return next((kind for phrase, kind in _REFUSAL_KINDS if phrase in text), "other")


def _describe_error(error: TelegramError) -> str:
    """Return Telegram's own message, or for a transport error its class only.

    The text of httpx may hold the URL, and with it the token.
    """
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return type(cause).__name__
    return error.message[:_MAX_DETAIL_CHARS]


def describe_transport_error(error: TelegramError) -> str:
    """Return what is wrong between us and Telegram, such as `Connection refused`, without an address.

    The text of the library, and that of httpx, may hold the token; the system's own does not.
    """
    if isinstance(error.__cause__, httpx.ProxyError):
        return f"proxy: {str(error.__cause__)[:_MAX_DETAIL_CHARS]}"
    reason: BaseException | None = error
    while reason is not None:
        if isinstance(reason, socket.gaierror | ssl.SSLError):
            return str(reason.strerror)
        if isinstance(reason, OSError) and reason.errno:
            return os.strerror(reason.errno)
        reason = reason.__cause__ or reason.__context__
    return type(error.__cause__ or error).__name__


def get_retry_after(error: RetryAfter) -> float:
    """Return how many seconds Telegram asks us to wait; after an hour one asks again."""
    after = error.retry_after
    seconds = after.total_seconds() if isinstance(after, datetime.timedelta) else float(after)
    return min(seconds, MAX_WAIT_SECONDS)
