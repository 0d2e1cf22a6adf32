"""First parts of answers that are stored as being sent already, for a sender that makes the call at once.

That is one transaction fewer than to store a part as new and to take it. Functions work inside the caller's
transaction `tx`.
"""

from sqlalchemy import bindparam, exists, literal, select, update

from bot.db.portable_sql import upsert
from bot.db.queues.outbox import IS_DUE
from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import outbox
from bot.db.transaction import Transaction
from bot.domain import Lane, Part

_VALUES = {
    "item": bindparam("of_item", type_=outbox.c.item.type),
    "part": literal(0),
    "lane": bindparam("of_lane", type_=outbox.c.lane.type),
    "reply_to": bindparam("reply_to", type_=outbox.c.reply_to.type),
    "body": bindparam("body", type_=outbox.c.body.type),
    "final": literal(True),
    "state": literal("sending"),
    "tries": literal(1),
    "made_at": bindparam("now", type_=outbox.c.made_at.type),
}
# Not while something else of the lane is due, which comes first; nor if a running turn has shown the part.
_IS_ANY_DUE = exists(select(outbox.c.id).where(outbox.c.lane == bindparam("of_lane"), IS_DUE))
_INSERT_TAKEN = (
    upsert(outbox)
    .from_select([*_VALUES], select(*_VALUES.values()).where(~_IS_ANY_DUE))
    .on_conflict_do_nothing(index_elements=["item", "part"])
    .returning(outbox.c.id)
)


async def add_taken(
    tx: Transaction, part: Part, *, item: int, lane: Lane, reply_to: int | None, now: float
) -> int | None:
    """Store the first final part that answers `item` as being sent; returns its row.

    None: nothing is stored, because something else of the lane is due, or the part has a row already. The
    lane's sender makes no call meanwhile. `outbox.add` then adds the other parts, or all.
    """
    body = serialize_part(part)
    row = {"of_item": item, "of_lane": lane.key, "reply_to": reply_to, "body": body, "now": now}
    taken_row: int | None = (await tx.execute(_INSERT_TAKEN, row)).scalar_one_or_none()
    return taken_row


async def release(tx: Transaction, item: int) -> None:
    """Make the first part new again: nobody will send it, if it was stored as taken at all."""
    is_first_send = (outbox.c.item == item) & (outbox.c.part == 0) & (outbox.c.state == "sending")
    await tx.execute(update(outbox).where(is_first_send).values(state="new"))
