"""Items of group messages of which it is not known yet whether they are for the assistant.

They name nobody, and are judged; or their group was not known when they came.

Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Sequence

from sqlalchemy import Update, update

from bot.db.portable_sql import JsonField
from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import ItemShape, Lane

# As if it had just been stored: what is measured of its turn begins with its claim there.
_AS_NEW = {"state": "new", "attempt": 0, "seen_at": None, "taken_at": None, "retaken_at": None}


async def place(
    tx: Transaction, item: int, shape: ItemShape, lane: Lane | None, message_id: int | None
) -> None:
    """Make a running item one of this shape that waits in its lane, at the place of its arrival.

    `lane` None: it is a control item.
    """
    row: dict[str, object] = _AS_NEW | {"shape": shape, "message_id": message_id}
    if lane is not None:
        row |= {"lane": lane.key, "share": lane.share}
    placed = await tx.execute(_running(item).values(row).returning(inbox.c.share))
    tx.changes.note_inbox(placed.scalars())


async def forget(tx: Transaction, item: int, *, now: float) -> None:
    """End a running item, and delete what its message said, and who wrote it."""
    await tx.execute(_running(item).values(state="done", done_at=now, body=None, sender=None))


async def forget_message(tx: Transaction, lane: Lane, message_id: int, *, now: float) -> None:
    """End the item of a message that need not be judged, and delete what it said, and who wrote it."""
    is_pending = (inbox.c.state.in_(("new", "running")), inbox.c.lane.is_(None))
    is_message = (
        inbox.c.shape == "unaddressed",
        JsonField(inbox.c.body, "message.message_id") == str(message_id),
        JsonField(inbox.c.body, "message.chat.id") == str(lane.chat),
    )
    ended = {"state": "done", "done_at": now, "body": None, "sender": None}
    await tx.execute(update(inbox).where(*is_pending, *is_message).values(ended))


async def forget_dead(tx: Transaction, items: Sequence[int]) -> None:
    """Delete what dead ones of these items said, and who wrote them."""
    is_unaddressed = (inbox.c.id.in_(items), inbox.c.shape == "unaddressed")
    await tx.execute(update(inbox).where(*is_unaddressed).values(body=None, sender=None))


def _running(item: int) -> Update:
    is_unplaced = inbox.c.shape.in_(("unaddressed", "other"))
    is_running = (inbox.c.id == item, is_unplaced, inbox.c.state == "running")
    return update(inbox).where(*is_running)
