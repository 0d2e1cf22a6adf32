"""How system jobs went, read from each job's row and its newest inbox item.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import func, select, update

from bot.db.tables import inbox, jobs, readings
from bot.db.transaction import Transaction

_SELECT_ORDERED = (
    select(inbox.c.id)
    .where(inbox.c.state == "new", inbox.c.lane.is_(None), inbox.c.kind == "system")
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class SystemJobStatus:
    """The state of a system job.

    `next_due` None: it runs by its own clock. `failures`: how often it has failed in a row. `well_at`: when
    it ended last, or was first wanted if it failed or never ran. `state` and `error` (why it failed) are
    those of its newest item, received at `last_received_at`; None: it never ran.
    """

    name: str
    text: str
    zone: str
    next_due: float | None
    failures: int
    well_at: float
    last_received_at: float | None
    state: str | None
    error: str | None

    def is_pending(self, now: float) -> bool:
        """Whether it is due, waits or is at work."""
        is_due = self.next_due is not None and self.next_due <= now
        return is_due or self.state in {"new", "running"}


async def record_end(tx: Transaction, name: str, *, failed: bool, now: float) -> int:
    """Store that a job ended; returns how often it had failed in a row before (0 if it was removed)."""
    query = select(jobs.c.failures).where(jobs.c.name == name)
    failures_before = (await tx.execute(query)).scalar_one_or_none() or 0
    failures = failures_before + 1 if failed else 0
    await tx.execute(update(jobs).where(jobs.c.name == name).values(last_done=now, failures=failures))
    return failures_before


async def has_ordered(tx: Transaction) -> bool:
    """Whether a system job waits to be claimed."""
    return (await tx.execute(_SELECT_ORDERED)).one_or_none() is not None


async def list_statuses(tx: Transaction) -> list[SystemJobStatus]:
    """All system jobs by name, and how each went last."""
    newest = select(func.max(inbox.c.id)).where(inbox.c.job == jobs.c.id).correlate(jobs).scalar_subquery()
    columns = select(jobs, inbox.c.received_at, inbox.c.state.label("item_state"), inbox.c.error)
    query = (
        columns.outerjoin(inbox, inbox.c.id == newest).where(jobs.c.kind == "system").order_by(jobs.c.name)
    )
    return [
        SystemJobStatus(
            name=row.name,
            text=row.text,
            zone=row.zone,
            next_due=row.next_due,
            failures=row.failures,
            well_at=row.made_at if row.failures or row.last_done is None else row.last_done,
            last_received_at=row.received_at,
            state=row.item_state,
            error=row.error,
        )
        for row in await tx.execute(query)
    ]


async def count_user_jobs(tx: Transaction) -> dict[str, int]:
    """How many jobs people have, by state."""
    query = select(jobs.c.state, func.count()).where(jobs.c.kind != "system").group_by(jobs.c.state)
    return {row[0]: int(row[1]) for row in await tx.execute(query)}


async def find_last_reading_time(tx: Transaction) -> float | None:
    """When the endpoint's counters were last read (epoch seconds); None: never."""
    read_at: float | None = (await tx.execute(select(func.max(readings.c.read_at)))).scalar_one()
    return read_at


async def find_moments_around(tx: Transaction, moment: float, *, now: float) -> tuple[float | None, float]:
    """The first time after `moment` that anything was received (or now), and the last time before that.

    The latter comes first; None: nothing was. What a clock that was ahead has stored does not count.
    """
    after = select(func.min(inbox.c.received_at)).where(inbox.c.received_at.between(moment, now))
    first = (await tx.execute(after)).scalar_one() or now
    before = select(func.max(inbox.c.received_at)).where(inbox.c.received_at < first)
    return (await tx.execute(before)).scalar_one(), first
