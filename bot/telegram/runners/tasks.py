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
from bot.db.queues.parked_items import Ended
from bot.domain import TASKS, Attachment, InboxItem, Lane
from bot.telegram.access import NOT_LET_IN, Access
from bot.telegram.actions import Turns
from bot.telegram.runners.reminders import lateness
from bot.turns.start import Ask

DUE = "[This is a task you were asked to do at this time. Do it now; do not schedule it again.] "
"""Stands before the text of a due task, for the model."""

GONE = "its job was deleted"
SHOWN = 60  # characters of a task that its answer begins with


class Tasks:
    """Gives tasks to turns. `ended` hears of one that had begun, and ends here without an answer."""

    def __init__(
        self,
        database: Database,
        access: Access,
        turns: Turns,
        ended: Callable[[Ended], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._access = access
        self._turns = turns
        self._ended = ended
        self._clock = clock

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        assert item.lane is not None
        person = int(item.body["person"])
        if self._access.standing(person) not in {"admin", "member"}:
            await self._end(item, item.lane, person, NOT_LET_IN)
            return
        texts = tuple(item.body["texts"])
        came = await self._came(item.body.get("turn"))
        deep = bool(item.body.get("deep"))
        goes_on = bool(item.body.get("goes_on"))
        ask = Ask(items, item.lane, person, str(item.body["name"]), texts, came, deep=deep, goes_on=goes_on)
        if item.job is None:
            await self._turns.run(ask)
        elif (job := await self._job(item)) is not None:
            await self._turns.run(due(ask, item, job, self._clock()))
        else:
            await self._end(item, item.lane, person, GONE)

    async def _job(self, item: InboxItem) -> Job | None:
        """The job whose due time this is, while it is there."""
        async with self._database.reading() as tx:
            return await jobs.find(tx, item.job or 0)

    async def _end(self, item: InboxItem, lane: Lane, person: int, why: str) -> None:
        """What a turn that gave way has shown is taken back."""
        now = self._clock()
        async with self._database.transaction() as tx:
            has_begun = await turns.fail(tx, item.id, why=why, now=now)
            if has_begun:
                await outbox.add(tx, item=item.id, lane=lane, parts=(), now=now)
            if why == NOT_LET_IN:
                await jobs.remove_all(tx, person)
            await inbox.done(tx, [item.id], now=now)
        if has_begun:
            self._ended(Ended(item.id, lane, item.measured))

    async def _came(self, turn: int | None) -> tuple[tuple[Attachment, ...], ...]:
        """What came with the messages of a turn."""
        if turn is None:
            return ()
        async with self._database.reading() as tx:
            return await attachments.of_turn(tx, turn)


def due(ask: Ask, item: InboxItem, job: Job, now: float) -> Ask:
    """The turn of a due task: people go before it, and its answer says what it is about."""
    [text] = ask.texts
    shown = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    late = lateness(item, job.zone, now).strip()
    preface = "\n\n".join(piece for piece in (f"🤖 {' '.join(shown.split())}", late) if piece)
    return replace(ask, texts=(DUE + text,), preface=f"{preface}\n\n", priority=TASKS)
