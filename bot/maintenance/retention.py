"""The house's jobs that delete texts: what is older than KEEP_TEXT_DAYS, and a chat whose person said
/forget.

Begun again after a crash, a job goes on where it was: what is gone is not found any more.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.db import migrate as migrating
from bot.db.conversations import conversations
from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.maintenance.backup import Shelf
from bot.db.queues import inbox, outbox
from bot.domain import InboxItem, Lane, Part
from bot.errors import JobFailed
from tools.threads import in_thread

DAY = 86_400
COPY_DAYS = 30  # a copy of the database is kept so long at most
LOOK_AGAIN = 0.1  # seconds; what is waited for is a command, or a summary of two canvases

FORGOTTEN = "Forgotten: of this chat I keep figures only, and what I named before."


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long texts are kept: `days`, or for ever (None); `file` is the database, beside which its copies
    lie.

    Backups on the `shelf` are copies, too.
    """

    file: Path
    days: int | None
    shelf: Shelf | None = None

    @property
    def is_needed(self) -> bool:
        """Whether anything will be too old one day: not where texts are kept for ever and there is no copy."""
        return self.days is not None or self.shelf is not None or bool(migrating.copies(self.file))

    @property
    def copy_days(self) -> int:
        """How long a copy of the database is kept."""
        return min(COPY_DAYS, self.days or COPY_DAYS)

    def copies_until(self) -> float | None:
        """When the newest copy will be deleted (epoch seconds); None if there is none."""
        found = migrating.copies(self.file)
        made = [found[-1].stat().st_mtime] if found else []
        newest = self.shelf.newest() if self.shelf else None
        made += [newest] if newest is not None else []
        if made:
            return max(made) + self.copy_days * DAY
        return None

    def expire(self, *, now: float) -> None:
        """Delete the copies that are too old."""
        before = now - self.copy_days * DAY
        migrating.expire(self.file, before=before)
        if self.shelf is not None:
            self.shelf.expire(before=before)


class Retention:
    """Does the daily job: texts and copies of the database that are too old are deleted."""

    def __init__(self, database: Database, keeping: Keeping, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._keeping = keeping
        self._clock = clock

    async def __call__(self) -> None:
        now = self._clock()
        try:
            await in_thread(self._keeping.expire, now=now)  # a large file takes its time to go
        except OSError as error:
            raise JobFailed(f"Copies that are too old cannot be deleted: {error.strerror}.") from error
        if self._keeping.days is not None:
            await retention.forget(self._database, retention.older(now - self._keeping.days * DAY))


class Forgetting:
    """Runs the job a /forget leaves in a lane, where it comes after what was stopped and before what is
    written next.

    `wake_sender` is called for the lane when there is something to read in it, or to take back.
    """

    def __init__(self, database: Database, wake_sender: Callable[[Lane], None]) -> None:
        self._database = database
        self._wake_sender = wake_sender

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        assert item.lane is not None
        person = int(item.body["person"])
        asked_at = float(item.body["asked_at"])
        while await self._at_work(item, item.lane, person):  # noqa: ASYNC110  # nobody tells; it is rare, and short
            await asyncio.sleep(LOOK_AGAIN)
        async with self._database.transaction() as tx:
            await conversations.new(tx, item.lane)
        scope = retention.of_lane(item.lane, person, item=item.id, asked_at=asked_at)
        await retention.forget(self._database, scope)
        await self._end(item, item.lane)

    async def _at_work(self, item: InboxItem, lane: Lane, person: int) -> bool:
        async with self._database.reading() as tx:
            return await retention.at_work(tx, lane, person, before=item.id)

    async def _end(self, item: InboxItem, lane: Lane) -> None:
        now = time.time()
        async with self._database.transaction() as tx:
            if item.body["tell"]:
                await outbox.add(tx, item=item.id, lane=lane, parts=(Part(FORGOTTEN),), now=now)
            await inbox.done(tx, [item.id], now=now)
        self._wake_sender(lane)
