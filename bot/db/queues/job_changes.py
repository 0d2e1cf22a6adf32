"""What the person of a job was asked for, to change it, and the change that answers that.

Functions work inside the caller's transaction `tx`.
"""

import json
from dataclasses import dataclass
from typing import Literal, Self

from sqlalchemy import select, update

from bot.db.queues.jobs import Job, MissedRunPolicy, find
from bot.db.tables import jobs
from bot.db.transaction import Transaction
from bot.domain import Lane

JobField = Literal["time", "text"]


@dataclass(frozen=True, slots=True)
class JobQuestion:
    """A question for the new time or text of a job; `lane`: where it was put.

    Its keys are data at rest.
    """

    field: JobField
    lane: Lane
    asked_at: float

    @classmethod
    def parse(cls, stored: str) -> Self:
        body = json.loads(stored)
        return cls(body["field"], Lane.parse(body["lane"]), float(body["asked_at"]))

    def serialize(self) -> str:
        return json.dumps({"field": self.field, "lane": self.lane.key, "asked_at": self.asked_at})


async def find_to_change(tx: Transaction, job: int) -> Job | None:
    """The job with this id; who else would change it waits until this transaction ends."""
    await tx.execute(select(jobs.c.id).where(jobs.c.id == job).with_for_update())
    return await find(tx, job)


async def put_question(tx: Transaction, job: int, question: JobQuestion | None) -> None:
    """Store what the person of a job is asked for; None: nothing any more."""
    stored = question.serialize() if question else None
    await tx.execute(update(jobs).where(jobs.c.id == job).values(question=stored))


async def set_text(tx: Transaction, job: int, text: str) -> None:
    """Store the new text of a job, in answer to the question for it."""
    await tx.execute(update(jobs).where(jobs.c.id == job).values(text=text, question=None))


async def set_schedule(
    tx: Transaction, job: int, *, next_due: float, zone: str, rule: str | None, missed: MissedRunPolicy
) -> None:
    """Store when a job is due from now on, in answer to the question for it; one that is paused goes on."""
    values = {"next_due": next_due, "zone": zone, "rule": rule, "missed": missed, "question": None}
    resumed = {"state": "active", "why_paused": None, "failures": 0}
    await tx.execute(update(jobs).where(jobs.c.id == job).values(**values, **resumed))
    tx.changes.has_due_times = True
