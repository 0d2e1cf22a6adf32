"""First sends of answers: stored as being made already, or found to have arrived.

A first part that is stored as being sent, for a sender that makes the call at once, needs one transaction
fewer than one that is stored as new and taken. Functions work inside the caller's transaction `tx`.
"""

from sqlalchemy import bindparam, case, exists, literal, select, update

from bot.db.portable_sql import upsert
from bot.db.queues.outbox import IS_DUE
from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import outbox
from bot.db.tables.queues import FIRST_FILE_PART
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
_COPY = outbox.alias("copy")


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
    released = update(outbox).where(is_first_send).values(state="new").returning(outbox.c.lane)
    for lane in (await tx.execute(released)).scalars():
        tx.changes.note_outbox(Lane.parse(lane))


async def confirm(tx: Transaction, item: int, lane: Lane, message_id: int) -> bool:
    """Note that the first send of unknown outcome of this item's answer arrived as this message.

    It becomes due, with its final text, and the question about it is taken back. False if this may be another
    message, or the answer was sent again.
    """
    parts = select(outbox.c.id, outbox.c.state, outbox.c.message_id).where(
        outbox.c.item == item, outbox.c.lane == lane.key, outbox.c.part < FIRST_FILE_PART, outbox.c.final
    )
    rows = (await tx.execute(parts)).all()
    in_doubt = [row.id for row in rows if row.state == "unknown"]
    if len(in_doubt) != 1 or any(row.message_id == message_id for row in rows):
        return False
    is_copied = exists().where(_COPY.c.copy_of == in_doubt[0])
    arrived = update(outbox).where(outbox.c.id == in_doubt[0], ~is_copied).returning(outbox.c.id)
    if (await tx.execute(arrived.values(state="open", message_id=message_id))).first() is None:
        return False
    tx.changes.note_outbox(lane)
    has_message = outbox.c.message_id.is_not(None)
    state = case((has_message, "open"), (outbox.c.state == "new", "done"), else_=outbox.c.state)
    await tx.execute(update(outbox).where(outbox.c.about == in_doubt[0]).values(body=None, state=state))
    return True
