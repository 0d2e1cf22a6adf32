"""The one place that calls Telegram to show something, and sorts what came of it.

Owns how the Bot client is set up and what Telegram's refusals mean; translates every error of PTB and httpx.
"""

import asyncio
import datetime
import logging
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import httpx
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, Message, ReplyParameters
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter, TelegramError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBDeprecationWarning, PTBUserWarning

from bot.domain import Button, Lane, Part
from bot.errors import TelegramRefused

POLL_SECONDS = 50
"""The longest a getUpdates call may ask Telegram to wait."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0  # seconds between attempts to reach Telegram at start
_SEND_SECONDS = 30.0  # long, so that it is rarely unknown whether a message arrived
_EDIT_SECONDS = 20.0
_SIGN_SECONDS = 5.0  # a late sign of life is worth nothing, and the answer waits for it
_IDLE_SECONDS = 30.0  # a connection is kept while a turn is worked on, so that its answer needs no handshake
_LONGEST_WHY = 200
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_NEVER_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)

_log = logging.getLogger(__name__)

Client: TypeAlias = Bot
"""What rooms above hand to the parts of this one."""

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


def bot_for(token: str, api_url: str) -> Bot:
    """Telegram's client for the Bot API at `api_url` (without `/bot`); getUpdates has connections of its own."""
    # We ask for raw updates on purpose, and read the one attribute whose type will change either way.
    warnings.filterwarnings("ignore", r".*Bot\.getUpdates", PTBUserWarning)
    warnings.filterwarnings("ignore", r".*retry_after", PTBDeprecationWarning)
    trust = httpx.create_ssl_context()
    return Bot(
        token,
        base_url=f"{api_url}/bot",
        base_file_url=f"{api_url}/file/bot",
        request=_connections(256, _SEND_SECONDS, trust),
        get_updates_request=_connections(4, POLL_SECONDS + 15.0, trust),
    )


@asynccontextmanager
async def connected(token: str, api_url: str, stop: asyncio.Event) -> AsyncIterator[Bot | None]:
    """The client once Telegram has said whose token it is; it is asked until it answers, or until `stop` (None).

    Raises TelegramRefused when Telegram does not know the token.
    """
    bot = bot_for(token, api_url)
    try:
        await _initialized(bot, stop)
        yield None if stop.is_set() else bot
    finally:
        await bot.shutdown()


async def _initialized(bot: Bot, stop: asyncio.Event) -> None:
    pause = _FIRST_PAUSE
    while not stop.is_set() and not await _answers(bot):
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
        pause = min(_LONGEST_PAUSE, pause * 2)


async def _answers(bot: Bot) -> bool:
    try:
        await bot.initialize()
    except InvalidToken:
        raise TelegramRefused("Telegram does not accept TELEGRAM_TOKEN. Ask @BotFather for it.") from None
    except TelegramError as error:
        # Some of these errors hold the token, so only the class is told.
        _log.warning("Telegram does not answer: %s", type(error).__name__, extra={"action": "wire.away"})
        return False
    return True


def _connections(most: int, read_timeout: float, trust: ssl.SSLContext) -> HTTPXRequest:
    limits = httpx.Limits(max_connections=most, keepalive_expiry=_IDLE_SECONDS)
    return HTTPXRequest(
        read_timeout=read_timeout,
        write_timeout=10.0,
        connect_timeout=10.0,
        pool_timeout=5.0,
        httpx_kwargs={"limits": limits, "verify": trust},
    )


class Wire:
    """Calls of the Bot API by one bot; nothing here raises for what Telegram or the network does."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._drafts = True  # until Telegram says that it does not offer them

    async def send(self, lane: Lane, part: Part, reply_to: int | None = None) -> Outcome:
        """Send a new message: the one call that must not be repeated when its outcome is unknown."""
        reply = None if reply_to is None else ReplyParameters(reply_to, allow_sending_without_reply=True)
        return await _outcome(
            self._bot.send_message(
                lane.chat,
                part.text,
                message_thread_id=lane.topic,
                disable_notification=part.silent,
                link_preview_options=_NO_PREVIEW,
                reply_parameters=reply,
                reply_markup=_keyboard(part.buttons),
                api_kwargs=_entities(part),
            )
        )

    async def edit(self, lane: Lane, message_id: int, part: Part) -> Outcome:
        """Make a message show this part; may be repeated."""
        outcome = await _outcome(
            self._bot.edit_message_text(
                part.text,
                lane.chat,
                message_id,
                link_preview_options=_NO_PREVIEW,
                reply_markup=_keyboard(part.buttons),
                read_timeout=_EDIT_SECONDS,
                api_kwargs=_entities(part),
            )
        )
        return Delivered(message_id) if isinstance(outcome, Delivered) else outcome

    async def delete(self, lane: Lane, message_id: int) -> Outcome:
        """Take a message away; may be repeated, and one that is gone already is Refused as `gone`."""
        return await _outcome(self._bot.delete_message(lane.chat, message_id, read_timeout=_EDIT_SECONDS))

    async def sign(self, lane: Lane, draft: int) -> tuple[Outcome, bool]:
        """Show that the house is at work; says whether that was a draft (30 s, with Stop) or typing (5 s)."""
        if self._drafts and lane.chat > 0:
            outcome = await _outcome(
                self._bot.send_message_draft(
                    lane.chat,
                    draft,
                    "",
                    message_thread_id=lane.topic,
                    read_timeout=_SIGN_SECONDS,
                    api_kwargs={"can_stop": True},
                )
            )
            if not _is_not_offered(outcome):
                return outcome, True
            self._drafts = False
        typing = self._bot.send_chat_action(
            lane.chat, "typing", message_thread_id=lane.topic, read_timeout=_SIGN_SECONDS
        )
        return await _outcome(typing), False


async def _outcome(call: Awaitable[Any]) -> Outcome:
    try:
        answer = await call
    except TelegramError as error:
        return sorted_out(error)
    except _UNREADABLE as error:  # PTB stumbles over an answer it does not understand
        return Unknown(repr(error))
    return Delivered(answer.message_id if isinstance(answer, Message) else None)


def sorted_out(error: TelegramError) -> Outcome:
    """What an error of PTB says about the call it was raised for."""
    text, why = error.message.lower(), _why(error)
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
    """In Telegram's words, or the name of what went wrong on the way: httpx may put the address, with the token, in."""
    cause = error.__cause__
    return type(cause).__name__ if isinstance(cause, httpx.HTTPError) else error.message[:_LONGEST_WHY]


def _is_not_offered(outcome: Outcome) -> bool:
    """Whether the server does not know drafts: it answers 404, or refuses the call for what it is."""
    match outcome:
        case NotDelivered(reason="locked_out") | Refused(kind="other"):
            return True
    return False


def seconds(error: RetryAfter) -> float:
    """How long Telegram wants to be left alone."""
    after = error.retry_after
    return after.total_seconds() if isinstance(after, datetime.timedelta) else float(after)


def _keyboard(buttons: tuple[tuple[Button, ...], ...]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    rows = [[InlineKeyboardButton(one.label, callback_data=one.data) for one in row] for row in buttons]
    return InlineKeyboardMarkup(rows)


def _entities(part: Part) -> dict[str, Any] | None:
    return {"entities": list(part.entities)} if part.entities else None
