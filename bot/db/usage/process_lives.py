"""When a gateway process was running and when none was: one row for each process, with a heartbeat.

Times are epoch seconds. Functions work inside the caller's transaction `tx`.
"""

from itertools import pairwise

from sqlalchemy import func, insert, select, update

from bot.db.tables import lives, notices
from bot.db.transaction import Transaction
from bot.errors import SettingsRefused

COPIED = "copied"
"""The subject of the notice that says where the database was copied to, and is used from then on."""

_LAST_SEEN_AT = func.coalesce(lives.c.ended_at, lives.c.seen_at)


async def begin(tx: Transaction, *, began_at: float) -> int:
    """Store that a process began at `began_at`, seen last at that time; returns the id of its row.

    Raises SettingsRefused if the database was copied. That is read last: the row waits while it is copied.
    """
    statement = insert(lives).values(began_at=began_at, seen_at=began_at).returning(lives.c.id)
    life = int((await tx.execute(statement)).scalar_one())
    marks = await tx.execute(select(notices.c.text).where(notices.c.subject == COPIED))
    if (notice := marks.scalar_one_or_none()) is not None:
        raise SettingsRefused(
            f"DATABASE_URL: this database was {notice}, and what is due is done there. Put that "
            "into DATABASE_URL, or start the gateway here again with `canvasgram run --here`."
        )
    return life


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
