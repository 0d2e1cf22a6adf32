"""The messages that wait in the inbox to be claimed, and what edits make of them.

Functions work inside the caller's transaction `tx`.
"""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select, update

from bot.db.portable_sql import JsonField
from bot.db.queues.inbox import TURN_SHAPES
from bot.db.queues.incoming_updates import MessageEdit
from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import ItemShape

_WAITS_OF_SENDERS = and_(
    inbox.c.state == "new",
    inbox.c.sender.in_(bindparam("senders", expanding=True)),
    inbox.c.body.is_not(None),
)
# Hundreds of a lane's messages may be refused; the last of them says all that the next one needs to know.
_LAST_REFUSED = (
    select(func.max(inbox.c.id))
    .where(_WAITS_OF_SENDERS, inbox.c.shape == "overflow")
    .group_by(
        inbox.c.sender,
        JsonField(inbox.c.body, "message.chat.id"),
        JsonField(inbox.c.body, "message.message_thread_id"),
    )
)
_SELECT_WAITING = (
    select(inbox.c.sender, inbox.c.shape, inbox.c.body)
    .where(_WAITS_OF_SENDERS, or_(inbox.c.shape.in_(TURN_SHAPES), inbox.c.id.in_(_LAST_REFUSED)))
    .order_by(inbox.c.id)
)


async def load_waiting(
    tx: Transaction, senders: Iterable[int]
) -> dict[int, list[tuple[ItemShape, dict[str, Any]]]]:
    """Shape and body of the messages of each of these senders that wait to be claimed, oldest first.

    Of those that were refused only the last one of a chat or topic.
    """
    waiting: dict[int, list[tuple[ItemShape, dict[str, Any]]]] = {sender: [] for sender in senders}
    for row in await tx.execute(_SELECT_WAITING, {"senders": list(waiting)}):
        waiting[row.sender].append((row.shape, json.loads(row.body)))
    return waiting


async def replace_waiting(tx: Transaction, edit: MessageEdit) -> bool:
    """Have a waiting message read as it was edited; False if none waits, or it became something else."""
    waiting = update(inbox).where(
        inbox.c.lane == edit.lane.key,
        inbox.c.state == "new",
        inbox.c.turn.is_(None),
        inbox.c.shape == edit.shape,
        inbox.c.message_id == edit.message_id,
    )
    return (await tx.execute(waiting.values(body=edit.body))).rowcount > 0
