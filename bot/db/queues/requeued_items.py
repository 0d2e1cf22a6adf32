"""Inbox items that are done without a result yet, and are queued again once a person has answered.

Functions work inside the caller's transaction `tx`.
"""

from sqlalchemy import and_, func, insert, select, update

from bot.db.queues.inbox import TURN_SHAPES
from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import Lane


async def requeue(tx: Transaction, item: int, lane: Lane, *, now: float) -> bool:
    """Requeue a /deep that waited for consent; False if it no longer waits, or belongs to another lane.

    The rest of a long paste was set aside with it (the same `done_at`) and is requeued with it.
    """
    was_set_aside = (
        (inbox.c.lane == lane.key)
        & (inbox.c.state == "done")
        & inbox.c.turn.is_(None)
        & inbox.c.error.is_(None)
    )
    is_this_deep = and_(was_set_aside, inbox.c.id == item, inbox.c.shape == "deep")
    set_aside_at = select(inbox.c.done_at).where(is_this_deep).scalar_subquery()
    requeued = update(inbox).where(
        was_set_aside, inbox.c.id >= item, inbox.c.shape.in_(TURN_SHAPES), inbox.c.done_at == set_aside_at
    )
    asked_at = func.coalesce(inbox.c.asked_at, inbox.c.done_at)
    wait_times = {"asked_at": asked_at, "agreed_at": now, "retaken_at": None}
    return (await tx.execute(requeued.values(state="new", done_at=None, **wait_times))).rowcount > 0


async def store_error(tx: Transaction, item: int, error: str) -> None:
    """Store why an item that is done has no result yet."""
    await tx.execute(update(inbox).where(inbox.c.id == item).values(error=error))


async def requeue_failed(tx: Transaction, sender: int, *, error: str, since: float) -> bool:
    """Queue a copy of a person's newest item that was received since then and ended with this error.

    False if there is none.
    """
    failed = and_(inbox.c.sender == sender, inbox.c.error == error, inbox.c.received_at >= since)
    newest = select(inbox.c.id).where(failed, inbox.c.state == "done").order_by(inbox.c.id.desc()).limit(1)
    item = (await tx.execute(newest)).scalar()
    if item is None:
        return False
    columns = ["kind", "shape", "lane", "share", "sender", "body", "received_at"]
    copy = select(*(inbox.c[column] for column in columns)).where(inbox.c.id == item)
    await tx.execute(insert(inbox).from_select(columns, copy))
    await store_error(tx, item, "done again")
    return True
