"""Groups: their state and settings, and the number that they get as supergroups.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sqlalchemy import (
    Column,
    ColumnElement,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)

from bot.db import revisions
from bot.db.portable_sql import replace_row
from bot.db.tables import (
    allowances,
    approvals,
    grants,
    group_speakers,
    group_texts,
    groups,
    hooks,
    inbox,
    instructions,
    jobs,
    kept_files,
    lanes,
    limits,
    notes,
    outbox,
    turns,
)
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.translations.translator import translatable

GroupState = Literal["asked", "in", "left"]
Speakers = Literal["members", "everyone"]

_KEYS_OF_SETTINGS: tuple[Column[Any], ...] = (
    *(lanes.c.lane, group_speakers.c.lane, instructions.c.lane),
    *(groups.c.chat, limits.c.person, grants.c.number),
)
REMOVED_FROM_GROUP = translatable("removed from the group")
OTHER_MESSAGES = 2**32
"""The ids of messages under a group's other number begin here; those of Telegram are smaller."""
_TABLES_BY_LANE = (
    *(approvals, group_speakers, group_texts, hooks, inbox, instructions),
    *(jobs, lanes, notes, outbox, turns),
)


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
    `other_chat`: the number that it got as it became a supergroup; before version 36, the one it had before.
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
    other_chat: int | None = None

    def has_number(self, number: int) -> bool:
        """Whether this is a number of it, by which people name it, and its anonymous administrators ask."""
        return number in {self.chat, self.other_chat}

    @property
    def number(self) -> int:
        """Its number at Telegram; that of a supergroup is the lower one."""
        return min(self.chat, self.other_chat or 0)

    def has_name(self, words: str) -> bool:
        """Whether these words name it: its title, without regard to case and spaces, or a number of it."""
        title = self.title.casefold().split()
        return words.casefold().split() in (title, [str(self.chat)], [str(self.number)])


async def list_groups(tx: Transaction) -> list[Group]:
    """All groups, the newest first."""
    rows = await tx.execute(select(groups).order_by(groups.c.since.desc(), groups.c.chat))
    return [Group(**row) for row in rows.mappings()]


async def put(tx: Transaction, group: Group) -> None:
    """Store a group as it is now."""
    await tx.execute(replace_row(groups, asdict(group)))
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
    """The lane that keeps what is written under this one's number, which may be the other one of a group."""
    return replace(lane, chat=await find_chat(tx, lane.chat)) if lane.is_group else lane


async def find_chat(tx: Transaction, number: int) -> int:
    """The number by which the gateway knows a chat that people name by this one."""
    chat = await tx.execute(select(groups.c.chat).where(groups.c.other_chat == number))
    return chat.scalar_one_or_none() or number


async def delete_texts(tx: Transaction, chat: int) -> None:
    """Delete what was read along in a group."""
    await tx.execute(delete(group_texts).where(_is_in_chat(group_texts, chat)))


async def end_work(tx: Transaction, chat: int, *, now: float) -> list[Lane]:
    """End all work for a group that nothing can be sent to; returns its lanes in which a turn runs.

    Waiting messages and what was read along are dropped, undelivered messages given up, and jobs paused and
    hooks ended with the reason.
    """
    waits = update(inbox).where(_is_in_chat(inbox, chat), inbox.c.state == "new")
    await tx.execute(waits.values(state="done", done_at=now, error=REMOVED_FROM_GROUP))
    unsent = update(outbox).where(_is_in_chat(outbox, chat), outbox.c.state == "new")
    await tx.execute(unsent.values(state="failed", done_at=now, error=REMOVED_FROM_GROUP))
    await delete_texts(tx, chat)
    active = update(jobs).where(_is_in_chat(jobs, chat), jobs.c.state == "active")
    await tx.execute(active.values(state="paused", why_paused=REMOVED_FROM_GROUP))
    live = update(hooks).where(_is_in_chat(hooks, chat), hooks.c.why_ended.is_(None))
    await tx.execute(live.values(why_ended=REMOVED_FROM_GROUP))
    running = update(inbox).where(_is_in_chat(inbox, chat), inbox.c.state == "running").values(stopped=True)
    lane_keys = (await tx.execute(running.returning(inbox.c.lane))).scalars()
    return [Lane.parse(key) for key in set(lane_keys)]


