"""Snoozes: a reminder that was shown comes once more, as a job of its own.

That job is named after the inbox item of the reminder, so that two taps, or a tap that is handled again after
a crash, store it once. Functions work inside the caller's transaction `tx`.
"""

import json
from dataclasses import dataclass

from sqlalchemy import select

from bot.db.queues import jobs
from bot.db.queues.jobs import Job, NewJob
from bot.db.tables import inbox, outbox
from bot.db.tables import jobs as jobs_table
from bot.db.transaction import Transaction
from bot.domain import Lane

_NAME_PREFIX = "snooze of "


@dataclass(frozen=True, slots=True)
class ShownReminder:
    """A reminder that was shown; `item` is its due time in the inbox, `zone` None if its job is deleted."""

    item: int
    person: int
    lane: Lane
    text: str
    due_at: float
    zone: str | None


async def find_shown(tx: Transaction, item: int) -> ShownReminder | None:
    """The reminder whose due time is this inbox item; None if its text is not kept any more."""
    query = (
        select(inbox.c.sender, inbox.c.lane, inbox.c.body, inbox.c.due_at, jobs_table.c.zone)
        .select_from(inbox.outerjoin(jobs_table, jobs_table.c.id == inbox.c.job))
        .where(inbox.c.id == item, inbox.c.kind == "reminder", inbox.c.job.is_not(None))
    )
    row = (await tx.execute(query)).one_or_none()
    if row is None or row.body is None:
        return None
    [text] = json.loads(row.body)["texts"]
    return ShownReminder(item, row.sender, Lane.parse(row.lane), text, row.due_at, row.zone)


async def find_snooze(tx: Transaction, reminder: ShownReminder) -> Job | None:
    """The job that brings this reminder once more, if it was snoozed; it may be marked as deleted."""
    return await jobs.find_named(tx, _build_name(reminder))


async def add_snooze(
    tx: Transaction, reminder: ShownReminder, next_due: float, zone: str, *, now: float
) -> None:
    """Store the job that brings the reminder once more; it must not be snoozed yet."""
    new_job = NewJob(
        "reminder",
        next_due,
        zone,
        text=reminder.text,
        person=reminder.person,
        lane=reminder.lane,
        name=_build_name(reminder),
    )
    await jobs.add(tx, new_job, now=now)


async def list_messages(tx: Transaction, item: int) -> list[int]:
    """The outbox rows of what was shown of an inbox item."""
    return list((await tx.execute(select(outbox.c.id).where(outbox.c.item == item))).scalars())


def get_item(job: Job) -> int | None:
    """The inbox item of the reminder that this job brings once more; None: it is no snooze."""
    prefix, _, item = (job.name or "").rpartition(" ")
    return int(item) if f"{prefix} " == _NAME_PREFIX else None


def _build_name(reminder: ShownReminder) -> str:
    return f"{_NAME_PREFIX}{reminder.item}"
