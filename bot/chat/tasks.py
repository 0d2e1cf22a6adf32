"""Runs inbox items of kind `task`: turns that the gateway itself queued.

Such as a /retry, a tapped example, or the due time of a job. The person must still have access when it runs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.chat.access import ACCESS_LOST, Access, find_role
from bot.chat.group_directory import GroupDirectory
from bot.chat.quota import TurnService
from bot.chat.reminders import format_lateness
from bot.db.conversations import attachments, turns
from bot.db.engine import Database
from bot.db.people import speakers
from bot.db.queues import inbox, jobs, outbox
from bot.db.queues.item_bodies import QueuedTexts
from bot.db.queues.jobs import Job
from bot.db.queues.parked_items import EndedTurn
from bot.db.transaction import Transaction
from bot.domain import TASKS_PRIORITY, Attachment, InboxItem, Lane
from bot.jobs.schedule_tool import LINE_START
from bot.telegram.incoming.group_address import MAX_SPEAKER_CHARS, NAMELESS
from bot.telegram.incoming.update import to_plain_name
from bot.turns import TurnRequest

DUE_TASK_PREFIX = "[This is a task you were asked to do at this time. Do it now; do not schedule it again.] "
"""Stands before the text of a due task, for the model."""

JOB_DELETED = "its job was deleted"
MAX_PREVIEW_CHARS = 60  # of a task's text, which its answer begins with


@dataclass(frozen=True, slots=True)
class UnansweredEnd:
    """Ends an item without an answer, with the reason; what its turn has shown is taken back.

    `on_ended` is called if its turn had begun.
    """

    database: Database
    on_ended: Callable[[EndedTurn], None]
    clock: Callable[[], float] = time.time

    async def __call__(self, item: InboxItem, reason: str) -> None:
        assert item.lane is not None
        now = self.clock()
        async with self.database.transaction() as tx:
            has_begun = await turns.fail(tx, item.id, reason=reason, now=now)
            if has_begun:
                await outbox.add(tx, item=item.id, lane=item.lane, parts=(), now=now)
            await inbox.mark_done(tx, [item.id], now=now)
        if has_begun:
            self.on_ended(EndedTurn(item.id, item.lane, item.stored_spans))


@dataclass(frozen=True, slots=True)
class TaskRunner:
    """The runner."""

    database: Database
    access: Access
    groups: GroupDirectory
    turns: TurnService
    end_unanswered: UnansweredEnd
    clock: Callable[[], float] = time.time

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        assert item.lane is not None
        queued = QueuedTexts.parse(item.body)
        person = queued.person
        if find_role(self.access, self.groups, person, item.lane) not in {"admin", "member"}:
            async with self.database.transaction() as tx:
                await jobs.remove_all(tx, person, chat=item.lane.chat)
            await self.end_unanswered(item, ACCESS_LOST)
            return
        request = TurnRequest(
            items,
            item.lane,
            person,
            queued.name,
            texts=queued.texts,
            attachments=await self._load_attachments(queued.turn),
            deep=queued.deep,
            with_thinking=queued.thinks,
            is_continuation=queued.continues,
            translate=self.access.get_translator(person),
            speaker=await self._find_speaker(queued, item.lane),
            own_words=queued.texts[0] if item.job is None and queued.texts[0].startswith(LINE_START) else "",
        )
        if item.job is None:
            await self.turns.run(request)
            return
        job = await self._find_job(item.job)
        if job is None:
            await self.end_unanswered(item, JOB_DELETED)
            return
        lateness = format_lateness(request.translate, queued, item.due_at, job.zone, self.clock())
        await self.turns.run(build_due_request(request, lateness))

    async def _find_speaker(self, queued: QueuedTexts, lane: Lane) -> str:
        """Return what a group's prompts call the person; "" in private, and where the texts name them."""
        if not lane.is_group or queued.turn is not None:
            return ""
        async with self.database.transaction(durable=False) as tx:
            return await add_speaker(tx, lane, queued.person, queued.name)

    async def _find_job(self, job_id: int) -> Job | None:
        async with self.database.read_transaction() as tx:
            return await jobs.find_kept(tx, job_id)

    async def _load_attachments(self, turn: int | None) -> tuple[tuple[Attachment, ...], ...]:
        """Return what came with the messages of a turn."""
        if turn is None:
            return ()
        async with self.database.read_transaction() as tx:
            return await attachments.load_of_turn(tx, turn)


async def add_speaker(tx: Transaction, lane: Lane, person: int, name: str) -> str:
    """Return what a group's prompts call a person of this name."""
    return await speakers.add(tx, lane, person, to_plain_name(name, MAX_SPEAKER_CHARS) or NAMELESS)


def build_due_request(request: TurnRequest, lateness: str) -> TurnRequest:
    """Turn a request into that of a due task: people go before it, and its answer says what it is about."""
    [text] = request.texts
    preview = text if len(text) <= MAX_PREVIEW_CHARS else f"{text[: MAX_PREVIEW_CHARS - 1]}…"
    preface = f"🤖 {' '.join(preview.split())}\n\n"
    if late := lateness.strip():
        preface += f"{late}\n\n"
    return replace(request, texts=(DUE_TASK_PREFIX + text,), preface=preface, priority=TASKS_PRIORITY)
