"""Puts 👀 on messages that have to wait for their turn, so that their senders know that they arrived.

A courtesy: each is tried once, in parallel for all chats, and delays nothing.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence

from telegram import Bot
from telegram.error import TelegramError

from bot.db.queues.inbox import TURN_SHAPES, IncomingUpdate
from bot.domain import Lane
from bot.telegram.client import UNREADABLE_ANSWER_ERRORS

TIMEOUT_SECONDS = 5.0
MAX_CONCURRENT = 8
_MAX_PENDING = 100

log = logging.getLogger(__name__)


class SeenReactions:
    """Reacts while `run` is running; `is_busy` says whether a lane's next message has to wait."""

    def __init__(self, bot: Bot, is_busy: Callable[[Lane], bool]) -> None:
        self._bot = bot
        self._is_busy = is_busy
        self._pending: asyncio.Queue[IncomingUpdate] = asyncio.Queue(_MAX_PENDING)

    def enqueue(self, updates: Sequence[IncomingUpdate]) -> None:
        """Queue a reaction to each message that waits, and to the first of a burst of forwards.

        A full queue drops the rest.
        """
        forwarding_lane = None
        for update in updates:
            is_burst = update.is_forward and update.lane == forwarding_lane
            forwarding_lane = update.lane if update.is_forward else None
            if self._has_to_wait(update) and not is_burst and not self._pending.full():
                self._pending.put_nowait(update)

    def _has_to_wait(self, update: IncomingUpdate) -> bool:
        return update.shape in TURN_SHAPES and update.lane is not None and self._is_busy(update.lane)

    async def run(self) -> None:
        """React until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_CONCURRENT):
                tasks.create_task(self._react_forever())

    async def _react_forever(self) -> None:
        while True:
            update = await self._pending.get()
            try:
                message = json.loads(update.body)["message"]
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await self._bot.set_message_reaction(message["chat"]["id"], message["message_id"], "👀")
            except (TelegramError, TimeoutError, *UNREADABLE_ANSWER_ERRORS) as error:
                log.info("👀 was lost: %s", type(error).__name__, extra={"action": "reactions.lost"})
