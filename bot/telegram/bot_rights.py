"""Asks Telegram what the bot sees in a group: every message, or only commands and replies to it."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from telegram import Bot, ChatMember
from telegram.error import TelegramError

from bot.telegram.client import UNREADABLE_ANSWER_ERRORS

TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BotRights:
    """Whether the bot administers a group, and whether its privacy mode is off."""

    is_administrator: bool
    has_privacy_off: bool


class BotRightsReader:
    """Asks Telegram."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    async def read(self, chat: int) -> BotRights | None:
        """Return the rights of the bot in a group that it is in; None: Telegram does not say."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                me = await self._bot.get_me()
                # Raw: the library raises for a member that lacks one right of those it knows.
                member = await self._bot.do_api_request(
                    "getChatMember", api_kwargs={"chat_id": chat, "user_id": me.id}
                )
        except (TelegramError, TimeoutError, *UNREADABLE_ANSWER_ERRORS) as error:
            log.info("what it sees is unknown: %s", type(error).__name__, extra={"action": "groups.unasked"})
            return None
        is_administrator = _read_status(member) == ChatMember.ADMINISTRATOR
        return BotRights(is_administrator, bool(me.can_read_all_group_messages))


def _read_status(member: Any) -> str | None:
    status = member.get("status") if isinstance(member, dict) else None
    return status if isinstance(status, str) else None
