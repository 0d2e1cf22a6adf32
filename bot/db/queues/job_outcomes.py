"""What came of a due time, noted with its job: done, or failed once more. Works inside `tx`, and counts each
once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import and_, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import inbox, turns
from bot.db.tables import jobs as table
from bot.domain import Lane

MAX_FAILURES = 3  # in a row, after which a job of a person is paused

_FAILURE_REASONS: Mapping[str, str] = {
    "away": "the model did not answer",
    "refused": "the model endpoint refused the request",
    "too_long": "it was longer than the model can read",
    "limit": "your canvases of the day were used up",
    "seconds": "it took too long",
    "steps": "it took too many steps",
    "empty": "the model gave no answer",
    "failed": "it could not be handled",
}
_ITEM_IS_OVER = inbox.c.state.in_(("done", "dead"))
_SELECT_OUTCOME = (
    select(inbox.c.state.label("came"), inbox.c.done_at, turns.c.ending)
    .add_columns(
        *(table.c[name] for name in ("id", "kind", "state", "rule", "next_due", "failures", "lane", "text"))
    )
    .select_from(inbox.join(table, table.c.id == inbox.c.job).outerjoin(turns, turns.c.item == inbox.c.id))
    .where(
        inbox.c.job == bindparam("of"),
        inbox.c.due_at == bindparam("due"),
        _ITEM_IS_OVER,
        table.c.kind != "house",
    )
)
_UPDATE_JOB = (
    update(table)
    .where(table.c.id == bindparam("of"))
    .where(or_(table.c.last_done.is_(None), table.c.last_done < bindparam("done")))
    .values(
        last_done=bindparam("done"),
        failures=bindparam("times"),
        state=bindparam("now_is"),
        why_paused=bindparam("why"),
    )
)


@dataclass(frozen=True, slots=True)
class PausedJob:
    """A job that was paused, for it failed once too often: where its person is told, and why."""

    job: int
    lane: Lane
    text: str
    reason: str


async def record_outcome(tx: AsyncConnection, job: int, due_at: float) -> PausedJob | None:
    """Note what came of a person's due time, if it is over and was not noted before; the job if it is paused
    for it.
    """
    came = (await tx.execute(_SELECT_OUTCOME, {"of": job, "due": due_at})).one_or_none()
    if came is None:
        return None
    why = _FAILURE_REASONS["failed"] if came.came == "dead" else _FAILURE_REASONS.get(came.ending or "")
    failures = came.failures + 1 if why else 0
    state = came.state
    by_hand = came.rule is None and (came.next_due or 0.0) <= due_at  # it was paused when it was due
    if by_hand or (came.next_due is None and state == "active"):
        state = "done"
    is_paused = failures >= MAX_FAILURES and state == "active"
    noted = {"of": job, "done": came.done_at, "times": failures, "now_is": "paused" if is_paused else state}
    new = await tx.execute(_UPDATE_JOB, noted | {"why": why if is_paused else None})
    if not (is_paused and new.rowcount and why and came.lane):
        return None
    return PausedJob(job, Lane.parse(came.lane), came.text, why)


async def list_unrecorded(tx: AsyncConnection) -> list[tuple[int, float]]:
    """The due times, as (job, due_at), that are over and were not noted: the process ended in between."""
    since = func.coalesce(table.c.last_due, 0)
    mine = and_(inbox.c.job == table.c.id, inbox.c.due_at >= since, _ITEM_IS_OVER)
    new = or_(table.c.last_done.is_(None), table.c.last_done < inbox.c.done_at)
    query = (
        select(inbox.c.job, inbox.c.due_at)
        .select_from(table.join(inbox, mine))
        .where(new, table.c.kind != "house")
    )
    return [(int(row[0]), float(row[1])) for row in await tx.execute(query.order_by(inbox.c.due_at))]
