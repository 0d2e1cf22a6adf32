"""Who administers a group: asked of Telegram, and remembered for five minutes.

While Telegram does not answer, nobody counts as an administrator: no right comes from an outage.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from telegram import Bot
from telegram.error import TelegramError

REMEMBERED_SECONDS = 300.0
TIMEOUT_SECONDS = 5.0
MAX_REMEMBERED = 1000  # groups

log = logging.getLogger(__name__)


class ChatAdministrators:
    """Administrators by group."""

    def __init__(self, bot: Bot, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bot = bot
        self._clock = clock
        self._known: dict[int, tuple[float, frozenset[int]]] = {}

    async def is_administrator(self, chat: int, person: int) -> bool:
        """Whether somebody administers a group; who writes as the group itself always does."""
        if person == chat:
            return True
        asked_at, administrators = self._known.get(chat, (None, frozenset[int]()))
        if asked_at is None or self._clock() - asked_at > REMEMBERED_SECONDS:
            administrators = await self._fetch(chat)
        return person in administrators

    async def _fetch(self, chat: int) -> frozenset[int]:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                # Raw: the library raises for a member that lacks one right of those it knows.
                members = await self._bot.do_api_request(
                    "getChatAdministrators", api_kwargs={"chat_id": chat}
                )
        except (TelegramError, TimeoutError) as error:
            log.info(
                "administrators are unknown: %s", type(error).__name__, extra={"action": "groups.unasked"}
            )
            return frozenset()
        administrators = frozenset(_read_ids(members))
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[chat] = (self._clock(), administrators)
        return administrators


def _read_ids(members: Any) -> list[int]:
    """Return the ids in a raw list of members, as far as they can be read."""
    if not isinstance(members, list):
        return []
    users = [member.get("user") for member in members if isinstance(member, dict)]
    ids = [user.get("id") for user in users if isinstance(user, dict)]
    return [number for number in ids if isinstance(number, int)]
