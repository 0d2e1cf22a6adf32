"""Runs inbox items of kind `reminder`: due reminders, and new ones of /remind.

A due reminder's text is sent without a model call. What /remind asked for is parsed here, outside the
command's transaction.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.chat.access import Access, find_role
from bot.chat.actions import build_hint
from bot.chat.group_directory import GroupDirectory
from bot.db.engine import Database
from bot.db.queues import inbox, jobs, outbox, requeued_items
from bot.db.queues.item_bodies import QueuedTexts, ReminderWish
from bot.db.transaction import Transaction
from bot.domain import Button, InboxItem, Lane, Part
from bot.jobs.snooze import build_snooze_buttons
from bot.jobs.times.formatting import format_time
from bot.jobs.times.next_run import LATE_SECONDS
from bot.jobs.times.zones import UnclearTime
from bot.jobs.user_jobs import ZONE_NEEDED, JobOwner, UserJobs, ZoneUnknown
from bot.translations.formats import format_ago
from bot.translations.translator import Translator, translatable

ZONE_QUESTION = translatable(
    "Which time zone are you in? Tell me a city, such as `/zone Berlin`, and I'll set this reminder."
)
GROUP_ZONE_QUESTION = translatable(
    "Which time zone are you in? Tell me a city in our private chat, such as `/zone Berlin`, and I'll set "
    "this reminder here."
)

TIME_LANGUAGES = translatable(
    "I understand times in English, German, Spanish, French, Portuguese, Russian and Chinese. For any other "
    "language, tap the button and I'll work it out."
)
TIME_UNREAD = "its time was not read"
"""Of a /remind that the model may read instead."""


@dataclass(frozen=True, slots=True)
class ReminderRunner:
    """The runner."""

    database: Database
    access: Access
    groups: GroupDirectory
    user_jobs: UserJobs
    clock: Callable[[], float] = time.time

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        assert item.lane is not None
        if item.job is None:
            await self._store_new(item, item.lane)
        else:
            await self._send_due(item, item.lane)

    async def _send_due(self, item: InboxItem, lane: Lane) -> None:
        """Send a due reminder; for somebody who is not answered there any more, remove their jobs instead."""
        queued = QueuedTexts.parse(item.body)
        person = queued.person
        now = self.clock()
        has_access = find_role(self.access, self.groups, person, lane) in {"admin", "member"}
        async with self.database.transaction() as tx:
            if not has_access:
                await jobs.remove_all(tx, person, chat=lane.chat)
            elif item.job is not None and (job := await jobs.find_kept(tx, item.job)) is not None:
                translate = self.access.get_translator(person)
                lateness = format_lateness(translate, queued, item.due_at, job.zone, now)
                text = f"⏰ {queued.texts[0]}{lateness}"
                buttons = build_snooze_buttons(translate, item.id)
                await outbox.add(
                    tx, item=item.id, lane=lane, parts=(Part(text, buttons=(buttons,)),), now=now
                )
            await inbox.mark_done(tx, [item.id], now=now)

    async def _store_new(self, item: InboxItem, lane: Lane) -> None:
        wish = ReminderWish.parse(item.body)
        owner = JobOwner(wish.person, wish.name, lane)
        translate = self.access.get_translator(owner.person)
        try:
            said_at = item.received_at if wish.said_at is None else wish.said_at
            schedule, text = await self.user_jobs.parse_line(
                owner.person, wish.words, said_at, translate.language
            )
            async with self.database.transaction() as tx:
                confirmation = await self.user_jobs.add_job(tx, owner, "reminder", schedule, text, translate)
                await self._reply(tx, item, owner.lane, confirmation)
        except ZoneUnknown:
            question = GROUP_ZONE_QUESTION if lane.is_group else ZONE_QUESTION
            await self._refuse(item, lane, build_hint(translate(question)), error=ZONE_NEEDED)
        except UnclearTime as error:
            if not error.has_unknown_words:
                await self._refuse(item, lane, build_hint(error.explain(translate)))
                return
            reason = f"{error.explain(translate)}\n\n{translate(TIME_LANGUAGES)}"
            button = Button(translate("Work it out"), f"remind:{item.id}")
            await self._refuse(item, lane, build_hint(reason, (button,)), error=TIME_UNREAD)

    async def _refuse(self, item: InboxItem, lane: Lane, reply: Part, error: str | None = None) -> None:
        async with self.database.transaction() as tx:
            await self._reply(tx, item, lane, reply)
            if error is not None:
                await requeued_items.store_error(tx, item.id, error)

    async def _reply(self, tx: Transaction, item: InboxItem, lane: Lane, part: Part) -> None:
        now = self.clock()
        await outbox.add(tx, item=item.id, lane=lane, parts=(part,), now=now)
        await inbox.mark_done(tx, [item.id], now=now)


def format_lateness(
    translate: Translator, queued: QueuedTexts, due_at: float | None, zone: str, now: float
) -> str:
    """Format the note below something that is done long after it was due; "" if it is not late."""
    due_at = due_at or 0.0
    late_seconds = max(queued.late, now - due_at)  # it may also have waited after it was stored
    if late_seconds <= LATE_SECONDS:
        return ""
    time_due = format_time(translate, due_at, zone)
    ago = format_ago(translate, late_seconds)
    note = translate("This was due {time}, {ago}.", time=time_due, ago=ago)
    if queued.late:
        note = translate("This was due {time}, {ago}, while I was away.", time=time_due, ago=ago)
    if queued.left_out:
        note += " " + translate("I missed earlier times too and won't catch up on them.")
    return f"\n\n({note})"
