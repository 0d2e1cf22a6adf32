"""Groups: their state and settings, and the move of all their rows to the number of a supergroup.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, Table, and_, case, delete, func, or_, select, true, update

from bot.db import revisions
from bot.db.portable_sql import upsert
from bot.db.tables import (
    allowances,
    approvals,
    grants,
    group_speakers,
    group_texts,
    groups,
    inbox,
    instructions,
    jobs,
    lanes,
    limits,
    notes,
    outbox,
    turns,
)
from bot.db.transaction import Transaction
from bot.domain import Lane

GroupState = Literal["asked", "in", "left"]
Speakers = Literal["members", "everyone"]

REMOVED_FROM_GROUP = "removed from the group"
_TABLES_BY_LANE = (approvals, group_texts, inbox, jobs, outbox, turns)


@dataclass(frozen=True, slots=True)
class Group:
    """A group that the bot is in, or was.

    `since`: when it got its state (epoch seconds).
    `speakers`: who is answered; `everyone` includes people whom nobody let in.
    `name`: what its people call the assistant, beside its username.
    `reads_along`: the last messages that were for others are kept for the next answer.
    `judges`: the endpoint is asked whether a message without an address is meant for the assistant.
    `hears_all`: whether Telegram sends all messages (None: unknown).
    `can_send`: False while the bot is muted there.
    `old_chat`: its number before it became a supergroup (None: it had no other).
    """

    chat: int
    title: str
    state: GroupState
    since: float
    added_by: int | None = None
    let_in_by: int | None = None
    speakers: Speakers = "members"
    name: str | None = None
    reads_along: bool = False
    judges: bool = False
    hears_all: bool | None = None
    can_send: bool = True
    old_chat: int | None = None

    def has_number(self, number: int) -> bool:
        """Whether this is its number, or was: its anonymous administrators ask under it."""
        return number in {self.chat, self.old_chat}


async def list_groups(tx: Transaction) -> list[Group]:
    """All groups, the newest first."""
    rows = await tx.execute(select(groups).order_by(groups.c.since.desc(), groups.c.chat))
    return [Group(**row) for row in rows.mappings()]


async def put(tx: Transaction, group: Group) -> None:
    """Store a group as it is now."""
    row = asdict(group)
    statement = upsert(groups).values(row)
    await tx.execute(statement.on_conflict_do_update(index_elements=["chat"], set_=row))
    await revisions.bump(tx, revisions.GROUPS)


async def set_hears_all(tx: Transaction, chat: int, hears_all: bool | None) -> None:
    """Note whether Telegram sends all messages of a group."""
    await tx.execute(update(groups).where(groups.c.chat == chat).values(hears_all=hears_all))
    await revisions.bump(tx, revisions.GROUPS)


async def list_unanswered(tx: Transaction, *, before: float) -> list[Group]:
    """The groups about which no admin has answered since `before` (epoch seconds)."""
    query = select(groups).where(groups.c.state == "asked", groups.c.since < before)
    return [Group(**row) for row in (await tx.execute(query)).mappings()]


async def list_left(tx: Transaction, *, since: float) -> list[Group]:
    """The groups that the bot has left, or was removed from, since then (epoch seconds)."""
    query = select(groups).where(groups.c.state == "left", groups.c.since >= since)
    return [Group(**row) for row in (await tx.execute(query)).mappings()]


async def find_lane(tx: Transaction, lane: Lane) -> Lane:
    """The lane that this one is by now: that of a group changes as it becomes a supergroup.

    What began before, such as a turn, asks this in the transaction in which it writes.
    """
    if not lane.is_group or lane.topic is not None:
        return lane
    query = select(groups.c.chat).where(groups.c.old_chat == lane.chat)
    chat = (await tx.execute(query)).scalar_one_or_none()
    return lane if chat is None else Lane(chat)


async def delete_texts(tx: Transaction, chat: int) -> None:
    """Delete what was read along in a group."""
    await tx.execute(delete(group_texts).where(_is_in_chat(group_texts, chat)))


async def end_work(tx: Transaction, chat: int, *, now: float) -> list[Lane]:
    """End all work for a group that nothing can be sent to; returns its lanes in which a turn runs.

    Waiting messages and what was read along are dropped, undelivered messages given up, and jobs paused with
    the reason.
    """
    waits = update(inbox).where(_is_in_chat(inbox, chat), inbox.c.state == "new")
    await tx.execute(waits.values(state="done", done_at=now, error=REMOVED_FROM_GROUP))
    unsent = update(outbox).where(_is_in_chat(outbox, chat), outbox.c.state == "new")
    await tx.execute(unsent.values(state="failed", done_at=now, error=REMOVED_FROM_GROUP))
    await delete_texts(tx, chat)
    active = update(jobs).where(_is_in_chat(jobs, chat), jobs.c.state == "active")
    await tx.execute(active.values(state="paused", why_paused=REMOVED_FROM_GROUP))
    running = update(inbox).where(_is_in_chat(inbox, chat), inbox.c.state == "running").values(stopped=True)
    lane_keys = (await tx.execute(running.returning(inbox.c.lane))).scalars()
    return [Lane.parse(key) for key in set(lane_keys)]


def _is_in_chat(table: Table, chat: int) -> ColumnElement[bool]:
    """The condition that a row belongs to a lane of this chat."""
    return or_(table.c.lane == Lane(chat).key, table.c.lane.startswith(f"{chat}:"))


async def move(tx: Transaction, old_chat: int, new_chat: int) -> None:
    """Give everything of a group the number of the supergroup that it became.

    Doing it twice does no harm. A group that is no supergroup has no topics, so it is one lane. What the
    supergroup has under its number already, because somebody wrote there first, gives way, but for its notes.
    """
    old_lane = Lane(old_chat).key
    new_lane = Lane(new_chat).key
    await _move_notes(tx, old_lane, new_lane)
    await _detach_messages(tx, old_lane)
    # The supergroup counts its messages from the beginning, and the old ones can no longer be edited.
    for table in (inbox, group_texts):
        await tx.execute(update(table).where(table.c.lane == old_lane).values(message_id=None))
    for table in _TABLES_BY_LANE:
        await tx.execute(update(table).where(table.c.lane == old_lane).values(lane=new_lane))
    # What runs stays with the replica that runs it, also if it dies.
    waits = and_(inbox.c.lane == new_lane, inbox.c.state != "running")
    await tx.execute(update(inbox).where(waits).values(share=Lane(new_chat).share))
    tx.changes.note_inbox([Lane(new_chat).share])
    tx.changes.note_outbox(Lane(new_chat))
    for table in (lanes, group_speakers, instructions):
        await _replace(tx, table.c.lane, old_lane, new_lane)
    for column in (groups.c.chat, limits.c.person):
        await _replace(tx, column, old_chat, new_chat)
    await tx.execute(update(groups).where(groups.c.chat == new_chat).values(old_chat=old_chat))
    await tx.execute(update(jobs).where(jobs.c.person == old_chat).values(person=new_chat))
    await revisions.bump(tx, revisions.GROUPS)
    await revisions.bump(tx, revisions.LIMITS)
    if await _replace(tx, grants.c.number, old_chat, new_chat, grants.c.whom == "chat"):
        await revisions.bump(tx, revisions.TOOLS)
    await tx.execute(update(allowances).where(allowances.c.chat == old_chat).values(chat=new_chat))


async def _detach_messages(tx: Transaction, lane: str) -> None:
    """Forget the numbers of messages that show what they are to show; nothing in them changes any more.

    What is still to be shown in a message becomes a new one, once Telegram has refused to edit the old one.
    """
    in_lane = and_(outbox.c.lane == lane, outbox.c.message_id.is_not(None))
    changing = and_(outbox.c.state == "open", or_(outbox.c.done_at.is_not(None), outbox.c.body.is_(None)))
    settled = or_(outbox.c.state.in_(("done", "failed", "unknown")), changing)
    state = case((changing, "done"), else_=outbox.c.state)
    await tx.execute(update(outbox).where(in_lane, settled).values(message_id=None, state=state))


async def _move_notes(tx: Transaction, old_lane: str, new_lane: str) -> None:
    """Number the notes of the new lane after those of the old one, and join them."""
    highest = select(func.coalesce(func.max(notes.c.number), 0)).where(notes.c.lane == old_lane)
    offset = (await tx.execute(highest)).scalar_one()
    in_new_lane = notes.c.lane == new_lane
    # First to numbers that nothing has: a unique constraint is held row by row.
    await tx.execute(update(notes).where(in_new_lane).values(number=-notes.c.number))
    await tx.execute(update(notes).where(in_new_lane).values(number=offset - notes.c.number))
    await tx.execute(update(notes).where(notes.c.lane == old_lane).values(lane=new_lane))


async def _replace(
    tx: Transaction,
    column: Column[Any],
    old_value: int | str,
    new_value: int | str,
    condition: ColumnElement[bool] | None = None,
) -> bool:
    """Give rows another key; those that have it already are deleted if there is a row to take their place.

    False if there is none.
    """
    table = column.table
    is_concerned = true() if condition is None else condition
    has_old = (await tx.execute(select(column).where(is_concerned, column == old_value).limit(1))).first()
    if has_old is None:
        return False
    await tx.execute(delete(table).where(is_concerned, column == new_value))
    await tx.execute(update(table).where(is_concerned, column == old_value).values({column: new_value}))
    return True
