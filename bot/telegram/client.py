"""The client for the Bot API: sends, edits and deletes messages; returns an outcome, never raises.

Owns how the library's Bot is set up and how long each kind of call may take.
"""

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

import httpx
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InlineQueryResultArticle,
    InputTextMessageContent,
    LinkPreviewOptions,
    Message,
    ReplyParameters,
)
from telegram.error import InvalidToken, TelegramError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBDeprecationWarning, PTBUserWarning

from bot.domain import Button, Lane, Part
from bot.errors import TelegramRefused
from bot.settings import describe_proxy
from bot.telegram.bounded_request import BoundedRequest, TolerantPollRequest
from bot.telegram.chat_numbers import ChatNumbers
from bot.telegram.outcomes import (
    DeliveryFailure,
    DeliveryOutcome,
    DeliveryRefusal,
    DeliverySuccess,
    UnknownDelivery,
    classify_error,
    describe_transport_error,
)

POLL_SECONDS = 50
"""The longest a getUpdates call may ask Telegram to wait."""

UPLOAD_TIMEOUT_SECONDS = 60.0
"""The longest that a piece of a file may take to be sent, and then the answer to it."""

TYPING_TIMEOUT_SECONDS = 5.0
"""A late typing sign is worth nothing, and the answer waits for it."""

UNREADABLE_ANSWER_ERRORS = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What python-telegram-bot raises for an answer that it does not understand."""

# Between attempts to reach Telegram at start.
_FIRST_PAUSE_SECONDS = 0.25
_MAX_PAUSE_SECONDS = 30.0

_SEND_TIMEOUT_SECONDS = 30.0  # long, so that it is rarely unknown whether a message arrived
_EDIT_TIMEOUT_SECONDS = 20.0
# A connection is kept while a turn is worked on, so that its answer needs no handshake.
_KEEPALIVE_SECONDS = 30.0
_LOCAL_HOSTS = {"127.0.0.1", "localhost"}  # a Bot API server on this machine, or the demo's
_GENERAL_TOPIC = 1  # what an action names for the General topic of a forum; a message must not name it
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)

_log = logging.getLogger(__name__)

T = TypeVar("T")


class TelegramBot(Bot):
    """The library's Bot, which knows groups and their messages by the gateway's numbers."""

    @cached_property
    def chat_numbers(self) -> ChatNumbers:
        """The numbers at Telegram, to be kept up to date."""
        return ChatNumbers()

    # Every call passes here; the library's own ExtBot overrides it for what it adds to each.
    async def _do_post(self, endpoint: str, data: dict[str, Any], **timeouts: Any) -> Any:
        answer = await super()._do_post(endpoint, self.chat_numbers.write(data), **timeouts)
        return self.chat_numbers.read(answer)


def create_bot(token: str, api_url: str, proxy: str | None = None) -> TelegramBot:
    """Build the library's Bot for the API at `api_url` (without `/bot`), reached through `proxy` if any.

    getUpdates has connections of its own.
    """
    # We ask for raw answers on purpose, and read the one attribute whose type will change either way.
    warnings.filterwarnings(
        "ignore", r".*Bot\.(getUpdates|getChatAdministrators|getChatMember)", PTBUserWarning
    )
    warnings.filterwarnings("ignore", r".*retry_after", PTBDeprecationWarning)
    # Certificates take 30 ms to load; a Bot API server of one's own may need none. No redirect is followed.
    httpx_settings: dict[str, Any] = {
        "verify": httpx.create_ssl_context(verify=not api_url.startswith("http://")),
        "proxy": proxy,
        "trust_env": httpx.URL(api_url).host not in _LOCAL_HOSTS,  # no proxy to this machine
    }
    return TelegramBot(
        token,
        base_url=f"{api_url}/bot",
        base_file_url=f"{api_url}/file/bot",
        request=_build_request(256, _SEND_TIMEOUT_SECONDS, httpx_settings),
        get_updates_request=_build_request(4, POLL_SECONDS + 15.0, httpx_settings, TolerantPollRequest),
    )


@asynccontextmanager
async def open_bot(
    token: str, api_url: str, stop: asyncio.Event, proxy: str | None = None
) -> AsyncIterator[TelegramBot | None]:
    """Yield the Bot once Telegram has said whose token it is; None if `stop` is set before that.

    Telegram is asked until it answers. Raises TelegramRefused when it does not know the token.
    """
    bot = create_bot(token, api_url, proxy)
    route = str(httpx.URL(api_url).host)
    if proxy is not None:
        route += f", through {describe_proxy(proxy)},"
    try:
        is_ready = await _initialize_bot(bot, stop, route)
        yield bot if is_ready else None
    finally:
        await bot.shutdown()


async def _initialize_bot(bot: Bot, stop: asyncio.Event, route: str) -> bool:
    """Ask Telegram until it answers; False if `stop` is set before or meanwhile."""
    pause = _FIRST_PAUSE_SECONDS
    reason = ""
    while not stop.is_set():
        failure = await run_unless_stopped(stop, _try_initialize(bot), reason)
        if not failure:
            return not stop.is_set()
        if failure != reason:
            reason = failure
            _log.warning("Telegram at %s does not answer: %s", route, reason, extra={"action": "wire.away"})
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
        pause = min(_MAX_PAUSE_SECONDS, pause * 2)
    return False


async def run_unless_stopped(stop: asyncio.Event, call: Coroutine[Any, Any, T], otherwise: T) -> T:
    """Return the result of `call`, or `otherwise` once `stop` is set.

    Telegram, or the database, may keep us waiting for longer than a shutdown may take.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            calling = tasks.create_task(call)
            stopping = tasks.create_task(stop.wait())
            await asyncio.wait((calling, stopping), return_when=asyncio.FIRST_COMPLETED)
            calling.cancel()
            stopping.cancel()
    except ExceptionGroup as group:  # only `call` can fail
        raise group.exceptions[0] from None
    if calling.cancelled():
        return otherwise
    return calling.result()


