"""Inbox items that are done without a result yet, and are queued again once a person has answered.

Functions work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import and_, func, insert, or_, select, update

from bot.db.queues.inbox import TURN_SHAPES
from bot.db.tables import inbox, outbox
from bot.db.transaction import Transaction
from bot.domain import Lane


async def requeue(tx: Transaction, item: int, lane: Lane, *, now: float) -> bool:
    """Requeue a message that waited for consent; False if it no longer waits, or belongs to another lane.

    What was to be answered with it was set aside with it (the same `done_at`) and is requeued with it.
    """
    was_set_aside = (
        (inbox.c.lane == lane.key)
        & (inbox.c.state == "done")
        & inbox.c.turn.is_(None)
        & inbox.c.error.is_(None)
        & inbox.c.body.is_not(None)
    )
    set_aside_at = select(inbox.c.done_at).where(was_set_aside, inbox.c.id == item).scalar_subquery()
    requeued = update(inbox).where(
        was_set_aside, inbox.c.id >= item, inbox.c.shape.in_(TURN_SHAPES), inbox.c.done_at == set_aside_at
    )
    asked_at = func.coalesce(inbox.c.asked_at, inbox.c.done_at)
    wait_times = {"asked_at": asked_at, "agreed_at": now, "retaken_at": None}
    values = {"state": "new", "done_at": None, **wait_times}
    shares = (await tx.execute(requeued.values(values).returning(inbox.c.share))).scalars().all()
    tx.changes.note_inbox(shares)
    return bool(shares)


async def store_error(tx: Transaction, item: int, error: str) -> None:
    """Store why an item that is done has no result yet."""
    await tx.execute(update(inbox).where(inbox.c.id == item).values(error=error))


async def requeue_failed(tx: Transaction, sender: int, *, error: str, since: float) -> bool:
    """Queue copies of a person's items that were received since then and ended with this error.

    False if there is none.
    """
    is_failed = and_(
        inbox.c.sender == sender,
        inbox.c.error == error,
        inbox.c.received_at >= since,
        inbox.c.state == "done",
    )
    columns = ["kind", "shape", "lane", "share", "sender", "body", "received_at"]
    copies = select(*(inbox.c[column] for column in columns)).where(is_failed).order_by(inbox.c.id)
    await tx.execute(insert(inbox).from_select(columns, copies))
    copied = update(inbox).where(is_failed).values(error="done again").returning(inbox.c.share)
    shares = (await tx.execute(copied)).scalars().all()
    tx.changes.note_inbox(shares)
    return bool(shares)


async def take_failed(
    tx: Transaction, item: int, lane: Lane, sender: int, *, error: str
) -> dict[str, Any] | None:
    """Take, once, the body of a person's item that ended with this error; None if there is none."""
    is_failed = and_(inbox.c.lane == lane.key, inbox.c.sender == sender, inbox.c.error == error)
    taken = update(inbox).where(inbox.c.id == item, is_failed).values(error="done again")
    body = (await tx.execute(taken.returning(inbox.c.body))).scalar_one_or_none()
    return None if body is None else json.loads(body)


async def can_answer(
    tx: Transaction, item: int, sender: int, *, errors: Collection[str], replied_to: int
) -> bool:
    """Whether a person's item follows one of theirs that ended with such an error, or replies to its message.

    `replied_to`: the number of a message, 0 for none.
    """
    previous = (
        select(func.max(inbox.c.id)).where(inbox.c.sender == sender, inbox.c.id < item).scalar_subquery()
    )
    answered = select(outbox.c.item).where(outbox.c.message_id == replied_to)
    is_asked = or_(inbox.c.id == previous, inbox.c.id.in_(answered))
    query = select(inbox.c.id).where(inbox.c.sender == sender, inbox.c.error.in_(errors), is_asked)
    return (await tx.execute(query)).first() is not None
