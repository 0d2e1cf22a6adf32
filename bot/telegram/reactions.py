"""Puts 👀 on messages that have to wait for their turn, so that nobody wonders whether they arrived.

A courtesy: it is tried once, side by side for all chats, and never delays anything.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence

from telegram import Bot
from telegram.error import TelegramError

from bot.db.queues.inbox import ASKING, Arrival
from bot.domain import Lane
from bot.telegram import client as wire

PATIENCE = 5.0  # seconds
AT_ONCE = 8

log = logging.getLogger(__name__)


class Eyes:
    """`busy` tells whether a lane's next message waits; `run` must be running for anything to be seen."""

    def __init__(self, bot: Bot, busy: Callable[[Lane], bool]) -> None:
        self._bot = bot
        self._busy = busy
        self._seen: asyncio.Queue[Arrival] = asyncio.Queue(100)

    def look(self, arrivals: Sequence[Arrival]) -> None:
        """Note which of these wait; with too many at once the rest goes without."""
        for one in arrivals:
            if (
                one.shape in ASKING
                and one.lane is not None
                and self._busy(one.lane)
                and not self._seen.full()
            ):
                self._seen.put_nowait(one)

    async def run(self) -> None:
        """React until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._react_on_and_on())

    async def _react_on_and_on(self) -> None:
        while True:
            one = await self._seen.get()
            try:
                message = json.loads(one.body)["message"]
                async with asyncio.timeout(PATIENCE):
                    await self._bot.set_message_reaction(message["chat"]["id"], message["message_id"], "👀")
            except (TelegramError, TimeoutError, *wire.UNREADABLE) as error:
                log.info("👀 was lost: %s", type(error).__name__, extra={"action": "eyes.lost"})
