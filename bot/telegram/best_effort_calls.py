"""Small calls to Telegram that may be lost without harm: the answer to a tap, a message redrawn after it, a
menu.

Each takes a few seconds at most and never raises; what must arrive goes through the outbox instead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence

from telegram import Bot, BotCommand, BotCommandScopeAllPrivateChats, BotCommandScopeChat
from telegram.error import TelegramError

from bot.domain import Lane, Part
from bot.telegram.client import TelegramClient

TIMEOUT_SECONDS = 5.0  # seconds
MAX_DELETE_ATTEMPTS = 3  # at what should not be lost
PHOTO_TIMEOUT_SECONDS = 30.0  # for as much as a picture is

CommandMenu = Sequence[tuple[str, str]]  # names of commands and their lines of help

log = logging.getLogger(__name__)


class BestEffortCalls:
    """The calls, made with the bot's own client; the menus are what members and admins are shown."""

    def __init__(
        self,
        bot: Bot,
        *,
        member_commands: CommandMenu,
        admin_commands: CommandMenu,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._bot = bot
        self._client = TelegramClient(bot)
        self._member_commands = [BotCommand(name, line) for name, line in member_commands]
        self._admin_commands = [BotCommand(name, line) for name, line in admin_commands]
        self._timeout_seconds = timeout_seconds

    async def answer_callback_query(self, query_id: str, toast: str = "") -> None:
        """End the waiting sign of a tapped button, with a short line over the chat if there is one to say."""
        await self._attempt("answer", self._bot.answer_callback_query(query_id, text=toast[:200] or None))

    async def edit_message(self, lane: Lane, message_id: int, part: Part) -> None:
        """Make a message say something else."""
        await self._attempt("redraw", self._client.edit_message(lane, message_id, part))

    async def remove_buttons(self, lane: Lane, message_id: int) -> None:
        """Take a message's buttons away."""
        await self._attempt("strip", self._bot.edit_message_reply_markup(lane.chat, message_id))

    async def delete_message(self, lane: Lane, message_id: int) -> bool:
        """Take a message out of the chat, also somebody else's; tried a few times. False: it may still stand
        there.
        """
        for _ in range(MAX_DELETE_ATTEMPTS):
            if await self._attempt("delete", self._bot.delete_message(lane.chat, message_id)):
                return True
            await asyncio.sleep(self._timeout_seconds / 10)
        return False

    async def send_photo(self, lane: Lane, png: bytes, caption: str) -> None:
        """Show a picture."""
        await self._attempt(
            "photo",
            self._bot.send_photo(lane.chat, png, caption, message_thread_id=lane.topic, filename="usage.png"),
            timeout_seconds=PHOTO_TIMEOUT_SECONDS,
        )

    async def send_text(self, lane: Lane, text: str) -> None:
        """Say something that need not arrive."""
        await self._attempt("line", self._bot.send_message(lane.chat, text, message_thread_id=lane.topic))

    async def alert_admins(self, admins: Iterable[int], text: str) -> None:
        """Tell admins without the database, which may be what is wrong."""
        for admin in admins:
            await self._attempt("alarm", self._bot.send_message(admin, text))

    async def set_menus(self, admins: Iterable[int]) -> None:
        """At start: the members' menu for everybody, and its own for each admin."""
        await self._attempt(
            "menu", self._bot.set_my_commands(self._member_commands, scope=BotCommandScopeAllPrivateChats())
        )
        for admin in admins:
            await self.set_admin_menu(admin)

    async def set_admin_menu(self, person: int) -> None:
        """Show an admin the commands of admins."""
        await self._attempt(
            "menu", self._bot.set_my_commands(self._admin_commands, scope=BotCommandScopeChat(person))
        )

    async def reset_menu(self, person: int) -> None:
        """Show somebody who is no admin any more what everybody is shown."""
        await self._attempt("menu", self._bot.delete_my_commands(scope=BotCommandScopeChat(person)))

    async def _attempt(
        self, operation: str, call: Awaitable[object], *, timeout_seconds: float | None = None
    ) -> bool:
        """Make the call; False if it was lost."""
        try:
            async with asyncio.timeout(timeout_seconds or self._timeout_seconds):
                await call
        except (TelegramError, TimeoutError, KeyError, TypeError, ValueError, AttributeError) as error:
            # The library puts the token into some errors, so only their class is told.
            log.info("%s was lost: %s", operation, type(error).__name__, extra={"action": "gesture.lost"})
            return False
        return True
