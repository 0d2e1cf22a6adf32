"""How the house's own jobs went: told of each by its row and by the newest of its inbox items. Works inside
`tx`.
"""

from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import inbox, jobs, readings

_SELECT_ORDERED = (
    select(inbox.c.id).where(inbox.c.state == "new", inbox.c.lane.is_(None), inbox.c.kind == "house").limit(1)
)


@dataclass(frozen=True, slots=True)
class SystemJobStatus:
    """A house job as it stands: `next_due` None: it has a clock of its own. `state` is that of its newest
    item (None: it never ran), received at `last`; `error` says why that failed.
    """

    name: str
    text: str
    zone: str
    next_due: float | None
    last_received_at: float | None
    state: str | None
    error: str | None


async def record_end(tx: AsyncConnection, name: str, *, failed: bool, now: float) -> int:
    """A job has come to its end; how often it had failed in a row before. 0 if there is no such job any more."""
    before = (await tx.execute(select(jobs.c.failures).where(jobs.c.name == name))).scalar_one_or_none() or 0
    changed = {"last_done": now, "failures": before + 1 if failed else 0}
    await tx.execute(update(jobs).where(jobs.c.name == name).values(changed))
    return before


async def has_ordered(tx: AsyncConnection) -> bool:
    """Whether a job of the house waits to be taken."""
    return (await tx.execute(_SELECT_ORDERED)).one_or_none() is not None


async def list_statuses(tx: AsyncConnection) -> list[SystemJobStatus]:
    """All house jobs by name, and how each went last."""
    newest = select(func.max(inbox.c.id)).where(inbox.c.job == jobs.c.id).correlate(jobs).scalar_subquery()
    query = select(jobs, inbox.c.received_at, inbox.c.state.label("went"), inbox.c.error)
    found = query.outerjoin(inbox, inbox.c.id == newest).where(jobs.c.kind == "house").order_by(jobs.c.name)
    return [
        SystemJobStatus(row.name, row.text, row.zone, row.next_due, row.received_at, row.went, row.error)
        for row in await tx.execute(found)
    ]


async def count_user_jobs(tx: AsyncConnection) -> dict[str, int]:
    """How many jobs of people there are by state."""
    query = select(jobs.c.state, func.count()).where(jobs.c.kind != "house").group_by(jobs.c.state)
    return {row[0]: int(row[1]) for row in await tx.execute(query)}


async def find_last_reading_time(tx: AsyncConnection) -> float | None:
    """When the endpoint's counters were read last."""
    read_at: float | None = (await tx.execute(select(func.max(readings.c.read_at)))).scalar_one()
    return read_at
