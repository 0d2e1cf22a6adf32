"""The one place that calls Telegram to show something; what comes back is an outcome, never an exception.

Owns how the Bot client is set up and how long each kind of call may take.
"""

import asyncio
import logging
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import httpx
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    ReplyParameters,
)
from telegram.error import InvalidToken, TelegramError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBDeprecationWarning, PTBUserWarning

from bot.domain import Button, Lane, Part
from bot.errors import TelegramRefused
from bot.telegram.getupdates import TolerantPollRequest
from bot.telegram.outcomes import (
    DeliveryFailure,
    DeliveryOutcome,
    DeliveryRefusal,
    DeliverySuccess,
    UnknownDelivery,
    classify_error,
)

POLL_SECONDS = 50
"""The longest a getUpdates call may ask Telegram to wait."""

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.25, 30.0  # seconds between attempts to reach Telegram at start
_SEND_TIMEOUT_SECONDS = 30.0  # long, so that it is rarely unknown whether a message arrived
_EDIT_TIMEOUT_SECONDS = 20.0
_TYPING_TIMEOUT_SECONDS = 5.0  # a late sign of life is worth nothing, and the answer waits for it
_KEEPALIVE_SECONDS = (
    30.0  # a connection is kept while a turn is worked on, so that its answer needs no handshake
)
_NO_LOCAL_PROXY = {
    "all://127.0.0.1": None,
    "all://localhost": None,
}  # a Bot API server on this machine, or the demo's
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
UNREADABLE_ANSWER_ERRORS = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What PTB raises over an answer that it does not understand."""

_log = logging.getLogger(__name__)

TelegramBot: TypeAlias = Bot
"""What rooms above hand to the parts of this one."""


def create_bot(token: str, api_url: str) -> Bot:
    """Telegram's client for the Bot API at `api_url` (without `/bot`); getUpdates has connections of its own."""
    # We ask for raw updates on purpose, and read the one attribute whose type will change either way.
    warnings.filterwarnings("ignore", r".*Bot\.getUpdates", PTBUserWarning)
    warnings.filterwarnings("ignore", r".*retry_after", PTBDeprecationWarning)
    trust = httpx.create_ssl_context()
    return Bot(
        token,
        base_url=f"{api_url}/bot",
        base_file_url=f"{api_url}/file/bot",
        request=_build_request(256, _SEND_TIMEOUT_SECONDS, trust),
        get_updates_request=_build_request(4, POLL_SECONDS + 15.0, trust, TolerantPollRequest),
    )


@asynccontextmanager
async def open_bot(token: str, api_url: str, stop: asyncio.Event) -> AsyncIterator[Bot | None]:
    """The client once Telegram has said whose token it is; it is asked until it answers, or until `stop`
    (None).

    Raises TelegramRefused when Telegram does not know the token.
    """
    bot = create_bot(token, api_url)
    try:
        await _initialize_bot(bot, stop)
        yield None if stop.is_set() else bot
    finally:
        await bot.shutdown()


async def _initialize_bot(bot: Bot, stop: asyncio.Event) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while not stop.is_set() and not (answered := await _run_unless_stopped(stop, _try_initialize(bot))):
        if answered is None:
            raise TelegramRefused("Telegram does not accept TELEGRAM_TOKEN. Ask @BotFather for it.")
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
        pause = min(_MAX_PAUSE_SECONDS, pause * 2)


async def _run_unless_stopped(stop: asyncio.Event, call: Coroutine[Any, Any, bool | None]) -> bool | None:
    """What comes of `asking`, or False once `stop` is set: Telegram may keep us waiting for longer than a
    stop may.
    """
    async with asyncio.TaskGroup() as tasks:
        waiting = (tasks.create_task(call), tasks.create_task(stop.wait()))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
    if waiting[0].cancelled():
        return False
    return waiting[0].result()


async def _try_initialize(bot: Bot) -> bool | None:
    """Whether Telegram answers; None if it does not know the token."""
    try:
        await bot.initialize()
    except InvalidToken:
        return None
    except TelegramError as error:
        # Some of these errors hold the token, so only the class is told.
        _log.warning("Telegram does not answer: %s", type(error).__name__, extra={"action": "wire.away"})
        return False
    return True


