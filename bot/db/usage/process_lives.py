"""When there was a process and when there was none: a row a process, with a heartbeat for those that are
killed.

Functions work inside the caller's transaction `tx`. Times are epoch seconds.
"""

from itertools import pairwise

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import lives

_LAST_SEEN_AT = func.coalesce(lives.c.ended_at, lives.c.seen_at)


async def begin(tx: AsyncConnection, *, began_at: float) -> int:
    """A process lives since `began_at`, of which nothing is known until its first heartbeat; returns its id."""
    made = insert(lives).values(began_at=began_at, seen_at=began_at).returning(lives.c.id)
    return int((await tx.execute(made)).scalar_one())


async def record_heartbeat(tx: AsyncConnection, life: int, *, now: float) -> None:
    """It still lives."""
    await tx.execute(update(lives).where(lives.c.id == life).values(seen_at=now))


async def end(tx: AsyncConnection, life: int, *, now: float) -> None:
    """It ends in good order."""
    await tx.execute(update(lives).where(lives.c.id == life).values(seen_at=now, ended_at=now))


async def list_outages(tx: AsyncConnection, since: float) -> list[tuple[float, float]]:
    """The times without a process that ended after `since`, in order.

    One that followed a kill begins at the last heartbeat before it, so that the killed process may have lived
    a little longer than is known.
    """
    first = select(func.max(lives.c.id)).where(lives.c.began_at <= since).scalar_subquery()
    query = select(lives.c.began_at, _LAST_SEEN_AT.label("left_at")).order_by(lives.c.id)
    found = (await tx.execute(query.where(lives.c.id >= func.coalesce(first, 0)))).all()
    return [(left.left_at, next_one.began_at) for left, next_one in pairwise(found)]