def _is_in_chat(table: Table, chat: int) -> ColumnElement[bool]:
    """The condition that a row belongs to a lane of this chat."""
    return or_(table.c.lane == Lane(chat).key, table.c.lane.startswith(f"{chat}:"))


async def move(tx: Transaction, chat: int, new_chat: int) -> bool:
    """Note that a group has become a supergroup; False if that is not known of it from now on.

    Doing it twice does no harm. The group keeps its own number here, and with it all its rows. What somebody
    has written first under the supergroup's number joins it; settings and rights there give way.

    While a turn runs there, nothing is done: the next message to the group is refused, and says it again.
    """
    tx.changes.note_outbox(Lane(chat))
    states = select(inbox.c.state).where(_is_in_chat(inbox, new_chat)).with_for_update()
    is_running = "running" in (await tx.execute(states)).scalars().all()
    known = select(groups.c.chat).where(groups.c.chat == chat, groups.c.chat != new_chat)
    if is_running or (await tx.execute(known)).first() is None:
        return False
    await _detach_messages(tx, str(chat))
    for column in _KEYS_OF_SETTINGS:
        of_type = column.type.python_type
        if (await tx.execute(select(column).where(column == of_type(chat)).limit(1))).first():
            await tx.execute(delete(column.table).where(column == of_type(new_chat)))
    highest = select(func.max(notes.c.number)).where(notes.c.lane == str(chat)).scalar_subquery()
    renumbered = update(notes).where(notes.c.lane == str(new_chat))
    await tx.execute(renumbered.values(lane=str(chat), number=notes.c.number + func.coalesce(highest, 0)))
    for table in _TABLES_BY_LANE:
        topic = func.substr(table.c.lane, len(str(new_chat)) + 1)
        joined: dict[str, Any] = {"lane": literal(str(chat)).concat(topic)}
        if "message_id" in table.c:
            joined["message_id"] = table.c.message_id + OTHER_MESSAGES
        if table is inbox:
            joined["share"] = Lane(chat).share
        await tx.execute(update(table).where(_is_in_chat(table, new_chat)).values(joined))
    tx.changes.note_inbox([Lane(chat).share])
    same = kept_files.alias()
    is_kept_twice = exists().where(same.c.chat == chat, same.c.hash == kept_files.c.hash)
    await tx.execute(delete(kept_files).where(kept_files.c.chat == new_chat, is_kept_twice))
    for column in (kept_files.c.chat, limits.c.person, grants.c.number, jobs.c.person, allowances.c.chat):
        await tx.execute(update(column.table).where(column == new_chat).values({column: chat}))
    await tx.execute(update(groups).where(groups.c.chat == chat).values(other_chat=new_chat))
    for kind in (revisions.GROUPS, revisions.LIMITS, revisions.TOOLS):
        await revisions.bump(tx, kind)
    return True


async def _detach_messages(tx: Transaction, lane: str) -> None:
    """Forget the numbers of messages that show what they are to show; nothing in them changes any more.

    What is still to be shown in a message becomes a new one, once Telegram has refused to edit the old one.
    """
    in_lane = and_(outbox.c.lane == lane, outbox.c.message_id < OTHER_MESSAGES)
    changing = and_(outbox.c.state == "open", or_(outbox.c.done_at.is_not(None), outbox.c.body.is_(None)))
    settled = or_(outbox.c.state.in_(("done", "failed", "unknown")), changing)
    state = case((changing, "done"), else_=outbox.c.state)
    await tx.execute(update(outbox).where(in_lane, settled).values(message_id=None, state=state))
