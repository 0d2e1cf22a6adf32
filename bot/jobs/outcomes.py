"""Records how due runs of jobs ended, and notifies the owner of a job that is paused for failing.

Runs after whatever runs the items of jobs; what a process did not record, the next one records at its start.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.db.engine import Database
from bot.db.queues import job_outcomes, outbox
from bot.db.queues.job_outcomes import MAX_FAILURES, PausedJob
from bot.domain import Button, GiveUp, InboxItem, Part, Runner
from bot.translations.translator import Translator, translatable

PAUSED_TEXT = translatable("I paused “{text}”: it failed {times} times in a row. Last time: {reason}.")


@dataclass(frozen=True, slots=True)
class JobOutcomes:
    """Records outcomes."""

    database: Database
    get_translator: Callable[[int], Translator]
    clock: Callable[[], float] = time.time

    def record_after(self, runner: Runner) -> Runner:
        """Return a runner that does the same and then records the outcome of its item."""

        async def run(items: tuple[InboxItem, ...]) -> None:
            await runner(items)
            await self._record_item(items[0])

        return run

    def record_after_giving_up(self, give_up: GiveUp) -> GiveUp:
        """Return a function that gives up on items the same way and then records that."""

        async def run(items: tuple[InboxItem, ...], reason: str) -> None:
            await give_up(items, reason)
            await self._record_item(items[0])

        return run

    async def recover(self) -> None:
        """Record what an earlier process has left unrecorded."""
        async with self.database.read_transaction() as tx:
            unrecorded = await job_outcomes.list_unrecorded(tx)
        for job, due_at in unrecorded:
            await self._record(job, due_at)

    async def _record_item(self, item: InboxItem) -> None:
        if item.job is not None and item.due_at is not None:
            await self._record(item.job, item.due_at)

    async def _record(self, job: int, due_at: float) -> None:
        async with self.database.transaction() as tx:
            paused = await job_outcomes.record_outcome(tx, job, due_at)
            if paused is not None:
                parts = (_format_paused(self.get_translator(paused.person), paused),)
                await outbox.add(tx, item=None, lane=paused.lane, parts=parts, now=self.clock())


def _format_paused(translate: Translator, paused: PausedJob) -> Part:
    text = translate(PAUSED_TEXT, text=paused.text[:80], times=MAX_FAILURES, reason=translate(paused.reason))
    row = (
        Button(translate("Resume"), f"job:resume:{paused.job}"),
        Button(translate("Delete"), f"job:delete:{paused.job}"),
    )
    return Part(text, buttons=(row,))
