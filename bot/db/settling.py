"""What came of a due time, noted with its job: done, or failed once more. Works inside `tx`, and counts each once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db import jobs
from bot.db.jobs import Job
from bot.db.tables import inbox, turns
from bot.db.tables import jobs as table

MOST_FAILURES = 3  # in a row, after which a job of a person is paused

_WHY: Mapping[str, str] = {
    "away": "the model did not answer",
    "refused": "the model endpoint refused the request",
    "too_long": "it was longer than the model can read",
    "limit": "your canvases of the day were used up",
    "seconds": "it took too long",
    "steps": "it took too many steps",
    "empty": "the model gave no answer",
    "failed": "it could not be handled",
}
_OVER = inbox.c.state.in_(("done", "dead"))
_CAME = select(inbox.c.id, inbox.c.state, inbox.c.done_at, turns.c.ending).select_from(
    inbox.outerjoin(turns, turns.c.item == inbox.c.id)
)


@dataclass(frozen=True, slots=True)
class Settled:
    """A due time that was noted: the job as it is now, and why it failed (None: it did not)."""

    job: Job
    why: str | None

    @property
    def is_paused(self) -> bool:
        """Whether it was paused for it."""
        return self.why is not None and self.job.state == "paused" and self.job.why_paused is not None


async def settle(tx: AsyncConnection, job: int, due_at: float) -> Settled | None:
    """Note what came of a person's due time; None if it is not over, was noted before, or its job is gone."""
    came = (await tx.execute(_CAME.where(inbox.c.job == job, inbox.c.due_at == due_at, _OVER))).one_or_none()
    found = await jobs.find(tx, job)
    if came is None or found is None or found.kind == "house":
        return None
    why = _why(came)
    failures = found.failures + 1 if why else 0
    changed: dict[str, Any] = {"last_done": came.done_at, "failures": failures}
    if found.next_due is None and found.state == "active":
        changed["state"] = "done"
    elif failures >= MOST_FAILURES:
        changed |= {"state": "paused", "why_paused": why}
    new = or_(table.c.last_done.is_(None), table.c.last_done < came.done_at)
    if not (await tx.execute(update(table).where(table.c.id == job, new).values(changed))).rowcount:
        return None
    settled = await jobs.find(tx, job)
    return Settled(settled, why) if settled else None


async def unsettled(tx: AsyncConnection) -> list[tuple[int, float]]:
    """The due times, as (job, due_at), that are over and were not noted: the process ended in between."""
    since = func.coalesce(table.c.last_due, 0)
    mine = and_(inbox.c.job == table.c.id, inbox.c.due_at >= since, _OVER)
    new = or_(table.c.last_done.is_(None), table.c.last_done < inbox.c.done_at)
    query = select(inbox.c.job, inbox.c.due_at).select_from(table.join(inbox, mine)).where(new, table.c.kind != "house")
    return [(int(row[0]), float(row[1])) for row in await tx.execute(query.order_by(inbox.c.due_at))]


def _why(came: Any) -> str | None:
    if came.state == "dead":
        return _WHY["failed"]
    return _WHY.get(came.ending or "")
