"""Sets aside items that cannot be handled: the item is dead, its turn is over.

Its sender is notified, and the admins once for each reason.
"""

import time

from bot.db.conversations import turns
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import inbox, outbox, unplaced_items
from bot.db.queues.admin_notices import AdminNotices
from bot.domain import InboxItem, Part
from bot.translations.translator import Translatable, defer, translatable
from bot.usage.timers import TurnTimers

DEAD_LETTER_NOTICE = translatable("Something went wrong with this message. It's saved, and the admins know.")


class DeadLetters:
    """How the worker gives up on items."""

    def __init__(
        self,
        database: Database,
        notices: AdminNotices,
        timers: TurnTimers | None = None,
    ) -> None:
        self._database = database
        self._notices = notices
        self._timers = timers or TurnTimers()

    async def __call__(self, items: tuple[InboxItem, ...], reason: str) -> None:
        first = items[0]
        now = time.time()
        async with self._database.transaction() as tx:
            if not await inbox.mark_dead(tx, [item.id for item in items], error=reason, now=now):
                return  # it was answered, and failed after that
            await unplaced_items.forget_dead(tx, [item.id for item in items])
            had_turn = await turns.fail(tx, first.id, reason="the turn was set aside", now=now)
            text = defer("I couldn't process a message: {reason}", reason=reason)
            await self._notices.notify(tx, "set aside", text, now=now)
            if first.lane is not None:
                translate = await people.find_translator(tx, first.lane.chat)
                parts = (Part(translate(DEAD_LETTER_NOTICE)),)
                await outbox.add(tx, item=first.id, lane=first.lane, parts=parts, now=now)
        if had_turn and first.lane is not None:
            self._timers.open(first, first.lane).has_ended = True

    async def notify_admins(self, subject: str, text: Translatable) -> None:
        """Notify the admins in a transaction of its own, unless the subject's last notice was the same."""
        async with self._database.transaction() as tx:
            await self._notices.notify(tx, subject, text, now=time.time())
