"""Puts 👀 on messages that have to wait for their turn, so that nobody wonders whether they arrived.

A courtesy: it is tried once, side by side for all chats, and never delays anything.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence

from telegram import Bot
from telegram.error import TelegramError

from bot.db.queues.inbox import TURN_SHAPES, IncomingUpdate
from bot.domain import Lane
from bot.telegram import client as wire

TIMEOUT_SECONDS = 5.0  # seconds
MAX_CONCURRENT = 8

log = logging.getLogger(__name__)


class SeenReactions:
    """`busy` tells whether a lane's next message waits; `run` must be running for anything to be seen."""

    def __init__(self, bot: Bot, is_busy: Callable[[Lane], bool]) -> None:
        self._bot = bot
        self._is_busy = is_busy
        self._pending: asyncio.Queue[IncomingUpdate] = asyncio.Queue(100)

    def enqueue(self, updates: Sequence[IncomingUpdate]) -> None:
        """Note which of these wait; with too many at once the rest goes without."""
        for one in updates:
            if (
                one.shape in TURN_SHAPES
                and one.lane is not None
                and self._is_busy(one.lane)
                and not self._pending.full()
            ):
                self._pending.put_nowait(one)

    async def run(self) -> None:
        """React until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_CONCURRENT):
                tasks.create_task(self._react_forever())

    async def _react_forever(self) -> None:
        while True:
            one = await self._pending.get()
            try:
                message = json.loads(one.body)["message"]
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await self._bot.set_message_reaction(message["chat"]["id"], message["message_id"], "👀")
            except (TelegramError, TimeoutError, *wire.UNREADABLE_ANSWER_ERRORS) as error:
                log.info("👀 was lost: %s", type(error).__name__, extra={"action": "eyes.lost"})
