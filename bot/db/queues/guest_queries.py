"""Guest queries: what a person asks in a chat that the bot is no member of, answered there in one message.

A query is an inbox item. At first it has no lane: it is claimed at once, and answered with a short text
within the seconds that Telegram allows. Then it waits in the lane of its person and chat, and its turn edits
that answer. The item's body holds how far that is. The answer's outbox row has the item's id, below zero, as
its message id: an id of such a message is no number. Functions work inside the caller's transaction `tx`.
"""

import json
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, insert, select, update

from bot.db.queues import inbox as inbox_rows
from bot.db.queues.item_bodies import ForgetOrder
from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import inbox, outbox
from bot.db.transaction import Transaction
from bot.domain import Lane, Part

_IS_BEING_ANSWERED = "is_being_answered"
_INLINE_MESSAGE_ID = "inline_message_id"


async def mark_being_answered(tx: Transaction, item: int) -> bool:
    """Store that the one call that answers a query is about to be made; False if it was made before."""
    body = await _load_body(tx, item)
    if _IS_BEING_ANSWERED in body:
        return False
    await _store_body(tx, item, body | {_IS_BEING_ANSWERED: True})
    return True


async def mark_not_answered(tx: Transaction, item: int) -> None:
    """Store that the call certainly did not arrive, so that it may be made again."""
    body = await _load_body(tx, item)
    body.pop(_IS_BEING_ANSWERED, None)
    await _store_body(tx, item, body)


async def store_answered(
    tx: Transaction, item: int, lane: Lane, *, text: str, inline_message_id: str, now: float
) -> None:
    """Store which message answers a query, with this text for now, and queue the query in its lane."""
    body = await _load_body(tx, item)
    await _store_body(tx, item, body | {_INLINE_MESSAGE_ID: inline_message_id})
    queued = {"lane": lane.key, "share": lane.share, "state": "new", "attempt": 0, "taken_at": None}
    await tx.execute(update(inbox).where(inbox.c.id == item).values(queued))
    tx.changes.note_inbox([lane.share])
    row = {
        "item": item,
        "lane": lane.key,
        "body": serialize_part(Part(text)),
        "final": False,
        "state": "open",
        "message_id": -item,
        "made_at": now,
        "sent_at": now,
    }
    await tx.execute(insert(outbox).values(row))
    await _repeat_forget(tx, item, lane, now)


async def _repeat_forget(tx: Transaction, item: int, lane: Lane, now: float) -> None:
    """Have a query that came before its person's last /forget forgotten once it is answered.

    That /forget knew nothing of its lane. No other system job works in the lane of a chat.
    """
    private_chat = Lane(lane.chat)
    later_jobs = and_(inbox.c.kind == "system", inbox.c.lane == private_chat.key, inbox.c.id > item)
    query = select(inbox.c.body).where(later_jobs).order_by(inbox.c.id.desc()).limit(1)
    body = (await tx.execute(query)).scalar()
    if body is not None:
        again = replace(ForgetOrder.parse(json.loads(body)), asked_at=now, tells=False)
        await inbox_rows.add(tx, kind="system", lane=lane, sender=None, body=again.serialize(), now=now)


async def find_inline_message_id(tx: Transaction, item: int) -> str:
    """The id of the message that answers a query; "" once its text was deleted."""
    body = await _load_body(tx, item)
    return str(body.get(_INLINE_MESSAGE_ID, ""))


async def _load_body(tx: Transaction, item: int) -> dict[str, Any]:
    text = (await tx.execute(select(inbox.c.body).where(inbox.c.id == item))).scalar()
    body: dict[str, Any] = json.loads(text or "{}")
    return body


async def _store_body(tx: Transaction, item: int, body: dict[str, Any]) -> None:
    text = json.dumps(body, separators=(",", ":"))
    await tx.execute(update(inbox).where(inbox.c.id == item).values(body=text))
