"""Reads once more what came from a group before it was known that the bot answers there.

A batch of updates is read as a whole: the one by which the bot is added may be in it, with the first
questions behind it. Or another replica let the group in, or saw it become a supergroup, a moment ago.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.chat.group_directory import GroupDirectory
from bot.db.engine import Database
from bot.db.queues import unplaced_items
from bot.domain import InboxItem
from bot.telegram.incoming.envelope import read_envelope


@dataclass(frozen=True, slots=True)
class EarlyGroupMessages:
    """Gives such messages their place, from which they are taken as any other."""

    database: Database
    groups: GroupDirectory
    clock: Callable[[], float] = time.time

    async def place(self, item: InboxItem) -> bool:
        """Store a running item as what it is by now; False if it is nothing else than before."""
        update = read_envelope(item.body, self.clock(), self.groups)
        if update is None or update.is_for_others or update.shape == item.shape:
            return False
        async with self.database.transaction() as tx:
            await unplaced_items.place(tx, item.id, update.shape, update.lane, update.message_id)
        return True
