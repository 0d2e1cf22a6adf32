"""When a gateway process was running and when none was: one row for each process, with a heartbeat.

Times are epoch seconds. Functions work inside the caller's transaction `tx`.
"""

from itertools import pairwise

from sqlalchemy import func, insert, select, update

from bot.db.tables import lives
from bot.db.transaction import Transaction

_LAST_SEEN_AT = func.coalesce(lives.c.ended_at, lives.c.seen_at)


async def begin(tx: Transaction, *, began_at: float) -> int:
    """Store that a process began at `began_at`, seen last at that time; returns the id of its row."""
    statement = insert(lives).values(began_at=began_at, seen_at=began_at).returning(lives.c.id)
    return int((await tx.execute(statement)).scalar_one())


async def record_heartbeat(tx: Transaction, life: int, *, now: float) -> None:
    """Store that the process still runs."""
    await tx.execute(update(lives).where(lives.c.id == life).values(seen_at=now))


async def end(tx: Transaction, life: int, *, now: float) -> None:
    """Store that the process ends in an orderly way."""
    await tx.execute(update(lives).where(lives.c.id == life).values(seen_at=now, ended_at=now))


async def list_outages(tx: Transaction, since: float) -> list[tuple[float, float]]:
    """The times without a process, as (begin, end), that ended after `since`, in order.

    After a kill it begins at the last heartbeat: the killed process may have lived a little longer than is
    known.
    """
    first = select(func.max(lives.c.id)).where(lives.c.began_at <= since).scalar_subquery()
    query = select(lives.c.began_at, _LAST_SEEN_AT.label("last_seen_at")).order_by(lives.c.id)
    rows = (await tx.execute(query.where(lives.c.id >= func.coalesce(first, 0)))).all()
    return [(earlier.last_seen_at, later.began_at) for earlier, later in pairwise(rows)]
