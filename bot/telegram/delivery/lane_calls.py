"""The calls to Telegram of one lane: where they go, what is tried again, what is stored about them.

Shared by the lane's sender, which delivers stored messages, and the sender of progress.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from bot.db.engine import Database
from bot.db.queues import guest_queries, outbox
from bot.db.write_queue import WriteOperation, WriteQueue
from bot.domain import Lane, NotifyAdmins, Part
from bot.telegram.client import TelegramClient
from bot.telegram.delivery.rate_queue import RateQueue
from bot.telegram.delivery.renderer import MarkdownRenderer
from bot.telegram.file_client import FileClient
from bot.telegram.outcomes import (
    DeliveryFailure,
    DeliveryOutcome,
    DeliveryRefusal,
    DeliverySuccess,
    UnknownDelivery,
)
from bot.usage.timers import TurnTimers

_log = logging.getLogger(__name__)
_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 10.0
_DEFAULT_FLOOD_SECONDS = 5.0

SendOrEdit = Callable[..., Awaitable[DeliveryOutcome]]
"""A call of the client that takes a lane and a part."""


class RefusalListener(Protocol):
    """Hears of chats that take no message."""

    async def note_refusal(self, lane: Lane, refusal: DeliveryRefusal) -> None:
        """Note what Telegram said; awaited outside any transaction."""
        ...


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """What all lanes share.

    `clock`: wall-clock seconds, as they are stored.
    `refusal_listener`: hears of lanes whose chat takes no message.
    `on_trouble`: called with a subject and a text for admins.
    """

    client: TelegramClient
    file_client: FileClient
    renderer: MarkdownRenderer
    database: Database
    write_queue: WriteQueue
    rate_queue: RateQueue
    clock: Callable[[], float]
    refusal_listener: RefusalListener
    on_trouble: NotifyAdmins
    turn_timers: TurnTimers


class LaneCalls:
    """The calls of `lane`, with back-off.

    `target_lane`: the lane, or its chat alone once Telegram has said that the topic does not exist; of a
    guest, the private chat, where what is no edit of the answer goes.
    `timeline`: measures what the lane's time goes to.
    """

    def __init__(self, lane: Lane, context: DeliveryContext) -> None:
        self.target_lane = Lane(lane.chat) if lane.is_guest else lane
        self.lane = lane
        self.context = context
        self.timeline = context.turn_timers.delivery_timeline(lane)
        self._failures = 0
        self._last_write: asyncio.Future[Any] | None = None

    def enqueue_write(self, entry: WriteOperation[Any], *, durable: bool = True) -> None:
        """Queue a write, behind all that were queued before; a power cut may undo what is not `durable`."""
        self._last_write = self.context.write_queue.enqueue(entry, durable=durable)

    def record_shown(self, row: int, message_id: int | None, body: Part | None) -> None:
        """Queue that Telegram shows `body` as this message; it reaches the disk with a later commit.

        Until then a power cut makes the outcome of a first send unknown, and the person is asked.
        """
        shown = partial(
            outbox.mark_shown, row=row, message_id=message_id, body=body, now=self.context.clock()
        )
        self.enqueue_write(shown, durable=False)

    def release_unsent(self, row: int) -> None:
        """Queue that a row which is stored as being sent was not sent: the sender has stopped."""
        self.enqueue_write(partial(outbox.release, row=row, reason="the sender stopped"))

    @property
    def has_unwritten(self) -> bool:
        """Whether a queued write is not committed yet."""
        return self._last_write is not None and not self._last_write.done()

    async def flush_writes(self) -> bool:
        """Wait for the queued writes; False if there was nothing to wait for."""
        last_write = self._last_write
        self._last_write = None
        if last_write is None:
            return False
        await last_write
        return True

    async def attempt(self, part: Part, call: SendOrEdit) -> DeliveryOutcome:
        """Make the call; once more without the topic, or without the formatting, if Telegram refuses that.

        Raises SenderStopped if nothing was sent, or what was sent was refused.
        """
        with self.timeline.measure("Telegram"):
            outcome = await self._call(call, part)
            if (
                isinstance(outcome, DeliveryRefusal)
                and outcome.kind == "thread"
                and self.target_lane.topic is not None
            ):
                self.target_lane = Lane(self.lane.chat)
                self.context.rate_queue.spend(self.lane.paced_chat)
                outcome = await self._call(call, part)
            if isinstance(outcome, DeliveryRefusal) and outcome.kind == "entities" and part.entities:
                self.context.rate_queue.spend(self.lane.paced_chat)
                outcome = await self._call(call, replace(part, entities=()))
            return outcome

    async def _call(self, call: SendOrEdit, part: Part) -> DeliveryOutcome:
        """Make the call unless others may have the chat: they may have sent something newer."""
        await self.context.rate_queue.wait_until_confirmed()
        return await call(self.target_lane, part=part)

    async def bind_edit(self, message_id: int) -> SendOrEdit:
        """Return the call that edits this message, for `attempt`; below zero it is the answer of a guest."""
        client = self.context.client
        if message_id > 0:
            return partial(client.edit_message, message_id=message_id)
        find_id = partial(guest_queries.find_inline_message_id, item=-message_id)
        inline_message_id = await self.context.write_queue.write(find_id)
        return partial(client.edit_guest_answer, inline_message_id=inline_message_id)

    async def acquire_rate(self) -> None:
        """Wait until a call that must arrive may be made; what Telegram's limits take is Telegram's time."""
        with self.timeline.measure("Telegram"):
            await self.context.rate_queue.acquire(self.lane.paced_chat)

    async def delete_message(self, message_id: int) -> DeliveryOutcome:
        """Delete a message; the answer of a guest cannot be deleted, and stays."""
        if message_id < 0:
            return DeliverySuccess()
        with self.timeline.measure("Telegram"):
            await self.context.rate_queue.wait_until_confirmed()
            return await self.context.client.delete_message(self.target_lane, message_id)

    def reset_failures(self) -> None:
        """Start the back-off again from its first step: Telegram answers."""
        self._failures = 0

    async def back_off(self, outcome: DeliveryFailure | UnknownDelivery) -> None:
        """Wait until the same call may be tried again."""
        if seconds := self.record_failure(outcome):
            with self.timeline.measure("back-off"):
                await self.context.rate_queue.sleep(seconds)

    def record_failure(self, outcome: DeliveryFailure | UnknownDelivery | DeliveryRefusal) -> float:
        """Return the seconds before the same call may be tried again.

        0 for a flood limit: the rate queue makes the whole chat wait for that.
        """
        if isinstance(outcome, DeliveryFailure) and outcome.reason == "flood":
            seconds = outcome.retry_after_seconds or _DEFAULT_FLOOD_SECONDS
            _log.warning(
                "Telegram wants a chat left alone", extra={"action": "sender.flood", "seconds": seconds}
            )
            self.context.rate_queue.back_off(self.lane.paced_chat, seconds)
            return 0.0
        self._failures += 1
        return min(_MAX_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2.0 ** min(self._failures - 1, 10))