async def _try_initialize(bot: Bot) -> str:
    """Return why Telegram does not answer, "" if it does. Raises TelegramRefused."""
    try:
        await bot.initialize()
    except InvalidToken:
        raise TelegramRefused("Telegram does not accept TELEGRAM_TOKEN. Ask @BotFather for it.") from None
    except TelegramError as error:
        return describe_transport_error(error)
    return ""


def _build_request(
    max_connections: int,
    read_timeout: float,
    httpx_settings: Mapping[str, Any],
    request_class: type[BoundedRequest] = BoundedRequest,
) -> HTTPXRequest:
    limits = httpx.Limits(max_connections=max_connections, keepalive_expiry=_KEEPALIVE_SECONDS)
    return request_class(
        read_timeout=read_timeout,
        write_timeout=10.0,
        media_write_timeout=UPLOAD_TIMEOUT_SECONDS,
        connect_timeout=10.0,
        pool_timeout=5.0,
        httpx_kwargs={"limits": limits, **httpx_settings},
    )


class TelegramClient:
    """Calls of the Bot API by one bot; none raises for what Telegram or the network does."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._has_drafts = True  # until Telegram says that it does not offer them
        self._forums: set[int] = set()  # groups with topics, as their messages say

    async def send_message(self, lane: Lane, part: Part, reply_to: int | None = None) -> DeliveryOutcome:
        """Send a new message: the one call that must not be repeated when its outcome is unknown."""
        reply = None
        if reply_to is not None:
            reply = ReplyParameters(reply_to, allow_sending_without_reply=True)
        return await self._await_message(
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
        outcome = await await_outcome(
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

    async def answer_guest_query(self, query_id: str, text: str) -> tuple[DeliveryOutcome, str]:
        """Answer where somebody asked in a chat that is not the bot's, once; must not be repeated.

        Also returns the id by which the answer can be edited, "" if there is none.
        """
        content = InputTextMessageContent(text, link_preview_options=_NO_PREVIEW)
        result = InlineQueryResultArticle("answer", "Answer", content)
        inline_message_id = ""

        async def answer() -> None:
            nonlocal inline_message_id
            sent = await self._bot.answer_guest_query(query_id, result, read_timeout=_EDIT_TIMEOUT_SECONDS)
            inline_message_id = sent.inline_message_id

        return await await_outcome(answer()), inline_message_id

    async def edit_guest_answer(self, lane: Lane, part: Part, inline_message_id: str) -> DeliveryOutcome:
        """Make the answer to a guest query show this part; may be repeated. The id alone says where it is.

        A refusal says nothing of the lane's chat, which is the person's: its kind is `gone`.
        """
        del lane
        outcome = await await_outcome(
            self._bot.edit_message_text(
                part.text,
                inline_message_id=inline_message_id,
                link_preview_options=_NO_PREVIEW,
                read_timeout=_EDIT_TIMEOUT_SECONDS,
                api_kwargs=_build_entities(part),
            )
        )
        if isinstance(outcome, DeliveryRefusal) and outcome.kind != "entities":
            return DeliveryRefusal("gone", outcome.detail)
        return outcome

    async def delete_message(self, lane: Lane, message_id: int) -> DeliveryOutcome:
        """Delete a message; may be repeated. For one that is gone already the refusal's kind is `gone`."""
        return await await_outcome(
            self._bot.delete_message(lane.chat, message_id, read_timeout=_EDIT_TIMEOUT_SECONDS)
        )

    async def send_typing(self, lane: Lane, draft_id: int, text: str = "") -> tuple[DeliveryOutcome, bool]:
        """Show that the bot is at work; the bool is True for a draft, False for a typing sign.

        A draft lasts 30 s, has a Stop button and shows `text`; typing lasts 5 s.
        """
        if self._has_drafts and not lane.is_group:
            outcome = await await_outcome(
                self._bot.send_message_draft(
                    lane.chat,
                    draft_id,
                    text,
                    message_thread_id=lane.topic,
                    read_timeout=TYPING_TIMEOUT_SECONDS,
                    api_kwargs={"can_stop": True},
                )
            )
            if not _is_unsupported(outcome):
                return outcome, True
            self._has_drafts = False
        return await self.show_action(lane, "typing"), False

    async def show_action(self, lane: Lane, action: str) -> DeliveryOutcome:
        """Show for 5 s what the bot does, such as `typing` or `upload_photo`."""
        topic = lane.topic
        if topic is None and lane.chat in self._forums:
            topic = _GENERAL_TOPIC
        return await await_outcome(
            self._bot.send_chat_action(
                lane.chat, action, message_thread_id=topic, read_timeout=TYPING_TIMEOUT_SECONDS
            )
        )

    async def _await_message(self, call: Awaitable[Message]) -> DeliveryOutcome:
        """Return the outcome of a first send; its answer tells whether the group has topics."""

        async def note_forum() -> Message:
            message = await call
            if message.chat.is_forum:
                self._forums.add(message.chat.id)
            return message

        return await await_outcome(note_forum())


async def await_outcome(call: Awaitable[Any]) -> DeliveryOutcome:
    """The outcome of a call, whatever it raises."""
    try:
        answer = await call
    except TelegramError as error:
        return classify_error(error)
    except UNREADABLE_ANSWER_ERRORS as error:
        return UnknownDelivery(repr(error))
    if isinstance(answer, Message):
        return DeliverySuccess(answer.message_id)
    return DeliverySuccess()


def _is_unsupported(outcome: DeliveryOutcome) -> bool:
    """Whether the server does not know drafts: it answers 404, or refuses the call for what it is."""
    match outcome:
        case DeliveryFailure(reason="locked_out") | DeliveryRefusal(kind="other"):
            return True
    return False


def _build_keyboard(buttons: tuple[tuple[Button, ...], ...]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    rows = [
        [InlineKeyboardButton(button.label, callback_data=button.data) for button in row] for row in buttons
    ]
    return InlineKeyboardMarkup(rows)


def _build_entities(part: Part) -> dict[str, Any] | None:
    if part.entities:
        return {"entities": list(part.entities)}
    return None
