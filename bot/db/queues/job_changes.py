"""What the person of a job is asked for, to change it, and the change that answers that.

Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from bot.db.queues.item_bodies import JobQuestion
from bot.db.queues.jobs import Job, find
from bot.db.tables import jobs
from bot.db.transaction import Transaction


async def find_to_change(tx: Transaction, job: int) -> Job | None:
    """The job with this id; who else would change it waits until this transaction ends."""
    await tx.execute(select(jobs.c.id).where(jobs.c.id == job).with_for_update())
    return await find(tx, job)


async def put_question(tx: Transaction, job: int, question: JobQuestion | None) -> None:
    """Store what the person of a job is asked for; None: nothing any more."""
    stored = question.serialize() if question else None
    await tx.execute(update(jobs).where(jobs.c.id == job).values(question=stored))


async def change(tx: Transaction, job: int, values: Mapping[str, Any]) -> None:
    """Store what of a job is another now, in answer to the question for it."""
    await tx.execute(update(jobs).where(jobs.c.id == job).values(**values, question=None))
    tx.changes.has_due_times = True
