"""Notes what came of due times, and tells a person whose job was paused because it kept failing.

Runs behind whatever runs the items of jobs; what a process did not come to note, the next one does at its
start.
"""

import time
from collections.abc import Awaitable, Callable

from bot.db.engine import Database
from bot.db.queues import job_outcomes as settling
from bot.db.queues import outbox
from bot.db.queues.job_outcomes import MAX_FAILURES, PausedJob
from bot.domain import Button, InboxItem, Lane, Part, Runner

PAUSED_TEXT = "I paused #{number}, “{text}”: it failed {times} times in a row, the last time because {why}."

GiveUp = Callable[[tuple[InboxItem, ...], str], Awaitable[None]]


class JobOutcomes:
    """`wake_sender` is called for the lane of a person who is told something."""

    def __init__(
        self, database: Database, wake_sender: Callable[[Lane], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._wake_sender = wake_sender
        self._clock = clock

    def record_after(self, runner: Runner) -> Runner:
        """The same runner, after which what came of its item is noted."""

        async def run(items: tuple[InboxItem, ...]) -> None:
            await runner(items)
            await self._record_item(items[0])

        return run

    def record_after_giving_up(self, give_up: GiveUp) -> GiveUp:
        """The same way to give up on items, after which that is noted."""

        async def run(items: tuple[InboxItem, ...], why: str) -> None:
            await give_up(items, why)
            await self._record_item(items[0])

        return run

    async def recover(self) -> None:
        """Note what an earlier process has left."""
        async with self._database.read_transaction() as tx:
            left = await settling.list_unrecorded(tx)
        for job, due_at in left:
            await self._record(job, due_at)

    async def _record_item(self, item: InboxItem) -> None:
        if item.job is not None and item.due_at is not None:
            await self._record(item.job, item.due_at)

    async def _record(self, job: int, due_at: float) -> None:
        async with self._database.transaction() as tx:
            paused = await settling.record_outcome(tx, job, due_at)
            if paused is not None:
                parts = (_format_paused(paused),)
                await outbox.add(tx, item=None, lane=paused.lane, parts=parts, now=self._clock())
        if paused is not None:
            self._wake_sender(paused.lane)


def _format_paused(paused: PausedJob) -> Part:
    text = PAUSED_TEXT.format(number=paused.job, text=paused.text[:80], times=MAX_FAILURES, why=paused.reason)
    buttons = (Button("Resume", f"job:resume:{paused.job}"), Button("Delete", f"job:delete:{paused.job}"))
    return Part(text, buttons=(buttons,))
