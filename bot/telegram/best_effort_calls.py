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
from bot.telegram.client import Wire

PATIENCE = 5.0  # seconds
TRIES = 3  # at what should not be lost
PHOTO_PATIENCE = 30.0  # for as much as a picture is

Menu = Sequence[tuple[str, str]]  # names of commands and their lines of help

log = logging.getLogger(__name__)


class Gestures:
    """The calls, made with the bot's own client; the menus are what members and admins are shown."""

    def __init__(self, bot: Bot, *, members: Menu, admins: Menu, patience: float = PATIENCE) -> None:
        self._bot = bot
        self._wire = Wire(bot)
        self._members = [BotCommand(name, line) for name, line in members]
        self._admins = [BotCommand(name, line) for name, line in admins]
        self._patience = patience

    async def answer(self, query: str, toast: str = "") -> None:
        """End the waiting sign of a tapped button, with a short line over the chat if there is one to say."""
        await self._try("answer", self._bot.answer_callback_query(query, text=toast[:200] or None))

    async def redraw(self, lane: Lane, message: int, part: Part) -> None:
        """Make a message say something else."""
        await self._try("redraw", self._wire.edit(lane, message, part))

    async def strip(self, lane: Lane, message: int) -> None:
        """Take a message's buttons away."""
        await self._try("strip", self._bot.edit_message_reply_markup(lane.chat, message))

    async def delete(self, lane: Lane, message: int) -> bool:
        """Take a message out of the chat, also somebody else's; tried a few times. False: it may still stand
        there.
        """
        for _ in range(TRIES):
            if await self._try("delete", self._bot.delete_message(lane.chat, message)):
                return True
            await asyncio.sleep(self._patience / 10)
        return False

    async def photo(self, lane: Lane, png: bytes, caption: str) -> None:
        """Show a picture."""
        await self._try(
            "photo",
            self._bot.send_photo(lane.chat, png, caption, message_thread_id=lane.topic, filename="usage.png"),
            patience=PHOTO_PATIENCE,
        )

    async def line(self, lane: Lane, text: str) -> None:
        """Say something that need not arrive."""
        await self._try("line", self._bot.send_message(lane.chat, text, message_thread_id=lane.topic))

    async def alarm(self, admins: Iterable[int], line: str) -> None:
        """Tell admins without the database, which may be what is wrong."""
        for admin in admins:
            await self._try("alarm", self._bot.send_message(admin, line))

    async def menus(self, admins: Iterable[int]) -> None:
        """At start: the members' menu for everybody, and its own for each admin."""
        await self._try(
            "menu", self._bot.set_my_commands(self._members, scope=BotCommandScopeAllPrivateChats())
        )
        for admin in admins:
            await self.admin_menu(admin)

    async def admin_menu(self, person: int) -> None:
        """Show an admin the commands of admins."""
        await self._try("menu", self._bot.set_my_commands(self._admins, scope=BotCommandScopeChat(person)))

    async def member_menu(self, person: int) -> None:
        """Show somebody who is no admin any more what everybody is shown."""
        await self._try("menu", self._bot.delete_my_commands(scope=BotCommandScopeChat(person)))

    async def _try(self, what: str, call: Awaitable[object], *, patience: float | None = None) -> bool:
        """Make the call; False if it was lost."""
        try:
            async with asyncio.timeout(patience or self._patience):
                await call
        except (TelegramError, TimeoutError, KeyError, TypeError, ValueError, AttributeError) as error:
            # The library puts the token into some errors, so only their class is told.
            log.info("%s was lost: %s", what, type(error).__name__, extra={"action": "gesture.lost"})
            return False
        return True
