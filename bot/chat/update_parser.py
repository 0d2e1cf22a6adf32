"""Parses the updates of inbox items; one that cannot be read is set aside, and its neighbours are handled."""

import logging
import time
from collections.abc import Callable, Sequence

from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.queues.admin_notices import AdminNotices
from bot.domain import InboxItem
from bot.telegram.incoming.update import ParsedUpdate, parse_update
from bot.translations.translator import defer

UNREADABLE_UPDATE = defer("I couldn't read an update from Telegram; details are in the log.")

log = logging.getLogger(__name__)


class UpdateParser:
    """Parses; admins are notified of what cannot be read."""

    def __init__(
        self,
        database: Database,
        notices: AdminNotices,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._notices = notices
        self._clock = clock

    async def parse(self, items: Sequence[InboxItem]) -> list[ParsedUpdate]:
        """Parse the items; those that cannot be parsed become dead letters.

        Of messages that were not taken only the first is parsed: there may be hundreds. Raises the library's
        error if none can be parsed.
        """
        if items[0].shape == "overflow":
            return [parse_update(items[0]), *map(ParsedUpdate, items[1:])]
        updates = list[ParsedUpdate]()
        broken = list[int]()
        for item in items:
            try:
                updates.append(parse_update(item))
            except Exception:
                if len(broken) == len(items) - 1:
                    raise
                log.exception("an update cannot be read", extra={"action": "handlers.unreadable"})
                broken.append(item.id)
        if broken:
            await self._mark_dead(broken)
        return updates

    async def _mark_dead(self, item_ids: Sequence[int]) -> None:
        now = self._clock()
        async with self._database.transaction() as tx:
            await inbox.mark_dead(tx, item_ids, error=str(UNREADABLE_UPDATE), now=now)
            await self._notices.notify(tx, "unreadable", UNREADABLE_UPDATE, now=now)
