"""Jobs that delete texts: those older than KEEP_TEXT_DAYS, and those of a chat after /forget.

Started again after a crash, a job continues where it was: what is deleted is not found any more.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bot.db import share_holds
from bot.db.conversations import conversations
from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.maintenance.backup import BackupDirectory
from bot.db.queues import inbox, jobs, outbox
from bot.db.queues.item_bodies import ForgetOrder
from bot.db.queues.system_jobs import find_moments_around, list_statuses
from bot.db.sqlite import migrate
from bot.domain import DAY_SECONDS, InboxItem, Lane, Part
from bot.errors import JobFailed
from bot.maintenance.backup import BACKUP_JOB
from bot.translations.translator import load_translator, match_language, translatable
from tools.threads import run_in_thread

MAX_COPY_DAYS = 30  # the longest that a copy of the database is kept
LEAP_DAYS = 3  # a running gateway stores something every hour
LEAP_WAIT_DAYS = 2
HOLD_DAYS = 30  # a turn's account, which needs the holds of its time, is made when it is delivered
POLL_SECONDS = 0.1  # it waits for a command, a summary of two canvases, or a backup

log = logging.getLogger(__name__)

FORGOTTEN_TEXT = translatable("Done. I kept only the statistics and settings listed above.")


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long texts are kept: `text_days`, or forever (None).

    Copies of the database lie beside `database_file`; backups in `backup_directory` are copies, too. None: it
    is on a server, which has no copies of ours.
    """

    database_file: Path | None
    text_days: int | None
    backup_directory: BackupDirectory | None = None

    @property
    def copy_days(self) -> int:
        """How many days a copy of the database is kept."""
        return min(MAX_COPY_DAYS, self.text_days or MAX_COPY_DAYS)

    def find_copies_expiry(self) -> float | None:
        """Return when the newest copy will be deleted (epoch seconds); None if there is none."""
        made_at: list[float] = []
        if self.database_file is not None and (copies := migrate.list_copies(self.database_file)):
            made_at.append(copies[-1].stat().st_mtime)
        if self.backup_directory is not None:
            newest = self.backup_directory.find_newest_time()
            if newest is not None:
                made_at.append(newest)
        if not made_at:
            return None
        return max(made_at) + self.copy_days * DAY_SECONDS

    def delete_expired_copies(self, *, now: float) -> int:
        """Delete the copies that are too old; returns how many.

        Where backups are wanted, the newest stays until there is a newer one: they may have failed for weeks.
        """
        before = now - self.copy_days * DAY_SECONDS
        count = 0
        needs_copy = False
        if self.backup_directory is not None:
            count += self.backup_directory.expire(before=before)
            needs_copy = self.backup_directory.find_newest_time() is None
        if self.database_file is not None:
            count += migrate.delete_copies(self.database_file, before=before, keep_newest=needs_copy)
        return count


class RetentionTask:
    """The daily job: removes deleted jobs, and files, texts, holds and copies that are too old.

    It waits for the night's backup. While that or the clock is in doubt it puts deleting off: JobFailed.
    """

    local_time: ClassVar[str] = "04:00"

    def __init__(
        self, database: Database, policy: RetentionPolicy, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._policy = policy
        self._clock = clock

    async def __call__(self) -> None:
        await self._wait_for_backup()
        now = self._clock()
        await self._check_clock(now)
        async with self._database.transaction() as tx:
            await jobs.remove_deleted(tx)
            await share_holds.delete_old(tx, before=now - HOLD_DAYS * DAY_SECONDS)
        await retention.expire_files(self._database, now=now)
        try:
            # In a thread: deleting a large file takes a while.
            copy_count = await run_in_thread(self._policy.delete_expired_copies, now=now)
        except OSError as error:
            raise JobFailed(f"Copies that are too old cannot be deleted: {error.strerror}.") from error
        row_count = 0
        if self._policy.text_days is not None:
            before = now - self._policy.text_days * DAY_SECONDS
            row_count = await retention.forget(self._database, retention.build_age_scope(before))
        if row_count or copy_count:
            log.info(
                "deleted what was too old: texts in %d rows, %d backups and copies",
                row_count,
                copy_count,
                extra={"action": "retention.deleted"},
            )

    async def _wait_for_backup(self) -> None:
        """Wait until the night's backup was tried; raises JobFailed in the first night that it failed."""
        while True:
            async with self._database.read_transaction() as tx:
                backups = [status for status in await list_statuses(tx) if status.name == BACKUP_JOB]
            if not any(backup.is_pending(self._clock()) for backup in backups):
                break
            await asyncio.sleep(POLL_SECONDS)
        if any(backup.failures == 1 for backup in backups):
            raise JobFailed("The backup failed, so what is too old is deleted a night later.")

    async def _check_clock(self, now: float) -> None:
        """Raise JobFailed for two nights after the clock has leapt, be it wrong or the machine off."""
        async with self._database.long_read_transaction() as tx:
            last, first = await find_moments_around(tx, now - LEAP_WAIT_DAYS * DAY_SECONDS, now=now)
        if last is not None and first - last > LEAP_DAYS * DAY_SECONDS:
            days = int((first - last) / DAY_SECONDS)
            raise JobFailed(
                f"By the clock, nothing was stored for {days} days. In case it is wrong, "
                f"what is too old is deleted only after {LEAP_WAIT_DAYS} nights."
            )


class ForgetChatRunner:
    """Runs the job of a /forget in its lane: after the work it stopped, before what is written next."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        assert item.lane is not None
        order = ForgetOrder.parse(item.body)
        while await self._is_chat_busy(item, item.lane):  # noqa: ASYNC110  # no event; rare and short
            await asyncio.sleep(POLL_SECONDS)
        async with self._database.transaction() as tx:
            await conversations.start_new(tx, item.lane)
        scope = retention.build_lane_scope(item.lane, item=item.id, asked_at=order.asked_at)
        await retention.forget(self._database, scope)
        await self._finish(item, item.lane, order)

    async def _is_chat_busy(self, item: InboxItem, lane: Lane) -> bool:
        async with self._database.read_transaction() as tx:
            return await retention.has_running_work(tx, lane, before=item.id)

    async def _finish(self, item: InboxItem, lane: Lane, order: ForgetOrder) -> None:
        now = time.time()
        async with self._database.transaction() as tx:
            if order.tells:
                translate = load_translator(match_language(order.language))
                parts = (Part(translate(FORGOTTEN_TEXT)),)
                await outbox.add(tx, item=item.id, lane=lane, parts=parts, now=now)
            await inbox.mark_done(tx, [item.id], now=now)
