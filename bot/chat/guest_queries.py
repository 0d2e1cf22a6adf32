"""Answers guest queries at once with a short text; their turns edit it when the answer is there.

Telegram takes an answer only within some seconds, and only once. The call is stored before it is made: where
it is unknown whether it arrived it is never repeated, and the person reads in private that they should ask
again.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bot.db.engine import Database
from bot.db.queues import guest_queries, inbox, outbox
from bot.db.retry import retry_until_available
from bot.domain import Lane, Part
from bot.telegram.client import TelegramClient
from bot.telegram.incoming.update import ParsedUpdate
from bot.telegram.outcomes import DeliveryFailure, DeliveryOutcome, DeliverySuccess
from bot.translations.translator import Translator

FIRST_TEXT = "…"
WINDOW_SECONDS = 15.0
"""How long after a query its answer is tried; how long Telegram takes one is not documented."""

RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GuestQueries:
    """Gives each query its first answer, and queues it for its turn."""

    database: Database
    client: TelegramClient
    clock: Callable[[], float] = time.time

    async def answer(self, update: ParsedUpdate, translate: Translator) -> None:
        """Answer a query that has no lane yet; `translate` is into its person's language."""
        inline_message_id = await self._try_within_window(update)
        if inline_message_id:
            await retry_until_available(partial(self._queue, update, inline_message_id))
        else:
            await retry_until_available(partial(self._give_up, update, translate))

    async def _try_within_window(self, update: ParsedUpdate) -> str:
        """Make the call until it may have arrived; returns the id of the message, "" if none is known."""
        item = update.item
        query_id = item.body["message"]["guest_query_id"]
        outcome: DeliveryOutcome
        while True:
            async with self.database.transaction() as tx:
                if not await guest_queries.mark_being_answered(tx, item.id):
                    return ""
            outcome, inline_message_id = await self.client.answer_guest_query(query_id, FIRST_TEXT)
            if isinstance(outcome, DeliverySuccess):
                return inline_message_id
            _log.warning("a guest query was not answered: %s", outcome, extra={"action": "guest.failed"})
            is_late = self.clock() > item.received_at + WINDOW_SECONDS
            if is_late or not isinstance(outcome, DeliveryFailure):
                return ""
            await retry_until_available(partial(self._note_failure, item.id))
            await asyncio.sleep(outcome.retry_after_seconds or RETRY_SECONDS)

    async def _note_failure(self, item: int) -> None:
        async with self.database.transaction() as tx:
            await guest_queries.mark_not_answered(tx, item)

    async def _queue(self, update: ParsedUpdate, inline_message_id: str) -> None:
        assert update.person is not None
        assert update.lane is not None
        lane = Lane.for_guest(update.person, update.lane.chat)
        async with self.database.transaction() as tx:
            await guest_queries.store_answered(
                tx,
                update.item.id,
                lane,
                text=FIRST_TEXT,
                inline_message_id=inline_message_id,
                now=self.clock(),
            )

    async def _give_up(self, update: ParsedUpdate, translate: Translator) -> None:
        """Tell the person in private that there is no answer."""
        assert update.person is not None
        chat = update.item.body["message"]["chat"]
        if title := chat.get("title"):
            text = translate("I couldn't answer you in “{chat}”. Please ask me there again.", chat=title)
        else:
            text = translate("I couldn't answer you in another chat. Please ask me there again.")
        private_lane = Lane(update.person)
        async with self.database.transaction() as tx:
            now = self.clock()
            await outbox.add(tx, item=update.item.id, lane=private_lane, parts=(Part(text),), now=now)
            await inbox.mark_done(tx, [update.item.id], now=now)
            await inbox.forget_body(tx, [update.item.id])
