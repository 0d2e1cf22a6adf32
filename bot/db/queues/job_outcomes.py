"""The outcome of a due time, stored with its job: done, or failed once more. Each is counted once.

Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import and_, bindparam, func, or_, select, update

from bot.db.tables import inbox, jobs, turns
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.translations.translator import translatable

MAX_FAILURES = 3  # in a row, after which a job of a person is paused

_FAILURE_REASONS: Mapping[str, str] = {
    "away": translatable("the model did not answer"),
    "refused": translatable("the model refused the request"),
    "too_long": translatable("it was longer than the model can read"),
    "limit": translatable("your daily limit was used up"),
    "seconds": translatable("it took too long"),
    "steps": translatable("it took too many steps"),
    "empty": translatable("the model gave no answer"),
    "failed": translatable("something went wrong with it"),
}
_ITEM_IS_OVER = inbox.c.state.in_(("done", "dead"))
_SELECT_OUTCOME = (
    select(inbox.c.state.label("item_state"), inbox.c.done_at, turns.c.ending)
    .add_columns(
        *(
            jobs.c[name]
            for name in ("id", "kind", "person", "state", "rule", "next_due", "failures", "lane", "text")
        )
    )
    .select_from(inbox.join(jobs, jobs.c.id == inbox.c.job).outerjoin(turns, turns.c.item == inbox.c.id))
    .where(
        inbox.c.job == bindparam("job_id"),
        inbox.c.due_at == bindparam("due"),
        _ITEM_IS_OVER,
        jobs.c.kind != "system",
    )
    .with_for_update(of=jobs)  # its owner may pause or delete it meanwhile
)

# `last_done` keeps an outcome from being counted twice: it is stored only if it is newer than the last one.
_UPDATE_JOB = (
    update(jobs)
    .where(jobs.c.id == bindparam("job_id"))
    .where(or_(jobs.c.last_done.is_(None), jobs.c.last_done < bindparam("done")))
    .values(
        last_done=bindparam("done"),
        failures=bindparam("failure_count"),
        state=bindparam("new_state"),
        why_paused=bindparam("reason"),
    )
)


@dataclass(frozen=True, slots=True)
class PausedJob:
    """A job that was paused because it failed too often: where to notify its owner, and why it failed."""

    job: int
    person: int
    lane: Lane
    text: str
    reason: str


async def record_outcome(tx: Transaction, job: int, due_at: float) -> PausedJob | None:
    """Store the outcome of a person's due time, if it is over and not stored yet.

    Returns the job if its failures paused it.
    """
    row = (await tx.execute(_SELECT_OUTCOME, {"job_id": job, "due": due_at})).one_or_none()
    if row is None:
        return None
    reason = _FAILURE_REASONS.get(row.ending or "")
    if row.item_state == "dead":
        reason = _FAILURE_REASONS["failed"]
    values = {"job_id": job, "done": row.done_at, "failure_count": 0, "new_state": row.state, "reason": None}
    # A job without a rule is done after this run, unless it was run by hand before its due time.
    # If it was paused at its due time and run by hand later, `next_due` still names that time, which is over.
    was_only_run = row.rule is None and (row.next_due or 0.0) <= due_at
    is_last_run = was_only_run or (row.next_due is None and row.state == "active")
    if is_last_run and row.state != "deleted":  # its deletion can be undone
        values["new_state"] = "done"
    if reason:
        values["failure_count"] = row.failures + 1
    is_paused = values["failure_count"] >= MAX_FAILURES and values["new_state"] == "active"
    if is_paused:
        values |= {"new_state": "paused", "reason": reason}
    stored = await tx.execute(_UPDATE_JOB, values)
    if not (is_paused and stored.rowcount and reason and row.lane):
        return None
    return PausedJob(job, row.person, Lane.parse(row.lane), row.text, reason)


async def list_unrecorded(tx: Transaction) -> list[tuple[int, float]]:
    """Due times, as (job, due_at), that are over but not stored because the process ended in between."""
    since = func.coalesce(jobs.c.last_due, 0)
    item_of_job = and_(inbox.c.job == jobs.c.id, inbox.c.due_at >= since, _ITEM_IS_OVER)
    is_unrecorded = or_(jobs.c.last_done.is_(None), jobs.c.last_done < inbox.c.done_at)
    query = (
        select(inbox.c.job, inbox.c.due_at)
        .select_from(jobs.join(inbox, item_of_job))
        .where(is_unrecorded, jobs.c.kind != "system")
    )
    return [(int(row[0]), float(row[1])) for row in await tx.execute(query.order_by(inbox.c.due_at))]
