"""What the bot sees in a group: every message, or only commands and replies to it.

Asked of Telegram when the bot gets into a group or its rights change there, and at each start for the groups
that it is in. While Telegram does not answer, what was known stays.
"""

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Any

from telegram import Bot, ChatMember
from telegram.error import TelegramError

from bot.db.engine import Database
from bot.db.people import groups
from bot.db.retry import retry_until_available
from bot.telegram.client import UNREADABLE_ANSWER_ERRORS
from bot.telegram.groups import GroupDirectory

TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)


def judge_sight(*, is_administrator: bool, has_privacy_off: bool, known: bool | None) -> bool:
    """Whether the bot sees every message of a group.

    `known`: what was found since the bot was added (None: nothing). Turning privacy mode off changes nothing
    in the groups that the bot is in already.
    """
    return is_administrator or (has_privacy_off and known is not False)


class GroupSight:
    """Asks Telegram, and notes what it says in the database and in memory."""

    def __init__(self, bot: Bot, database: Database, directory: GroupDirectory) -> None:
        self._bot = bot
        self._database = database
        self._directory = directory

    async def find(self, chat: int, *, was_added: bool = False) -> bool | None:
        """Return whether the bot sees every message of a group that it is in; None: nobody says.

        `was_added`: it has just been added, so what was known before says nothing.
        """
        group = self._directory.find(chat)
        known = group.hears_all if group is not None and not was_added else None
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                me = await self._bot.get_me()
                # Raw: the library raises for a member that lacks one right of those it knows.
                member = await self._bot.do_api_request(
                    "getChatMember", api_kwargs={"chat_id": chat, "user_id": me.id}
                )
        except (TelegramError, TimeoutError, *UNREADABLE_ANSWER_ERRORS) as error:
            log.info("what it sees is unknown: %s", type(error).__name__, extra={"action": "groups.unasked"})
            return known
        has_privacy_off = bool(me.can_read_all_group_messages)
        is_administrator = _read_status(member) == ChatMember.ADMINISTRATOR
        return judge_sight(is_administrator=is_administrator, has_privacy_off=has_privacy_off, known=known)

    async def update_all(self) -> None:
        """Find out what the bot sees in each group that it is in, one after the other."""
        for listed in self._directory.list_present():
            hears_all = await self.find(listed.chat)
            group = self._directory.find(listed.chat)
            if group is not None and group.state != "left" and group.hears_all != hears_all:
                await retry_until_available(partial(self._store, group.chat, hears_all))

    async def _store(self, chat: int, hears_all: bool | None) -> None:
        async with self._database.transaction() as tx:
            await groups.set_hears_all(tx, chat, hears_all)
        group = self._directory.find(chat)
        if group is not None:
            self._directory.remember(replace(group, hears_all=hears_all))


def _read_status(member: Any) -> str | None:
    status = member.get("status") if isinstance(member, dict) else None
    return status if isinstance(status, str) else None