def _build_request(
    max_connections: int,
    read_timeout: float,
    ssl_context: ssl.SSLContext,
    request_class: type[HTTPXRequest] = HTTPXRequest,
) -> HTTPXRequest:
    limits = httpx.Limits(max_connections=max_connections, keepalive_expiry=_KEEPALIVE_SECONDS)
    return request_class(
        read_timeout=read_timeout,
        write_timeout=10.0,
        connect_timeout=10.0,
        pool_timeout=5.0,
        httpx_kwargs={"limits": limits, "verify": ssl_context, "mounts": _NO_LOCAL_PROXY},
    )


class TelegramClient:
    """Calls of the Bot API by one bot; nothing here raises for what Telegram or the network does."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._has_drafts = True  # until Telegram says that it does not offer them

    async def send_message(self, lane: Lane, part: Part, reply_to: int | None = None) -> DeliveryOutcome:
        """Send a new message: the one call that must not be repeated when its outcome is unknown."""
        if reply_to is None:
            reply = None
        else:
            reply = ReplyParameters(reply_to, allow_sending_without_reply=True)
        return await _await_outcome(
            self._bot.send_message(
                lane.chat,
                part.text,
                message_thread_id=lane.topic,
                disable_notification=part.silent,
                link_preview_options=_NO_PREVIEW,
                reply_parameters=reply,
                reply_markup=_build_keyboard(part.buttons),
                api_kwargs=_build_entities(part),
            )
        )

    async def edit_message(self, lane: Lane, message_id: int, part: Part) -> DeliveryOutcome:
        """Make a message show this part; may be repeated."""
        outcome = await _await_outcome(
            self._bot.edit_message_text(
                part.text,
                lane.chat,
                message_id,
                link_preview_options=_NO_PREVIEW,
                reply_markup=_build_keyboard(part.buttons),
                read_timeout=_EDIT_TIMEOUT_SECONDS,
                api_kwargs=_build_entities(part),
            )
        )
        if isinstance(outcome, DeliverySuccess):
            return DeliverySuccess(message_id)
        return outcome

    async def delete_message(self, lane: Lane, message_id: int) -> DeliveryOutcome:
        """Take a message away; may be repeated, and one that is gone already is Refused as `gone`."""
        return await _await_outcome(
            self._bot.delete_message(lane.chat, message_id, read_timeout=_EDIT_TIMEOUT_SECONDS)
        )

    async def send_typing(self, lane: Lane, draft_id: int, text: str = "") -> tuple[DeliveryOutcome, bool]:
        """Show that the house is at work; says whether by a draft (30 s, with Stop, saying `line`) or typing
        (5 s).
        """
        if self._has_drafts and lane.chat > 0:
            outcome = await _await_outcome(
                self._bot.send_message_draft(
                    lane.chat,
                    draft_id,
                    text,
                    message_thread_id=lane.topic,
                    read_timeout=_TYPING_TIMEOUT_SECONDS,
                    api_kwargs={"can_stop": True},
                )
            )
            if not _is_unsupported(outcome):
                return outcome, True
            self._has_drafts = False
        typing = self._bot.send_chat_action(
            lane.chat, "typing", message_thread_id=lane.topic, read_timeout=_TYPING_TIMEOUT_SECONDS
        )
        return await _await_outcome(typing), False


async def _await_outcome(call: Awaitable[Any]) -> DeliveryOutcome:
    try:
        answer = await call
    except TelegramError as error:
        return classify_error(error)
    except UNREADABLE_ANSWER_ERRORS as error:
        return UnknownDelivery(repr(error))
    return DeliverySuccess(answer.message_id if isinstance(answer, Message) else None)


def _is_unsupported(outcome: DeliveryOutcome) -> bool:
    """Whether the server does not know drafts: it answers 404, or refuses the call for what it is."""
    match outcome:
        case DeliveryFailure(reason="locked_out") | DeliveryRefusal(kind="other"):
            return True
    return False


def _build_keyboard(buttons: tuple[tuple[Button, ...], ...]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    rows = [[InlineKeyboardButton(one.label, callback_data=one.data) for one in row] for row in buttons]
    return InlineKeyboardMarkup(rows)


def _build_entities(part: Part) -> dict[str, Any] | None:
    if part.entities:
        return {"entities": list(part.entities)}
    return None
