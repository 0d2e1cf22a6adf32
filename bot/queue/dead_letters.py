"""Sets aside what cannot be handled: the item is dead and its turn over, its sender reads one line, admins
are told once a reason.
"""

import time
from collections.abc import Callable

from bot.db.conversations import turns
from bot.db.engine import Database
from bot.db.queues import inbox, outbox
from bot.db.queues.admin_notices import Notices
from bot.domain import InboxItem, Lane, Part
from bot.usage.timers import Watches

SORRY = "I could not handle this message; it is kept, and the admins have been told."


class Aside:
    """The worker's way to give up on items; `wake_sender` is called for each lane that has something to read."""

    def __init__(
        self,
        database: Database,
        notices: Notices,
        wake_sender: Callable[[Lane], None],
        watches: Watches | None = None,
    ) -> None:
        self._database = database
        self._notices = notices
        self._wake_sender = wake_sender
        self._watches = watches or Watches()

    async def __call__(self, items: tuple[InboxItem, ...], why: str) -> None:
        first = items[0]
        now = time.time()
        async with self._database.transaction() as tx:
            if not await inbox.dead(tx, [item.id for item in items], error=why, now=now):
                return  # it was answered, and failed after that
            begun = await turns.fail(tx, first.id, why="the turn was set aside", now=now)
            lanes = list(
                await self._notices.tell(tx, "set aside", f"A message was set aside: {why}", now=now)
            )
            if first.lane is not None:
                await outbox.add(tx, item=first.id, lane=first.lane, parts=(Part(SORRY),), now=now)
                lanes.append(first.lane)
        if begun and first.lane is not None:
            self._watches.open(first, first.lane).over = True
        for lane in lanes:
            self._wake_sender(lane)

    async def tell(self, subject: str, text: str) -> None:
        """Tell the admins, if it is news, in a transaction of its own."""
        async with self._database.transaction() as tx:
            lanes = await self._notices.tell(tx, subject, text, now=time.time())
        for lane in lanes:
            self._wake_sender(lane)
