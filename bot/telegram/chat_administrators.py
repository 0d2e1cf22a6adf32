"""Who administers a group: asked of Telegram, and remembered for five minutes.

While Telegram does not answer, nobody counts as an administrator: no right comes from an outage. It is
asked again a little later.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from telegram import Bot
from telegram.error import TelegramError

REMEMBERED_SECONDS = 300.0
FAILURE_SECONDS = 10.0  # after a failure nobody is asked for so long
TIMEOUT_SECONDS = 5.0
MAX_REMEMBERED = 1000  # groups

log = logging.getLogger(__name__)


class ChatAdministrators:
    """Administrators by group."""

    def __init__(self, bot: Bot, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bot = bot
        self._clock = clock
        self._known: dict[int, tuple[float, frozenset[int]]] = {}  # with the moment until which it counts
        self._locks = WeakValueDictionary[int, asyncio.Lock]()  # of groups that are being asked about

    async def is_administrator(self, chat: int, person: int) -> bool:
        """Whether somebody administers a group; who writes as the group itself always does."""
        if person == chat:
            return True
        async with self._locks.setdefault(chat, asyncio.Lock()):
            valid_until, administrators = self._known.get(chat, (None, frozenset[int]()))
            if valid_until is None or self._clock() > valid_until:
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
            return self._remember(chat, frozenset(), FAILURE_SECONDS)
        return self._remember(chat, frozenset(_read_ids(members)), REMEMBERED_SECONDS)

    def _remember(self, chat: int, administrators: frozenset[int], seconds: float) -> frozenset[int]:
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[chat] = (self._clock() + seconds, administrators)
        return administrators


def _read_ids(members: Any) -> list[int]:
    """Return the ids in a raw list of members, as far as they can be read."""
    if not isinstance(members, list):
        return []
    users = [member.get("user") for member in members if isinstance(member, dict)]
    ids = [user.get("id") for user in users if isinstance(user, dict)]
    return [number for number in ids if isinstance(number, int)]
