"""Messages that were edited after they had been taken: found by their number, compared, and queued again.

An edit waits in the lane of its message, before all that waits there. Functions work inside the caller's
transaction `tx`.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import RowMapping, and_, delete, func, insert, or_, select, update

from bot.db.portable_sql import JsonField
from bot.db.queues.incoming_updates import MessageEdit
from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import Lane

SUPERSEDED = "edited again"
_CONTROL_SCAN_ROWS = 1000

# What a handled item keeps when it is queued again.
_RENEWED_COLUMNS = ("kind", "shape", "lane", "share", "sender", "message_id")


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a lane as it was stored; `turn`: the one that it was answered in, or is."""

    item: int
    state: str
    shape: str
    sender: int | None
    turn: int | None
    body: dict[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """The raw message."""
        message: dict[str, Any] = self.body["message"]
        return message


@dataclass(frozen=True, slots=True)
class StoredEdit:
    """An edit about which its sender was asked; `is_newest`: nothing has come of its message since."""

    message_id: int
    sender: int
    received_at: float
    is_newest: bool


@dataclass(frozen=True, slots=True)
class Revision:
    """Which message of which turn was edited, and whether the new answer takes the place of the old one."""

    message_id: int
    in_place: bool
    turn: int


async def find(tx: Transaction, lane: Lane, message_id: int) -> StoredMessage | None:
    """The message of this number; None if nothing is known of it, or its text was deleted."""
    query = (
        select(inbox)
        .where(inbox.c.lane == lane.key, inbox.c.message_id == message_id, inbox.c.shape != "edit")
        .order_by(inbox.c.id.desc())
        .limit(1)
    )
    row = (await tx.execute(query)).one_or_none()
    if row is None or row.body is None:
        return None
    return StoredMessage(row.id, row.state, row.shape, row.sender, row.turn, json.loads(row.body))


async def find_known(tx: Transaction, edits: Collection[MessageEdit]) -> set[tuple[Lane, int]]:
    """Which of the edited messages are stored: in their lanes, or lately as control items or as refused.

    One that is still judged was not asked of the assistant.
    """
    known = set()
    newest = select(func.max(inbox.c.id)).scalar_subquery()
    for edit in edits:
        in_lane = and_(inbox.c.lane == edit.lane.key, inbox.c.message_id == edit.message_id)
        without_lane = and_(
            inbox.c.lane.is_(None),
            inbox.c.shape != "unaddressed",
            inbox.c.id > newest - _CONTROL_SCAN_ROWS,
            JsonField(inbox.c.body, "message.message_id") == str(edit.message_id),
            JsonField(inbox.c.body, "message.chat.id") == str(edit.lane.chat),
        )
        for condition in (in_lane, without_lane):
            if (await tx.execute(select(inbox.c.id).where(condition).limit(1))).first() is not None:
                known.add((edit.lane, edit.message_id))
    return known


async def find_edit(tx: Transaction, lane: Lane, item: int) -> StoredEdit | None:
    """The edit that this item of the lane is."""
    query = select(inbox).where(inbox.c.id == item, inbox.c.lane == lane.key, inbox.c.shape == "edit")
    row = (await tx.execute(query)).one_or_none()
    if row is None:
        return None
    same_message = and_(inbox.c.lane == lane.key, inbox.c.message_id == row.message_id)
    newest = (await tx.execute(select(func.max(inbox.c.id)).where(same_message))).scalar_one()
    return StoredEdit(row.message_id, row.sender, row.received_at, is_newest=newest == item)


async def drop_pending(tx: Transaction, lane: Lane, message_id: int, *, now: float) -> bool:
    """Drop the earlier edits of a message that wait; False if there are none."""
    pending = and_(inbox.c.lane == lane.key, inbox.c.message_id == message_id, inbox.c.shape == "edit")
    dropped = update(inbox).where(pending, inbox.c.state == "new")
    return (await tx.execute(dropped.values(state="done", done_at=now, error=SUPERSEDED))).rowcount > 0


async def store_text(tx: Transaction, stored: StoredMessage, message: dict[str, Any]) -> None:
    """Store what a message says now."""
    body = json.dumps(stored.body | {"message": message}, separators=(",", ":"))
    await tx.execute(update(inbox).where(inbox.c.id == stored.item).values(body=body))


async def has_written_since(tx: Transaction, lane: Lane, person: int, item: int) -> bool:
    """Whether people have written in a lane after this item, or its person a command."""
    by_person = and_(inbox.c.lane.is_(None), inbox.c.sender == person, inbox.c.shape == "command")
    in_lane = and_(inbox.c.lane == lane.key, inbox.c.shape != "edit")
    written = and_(inbox.c.id > item, inbox.c.kind == "update", or_(in_lane, by_person))
    return (await tx.execute(select(inbox.c.id).where(written).limit(1))).one_or_none() is not None


async def find_repeating_turn(tx: Transaction, lane: Lane, turn: int) -> int | None:
    """The turn of the /retry that repeated this one; None: there is none, or it has not begun."""
    repeats = and_(inbox.c.kind == "task", JsonField(inbox.c.body, "turn") == str(turn))
    query = select(inbox.c.turn).where(inbox.c.lane == lane.key, inbox.c.turn > turn, repeats)
    repeating: int | None = (
        await tx.execute(query.order_by(inbox.c.id.desc()).limit(1))
    ).scalar_one_or_none()
    return repeating


async def requeue(tx: Transaction, turn: int, revision: Revision | None, *, now: float) -> int | None:
    """Queue the messages of a turn again, before all that waits in their lane; returns the first item.

    None: they are not there any more. `revision`: what of them was edited, if anything.

    The lane's waiting items are stored again behind them: items are handled in the order of their numbers.
    """
    of_turn = select(inbox).where(inbox.c.turn == turn).order_by(inbox.c.id)
    rows = (await tx.execute(of_turn)).mappings().all()
    if not rows or any(row["body"] is None for row in rows):
        return None
    copies = [_renew(row, revision if row is rows[0] else None, now) for row in rows]
    waits = and_(
        inbox.c.lane == rows[0]["lane"],
        inbox.c.state == "new",
        inbox.c.turn.is_(None),
        inbox.c.shape != "edit",
    )
    waiting = (await tx.execute(delete(inbox).where(waits).returning(*inbox.c))).mappings().all()
    in_order = sorted(waiting, key=lambda row: row["id"])
    moved = [{name: value for name, value in row.items() if name != "id"} for row in in_order]
    return await _insert(tx, copies, moved)


async def _insert(tx: Transaction, copies: Sequence[dict[str, Any]], moved: Sequence[dict[str, Any]]) -> int:
    first, *others = copies
    item = (await tx.execute(insert(inbox).values(first).returning(inbox.c.id))).scalar_one()
    tx.changes.note_inbox([first["share"]])
    for row in (*others, *moved):
        await tx.execute(insert(inbox).values(row))
    return int(item)


def _renew(row: RowMapping, revision: Revision | None, now: float) -> dict[str, Any]:
    """An item as if it had just been received; the first of a turn says what is revised."""
    body = json.loads(row["body"])
    body.pop("revision", None)
    if revision is not None:
        body["revision"] = asdict(revision)
    renewed = {name: row[name] for name in _RENEWED_COLUMNS}
    renewed["body"] = json.dumps(body, separators=(",", ":"))
    renewed["not_before"] = None if row["not_before"] is None else now
    return renewed | {"received_at": now}
