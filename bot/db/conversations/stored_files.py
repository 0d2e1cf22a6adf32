"""How much of people's files is stored, by person, and the space that older files leave to newer ones.

Texts of documents and sound count, and pictures. Those of past conversations go first, then the texts of a
chat's current one; its pictures stay, since its prompts hold them, and so does what a chat keeps. Messages
are never deleted for that.
Functions work inside the caller's transaction `tx`.
"""

from typing import Any

from sqlalchemy import Select, delete, func, or_, select, update

from bot.db.conversations import kept_files
from bot.db.tables import attachments, lanes, messages, turns
from bot.db.transaction import Transaction

MAX_BYTES = 50 * 1024 * 1024  # of one person
TELL_BYTES = 40 * 1024 * 1024
MAX_KEPT_BYTES = TELL_BYTES  # of one person: the rest is for files that come and go
DELETED_TEXT = " was deleted to make space for newer files. Ask for the file again.)"
_MAX_DELETED_BYTES = 16 * 1024 * 1024  # at a time, since everybody waits for the transaction
_MAX_DELETED_FILES = 500


async def has_space(tx: Transaction, person: int) -> bool:
    """Whether a file of this person can be stored, also where older ones have to go."""
    if await count_bytes(tx, person) < MAX_BYTES:
        return True
    return (await tx.execute(_select_deletable(person).limit(1))).one_or_none() is not None


async def count_bytes(tx: Transaction, person: int) -> int:
    """How much of this person's files is stored."""
    query = select(func.coalesce(func.sum(attachments.c.size), 0)).where(attachments.c.person == person)
    return int((await tx.execute(query)).scalar_one()) + await kept_files.count_bytes(tx, person)


async def free_space(tx: Transaction, person: int) -> None:
    """Delete the oldest files of a person beyond MAX_BYTES, as far as they can be."""
    excess_bytes = await count_bytes(tx, person) - MAX_BYTES
    left = min(excess_bytes, _MAX_DELETED_BYTES)
    pictures = list[int]()
    texts = list[int]()
    for row in (await tx.execute(_select_deletable(person).limit(_MAX_DELETED_FILES))).all():
        if left <= 0:
            break
        left -= row.size
        (pictures if row.kind == "image" else texts).append(row.id)
    await tx.execute(delete(attachments).where(attachments.c.id.in_(pictures)))
    told = "(The text of " + attachments.c.name + DELETED_TEXT  # found by the words of its name
    await tx.execute(update(attachments).where(attachments.c.id.in_(texts)).values(text=told, size=0))


def _select_deletable(person: int) -> Select[Any]:
    """The files of a person that can go, the first to go first."""
    is_past = turns.c.conversation < func.coalesce(lanes.c.conversation, 1)
    return (
        select(attachments.c.id, attachments.c.kind, attachments.c.size)
        .join(messages, attachments.c.message == messages.c.id)
        .join(turns, messages.c.turn == turns.c.id)
        .outerjoin(lanes, lanes.c.lane == turns.c.lane)
        .where(
            attachments.c.person == person,
            attachments.c.size > 0,
            turns.c.state.not_in(("running", "parked")),
            or_(attachments.c.kind != "image", is_past),
        )
        .order_by(is_past.desc(), attachments.c.id)
    )
