"""Puts 👀 on messages that have to wait for their turn, and takes it off once they are answered.

A courtesy: each call is tried once, in parallel for all chats, delays nothing, and nothing is stored of it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from telegram import Bot
from telegram.error import TelegramError

from bot.db.queues.inbox import TURN_SHAPES
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.domain import InboxItem, Lane
from bot.telegram.client import UNREADABLE_ANSWER_ERRORS
from bot.usage.timers import NO_LANE

TIMEOUT_SECONDS = 5.0
MAX_CONCURRENT = 8
REMOVAL_GAP_SECONDS = 0.1  # between two removals, since many messages may be answered at once
_MAX_PENDING = 100
_MAX_MARKED = 1000

MessageKey = tuple[int, int]  # chat and message

log = logging.getLogger(__name__)


class SeenReactions:
    """Reacts while `run` is running; `is_busy` says whether a lane's next message has to wait.

    `find_begin`: since when (epoch seconds) this process works for a lane. `tell_other`: has the replica of
    another lane react to a message, if it has to wait.
    """

    def __init__(
        self,
        bot: Bot,
        is_busy: Callable[[Lane], bool],
        find_begin: Callable[[Lane], float],
        tell_other: Callable[[Lane, int], object] = lambda lane, message_id: None,
    ) -> None:
        self._bot = bot
        self._is_busy = is_busy
        self._find_begin = find_begin
        self._tell_other = tell_other
        self._pending: asyncio.Queue[MessageKey] = asyncio.Queue(_MAX_PENDING)
        self._removals: asyncio.Queue[MessageKey] = asyncio.Queue(_MAX_PENDING)
        self._marked: dict[MessageKey, Lane] = {}  # messages that have a reaction, or get one

    def enqueue(self, updates: Sequence[IncomingUpdate]) -> None:
        """Queue a reaction to each message that waits, and to the first of a burst of forwards.

        A full queue drops the rest.
        """
        forwarding_lane = None
        for update in updates:
            is_burst = update.is_forward and update.lane == forwarding_lane
            forwarding_lane = update.lane if update.is_forward else None
            if update.shape in TURN_SHAPES and update.lane and update.message_id and not is_burst:
                self.react_if_waiting(update.lane, update.message_id)
                self._tell_other(update.lane, update.message_id)

    def react_if_waiting(self, lane: Lane, message_id: int) -> None:
        """Queue a reaction to a message that was stored just now, if it has to wait."""
        if not self._is_busy(lane) or self._pending.full() or len(self._marked) >= _MAX_MARKED:
            return
        key = (lane.chat, message_id)
        self._marked[key] = lane
        self._pending.put_nowait(key)

    def remove(self, items: Sequence[InboxItem]) -> None:
        """Queue the removal of the reactions to messages that are answered; a full queue drops the rest."""
        answered = {_find_key(item): item for item in items}
        newest = max(answered)
        lane = items[0].lane
        # What was dropped by a /stop is older, and will not be answered any more.
        passed = {key for key, marked_lane in self._marked.items() if marked_lane == lane and key <= newest}
        # An earlier process may have put a reaction on what came before this one began.
        old = {key for key, item in answered.items() if item.received_at < self._find_begin(lane or NO_LANE)}
        for key in passed | old:
            self._marked.pop(key, None)
            if not self._removals.full():
                self._removals.put_nowait(key)

    async def run(self) -> None:
        """React until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_CONCURRENT):
                tasks.create_task(self._react_forever())
            tasks.create_task(self._remove_forever())

    async def _react_forever(self) -> None:
        while True:
            key = await self._pending.get()
            if key in self._marked:
                await self._set_reaction(key, "👀")
            if key not in self._marked and not self._removals.full():  # answered while the call was made
                self._removals.put_nowait(key)

    async def _remove_forever(self) -> None:
        while True:
            await self._set_reaction(await self._removals.get(), None)
            await asyncio.sleep(REMOVAL_GAP_SECONDS)

    async def _set_reaction(self, key: MessageKey, emoji: str | None) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._bot.set_message_reaction(*key, emoji)
        except (TelegramError, TimeoutError, *UNREADABLE_ANSWER_ERRORS) as error:
            log.info("a reaction was lost: %s", type(error).__name__, extra={"action": "reactions.lost"})


def _find_key(item: InboxItem) -> MessageKey:
    message = item.body["message"]
    return int(message["chat"]["id"]), int(message["message_id"])
