"""The runner of inbox items of kind `task`: a turn the house wrote down itself, such as a /retry, a tapped
example, or the due time of a job.

Its body is {"person", "name", "texts"}, and the "turn" whose messages these are if something may have come
with them; "deep" if the second endpoint is to answer, "goes_on" if the last answer is to go on. The person
must still be let in when it runs.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from bot.db.conversations import attachments, turns
from bot.db.engine import Database
from bot.db.queues import inbox, jobs, outbox
from bot.db.queues.jobs import Job
from bot.db.queues.parked_items import EndedTurn
from bot.domain import TASKS_PRIORITY, Attachment, InboxItem, Lane
from bot.telegram.access import ACCESS_LOST, Access
from bot.telegram.actions import TurnService
from bot.telegram.runners.reminders import format_lateness
from bot.turns.start import TurnRequest

DUE_TASK_PREFIX = "[This is a task you were asked to do at this time. Do it now; do not schedule it again.] "
"""Stands before the text of a due task, for the model."""

JOB_DELETED = "its job was deleted"
MAX_PREVIEW_CHARS = 60  # characters of a task that its answer begins with


class TaskRunner:
    """Gives tasks to turns. `ended` hears of one that had begun, and ends here without an answer."""

    def __init__(
        self,
        database: Database,
        access: Access,
        turns: TurnService,
        on_ended: Callable[[EndedTurn], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._access = access
        self._turns = turns
        self._on_ended = on_ended
        self._clock = clock

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        assert item.lane is not None
        person = int(item.body["person"])
        if self._access.get_role(person) not in {"admin", "member"}:
            await self._end_unanswered(item, item.lane, person, ACCESS_LOST)
            return
        texts = tuple(item.body["texts"])
        came = await self._load_attachments(item.body.get("turn"))
        deep = bool(item.body.get("deep"))
        goes_on = bool(item.body.get("goes_on"))
        ask = TurnRequest(
            items, item.lane, person, str(item.body["name"]), texts, came, deep=deep, is_continuation=goes_on
        )
        if item.job is None:
            await self._turns.run(ask)
        elif (job := await self._find_job(item)) is not None:
            await self._turns.run(build_due_request(ask, item, job, self._clock()))
        else:
            await self._end_unanswered(item, item.lane, person, JOB_DELETED)

    async def _find_job(self, item: InboxItem) -> Job | None:
        """The job whose due time this is, while it is there."""
        async with self._database.read_transaction() as tx:
            return await jobs.find(tx, item.job or 0)

    async def _end_unanswered(self, item: InboxItem, lane: Lane, person: int, reason: str) -> None:
        """What a turn that gave way has shown is taken back."""
        now = self._clock()
        async with self._database.transaction() as tx:
            has_begun = await turns.fail(tx, item.id, reason=reason, now=now)
            if has_begun:
                await outbox.add(tx, item=item.id, lane=lane, parts=(), now=now)
            if reason == ACCESS_LOST:
                await jobs.remove_all(tx, person)
            await inbox.mark_done(tx, [item.id], now=now)
        if has_begun:
            self._on_ended(EndedTurn(item.id, lane, item.stored_spans))

    async def _load_attachments(self, turn: int | None) -> tuple[tuple[Attachment, ...], ...]:
        """What came with the messages of a turn."""
        if turn is None:
            return ()
        async with self._database.read_transaction() as tx:
            return await attachments.load_of_turn(tx, turn)


def build_due_request(request: TurnRequest, item: InboxItem, job: Job, now: float) -> TurnRequest:
    """The turn of a due task: people go before it, and its answer says what it is about."""
    [text] = request.texts
    shown = text if len(text) <= MAX_PREVIEW_CHARS else f"{text[: MAX_PREVIEW_CHARS - 1]}…"
    late = format_lateness(item, job.zone, now).strip()
    preface = "\n\n".join(piece for piece in (f"🤖 {' '.join(shown.split())}", late) if piece)
    return replace(
        request, texts=(DUE_TASK_PREFIX + text,), preface=f"{preface}\n\n", priority=TASKS_PRIORITY
    )
