"""What people of a group say to each other where it is read along, until the next question there.

Bounded in number, age and length, the oldest out first. Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, exists, or_, select, update

from bot.db.people import speakers
from bot.db.portable_sql import upsert
from bot.db.tables import group_texts, inbox
from bot.db.transaction import Transaction
from bot.domain import Lane

MAX_TEXTS = 50
MAX_SECONDS = 86_400.0
MAX_BYTES = 4500  # 1,500 tokens even where one is three bytes; most texts need fewer


@dataclass(frozen=True, slots=True)
class GroupText:
    """A text that is read along; `is_edit`: it takes the place of what its message said before."""

    lane: Lane
    message_id: int
    person: int
    name: str
    text: str
    written_at: float
    is_edit: bool = False


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text as it is kept; `name`: what the prompts of its lane call its sender."""

    id: int
    name: str
    text: str
    written_at: float


async def store(tx: Transaction, texts: Sequence[GroupText], *, now: float) -> None:
    """Keep texts as they come from Telegram, which may send each of them again."""
    for text in texts:
        if text.is_edit:
            await _replace(tx, text)
        elif not await _is_known(tx, text):
            await _add(tx, text)
    await delete_old(tx, now=now)
    for lane_key in {text.lane.key for text in texts}:
        await _delete_surplus(tx, lane_key)


async def load(tx: Transaction, lane: Lane, *, before_message: int, now: float) -> tuple[StoredText, ...]:
    """Return what was said in a lane before a message, the oldest first."""
    is_before = or_(group_texts.c.message_id.is_(None), group_texts.c.message_id < before_message)
    query = (
        select(group_texts.c.id, group_texts.c.name, group_texts.c.text, group_texts.c.written_at)
        .where(group_texts.c.lane == lane.key, is_before, group_texts.c.written_at >= now - MAX_SECONDS)
        .order_by(group_texts.c.id)
    )
    return tuple(StoredText(**row) for row in (await tx.execute(query)).mappings())


async def delete_texts(tx: Transaction, texts: Iterable[StoredText]) -> None:
    """Delete texts, because a turn has them now."""
    await tx.execute(delete(group_texts).where(group_texts.c.id.in_([text.id for text in texts])))


async def delete_message(tx: Transaction, lane: Lane, message_id: int) -> None:
    """Delete what a message said, because it is a question now."""
    same_message = (group_texts.c.lane == lane.key, group_texts.c.message_id == message_id)
    await tx.execute(delete(group_texts).where(*same_message))


async def delete_old(tx: Transaction, *, now: float) -> None:
    """Delete texts of all groups that are older than a day."""
    await tx.execute(delete(group_texts).where(group_texts.c.written_at < now - MAX_SECONDS))


async def _is_known(tx: Transaction, text: GroupText) -> bool:
    """Whether a later message of its lane is stored: then this one came before, and a turn may have it."""
    later = exists().where(inbox.c.lane == text.lane.key, inbox.c.message_id > text.message_id)
    return bool((await tx.execute(select(later))).scalar_one())


async def _add(tx: Transaction, text: GroupText) -> None:
    name = await speakers.add(tx, text.lane, text.person, text.name)
    row = {
        "lane": text.lane.key,
        "message_id": text.message_id,
        "person": text.person,
        "name": name,
        "text": text.text,
        "written_at": text.written_at,
    }
    await tx.execute(upsert(group_texts).values(row).on_conflict_do_nothing())


async def _replace(tx: Transaction, text: GroupText) -> None:
    same_message = (group_texts.c.lane == text.lane.key, group_texts.c.message_id == text.message_id)
    await tx.execute(update(group_texts).where(*same_message).values(text=text.text))


async def _delete_surplus(tx: Transaction, lane_key: str) -> None:
    """Delete the oldest texts of a lane beyond what is kept."""
    query = select(group_texts.c.id, group_texts.c.text).where(group_texts.c.lane == lane_key)
    surplus = []
    total_bytes = 0
    for count, row in enumerate(await tx.execute(query.order_by(group_texts.c.id.desc())), start=1):
        total_bytes += len(row.text.encode())
        if count > MAX_TEXTS or total_bytes > MAX_BYTES:
            surplus.append(row.id)
    if surplus:
        await tx.execute(delete(group_texts).where(group_texts.c.id.in_(surplus)))
