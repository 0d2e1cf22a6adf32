"""Updates of Telegram as they are stored in the inbox, each once.

Functions work inside the caller's transaction `tx`.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from bot.db.people.group_texts import GroupText
from bot.db.portable_sql import ListMembership, upsert
from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import ItemShape, Lane, compute_share

log = logging.getLogger(__name__)

# Built once: building a statement costs more than running it.
_INSERT_UPDATES = upsert(inbox).on_conflict_do_nothing(index_elements=["update_id"])
_SELECT_KNOWN = select(inbox.c.id, inbox.c.update_id, inbox.c.body).where(
    ListMembership(inbox.c.update_id, "update_ids")
)


@dataclass(frozen=True, slots=True)
class MessageEdit:
    """What an edit makes of a message: its shape, and its body as it would be stored.

    `sent_at`: when the message was written, before it was edited.
    """

    lane: Lane
    message_id: int
    shape: ItemShape
    body: str
    sent_at: float


@dataclass(frozen=True, slots=True)
class IncomingUpdate:
    """An update as it is stored: read leniently, parsed only when it is handled.

    `lane` None: a control item, claimed at once. `chat`: where it happened, if it names one.
    `not_before` (epoch seconds): a part of a paste waits until then for the rest. `edit`: of an update that
    says that a message was edited. `is_for_others`: it concerns the assistant in no way, as a group's message
    to others, and no item is stored of it. `group_text`: what is read along of it. `is_edited_question`: of
    an edit that made a message of a group address the assistant, and counts as a new message.
    """

    update_id: int
    shape: ItemShape
    lane: Lane | None
    sender: int | None
    body: str
    stale: bool
    not_before: float | None
    message_id: int | None = None
    is_forward: bool = False
    edit: MessageEdit | None = None
    is_for_others: bool = False
    group_text: GroupText | None = None
    is_edited_question: bool = False
    chat: int | None = None

    @property
    def share(self) -> int:
        """The share of the chat in which it happened."""
        if self.lane is not None:
            return self.lane.share
        return compute_share(self.chat or self.sender or 0)


async def store(tx: Transaction, updates: Sequence[IncomingUpdate], *, now: float) -> None:
    """Store updates; one that is stored already is skipped."""
    rows = [
        {
            "update_id": incoming.update_id,
            "kind": "update",
            "shape": incoming.shape,
            "lane": incoming.lane.key if incoming.lane else None,
            "share": incoming.share,
            "sender": incoming.sender,
            "message_id": incoming.message_id if incoming.lane else None,
            "body": incoming.body,
            "stale": incoming.stale,
            "not_before": incoming.not_before,
            "received_at": now,
        }
        for incoming in updates
    ]
    if rows:
        await tx.execute(_INSERT_UPDATES, rows)
        tx.changes.note_inbox(incoming.share for incoming in updates)


async def find_known(tx: Transaction, updates: Sequence[IncomingUpdate]) -> set[int]:
    """Which of these updates are stored already, by their ids.

    A Bot API server that lost its state counts from the start again, and another bot has a count of its own:
    a stored update that was another one gives up its id.
    """
    bodies = {update.update_id: update.body for update in updates}
    rows = (await tx.execute(_SELECT_KNOWN, {"update_ids": [*bodies]})).all()
    reused = [
        row for row in rows if row.body and _find_origin(row.body) != _find_origin(bodies[row.update_id])
    ]
    if reused:
        log.warning("ids of other updates come again", extra={"action": "intake.renumbered"})
        ids = [row.id for row in reused]
        await tx.execute(update(inbox).where(inbox.c.id.in_(ids)).values(update_id=None))
    return {row.update_id for row in rows} - {row.update_id for row in reused}


def _find_origin(body: str) -> tuple[object, object] | None:
    """What no two updates of one id share, and an edit keeps: the date of a message, the id of a tap."""
    contents = [content for content in json.loads(body).values() if isinstance(content, dict)]
    return (contents[0].get("id"), contents[0].get("date")) if contents else None


async def has_updates(tx: Transaction) -> bool:
    """Whether anything that Telegram sent was ever stored."""
    query = select(inbox.c.id).where(inbox.c.update_id.is_not(None)).limit(1)
    return (await tx.execute(query)).first() is not None
