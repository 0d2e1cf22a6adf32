"""Small calls to Telegram that may be lost without harm: the answer to a tap, a redrawn message, a menu.

Each takes a few seconds at most and never raises; what must arrive goes through the outbox instead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal

from telegram import (
    Bot,
    BotCommand,
    BotCommandScope,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
)
from telegram.error import TelegramError

from bot.domain import Lane, Part
from bot.telegram.client import TelegramClient
from bot.translations.translator import ENGLISH, LANGUAGES, Translatable, Translator

TIMEOUT_SECONDS = 5.0
MAX_DELETE_ATTEMPTS = 3  # a message to be deleted may hold a secret

CommandMenu = Sequence[tuple[str, str]]  # (name, line of help) of each command
MenuRole = Literal["member", "admin"]
BuildMenu = Callable[[MenuRole, str], CommandMenu]
"""Builds the menu of a role in a language."""
BuildGroupMenu = Callable[[str], CommandMenu]
"""Builds the menu of groups in a language."""

log = logging.getLogger(__name__)


class BestEffortCalls:
    """Makes the calls; menus are built when they are set."""

    def __init__(
        self,
        bot: Bot,
        build_menu: BuildMenu,
        build_group_menu: BuildGroupMenu,
        list_admins: Callable[[], Iterable[int]],
        *,
        get_translator: Callable[[int], Translator] = lambda _: ENGLISH,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._bot = bot
        self._client = TelegramClient(bot)
        self._build_menu = build_menu
        self._build_group_menu = build_group_menu
        self._list_admins = list_admins
        self._get_translator = get_translator
        self._timeout_seconds = timeout_seconds

    async def answer_callback_query(self, query_id: str, toast: str = "") -> None:
        """End the waiting sign of a tapped button, with `toast` as a short line over the chat."""
        await self._attempt("answer", self._bot.answer_callback_query(query_id, text=toast[:200] or None))

    async def edit_message(self, lane: Lane, message_id: int, part: Part) -> None:
        """Make a message show another part."""
        await self._attempt("redraw", self._client.edit_message(lane, message_id, part))

    async def remove_buttons(self, lane: Lane, message_id: int) -> None:
        """Remove a message's buttons."""
        await self._attempt("strip", self._bot.edit_message_reply_markup(lane.chat, message_id))

    async def delete_message(self, lane: Lane, message_id: int) -> bool:
        """Delete a message, also one of somebody else; tried a few times.

        False: it may still be in the chat.
        """
        for _ in range(MAX_DELETE_ATTEMPTS):
            if await self._attempt("delete", self._bot.delete_message(lane.chat, message_id)):
                return True
            await asyncio.sleep(self._timeout_seconds / 10)
        return False

    async def name_topic(self, lane: Lane, name: str) -> None:
        """Name a topic of a private chat."""
        await self._attempt("title", self._bot.edit_forum_topic(lane.chat, lane.topic or 0, name=name))

    async def leave_chat(self, chat: int) -> bool:
        """Leave a group; False: the bot may still be in it."""
        return await self._attempt("leave", self._bot.leave_chat(chat))

    async def alert_admins(self, text: Translatable) -> None:
        """Notify admins without the database, which may be what is failing."""
        for admin in self._list_admins():
            message = text(self._get_translator(admin))
            await self._attempt("alarm", self._bot.send_message(admin, message))

    async def set_menus(self, admins: Mapping[int, str]) -> None:
        """Set the menus of members and of groups, by Telegram's language, and that of each admin.

        `admins`: the language of each. Called at start.
        """
        for language in LANGUAGES:
            code = None if language == ENGLISH.language else language
            await self._set_menu(self._build_menu("member", language), BotCommandScopeAllPrivateChats(), code)
            await self._set_menu(self._build_group_menu(language), BotCommandScopeAllGroupChats(), code)
        for admin, language in admins.items():
            await self.set_menu(admin, language, is_admin=True)

    async def set_menu(self, person: int, language: str, *, is_admin: bool) -> None:
        """Give a person the menu of members or admins in a language, whatever Telegram's is."""
        menu = self._build_menu("admin" if is_admin else "member", language)
        await self._set_menu(menu, BotCommandScopeChat(person), None)

    async def _set_menu(self, menu: CommandMenu, scope: BotCommandScope, language_code: str | None) -> None:
        commands = [BotCommand(name, line) for name, line in menu]
        setting = self._bot.set_my_commands(commands, scope=scope, language_code=language_code)
        await self._attempt("menu", setting)

    async def reset_menu(self, person: int) -> bool:
        """Give somebody the menu of members in the language of their Telegram; False if it was lost."""
        return await self._attempt("menu", self._bot.delete_my_commands(scope=BotCommandScopeChat(person)))

    async def _attempt(self, operation: str, call: Awaitable[object]) -> bool:
        """Make the call; False if it was lost."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await call
        except (TelegramError, TimeoutError, KeyError, TypeError, ValueError, AttributeError) as error:
            # The library puts the token into some errors, so only their class is logged.
            log.info("%s was lost: %s", operation, type(error).__name__, extra={"action": "gesture.lost"})
            return False
        return True
