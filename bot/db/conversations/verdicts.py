"""What people think of answers. Functions work inside the caller's transaction `tx`."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, or_, select

from bot.db.portable_sql import upsert
from bot.db.tables import outbox, turns, verdicts
from bot.db.tables.queues import FIRST_FILE_PART
from bot.db.transaction import Transaction
from bot.domain import Lane

Verdict = Literal["good", "bad"]


@dataclass(frozen=True, slots=True)
class AnswerMessage:
    """A message of an answer: its row of the outbox, its turn, and where it stands."""

    row: int
    turn: int
    lane: Lane


async def find_answer(tx: Transaction, chat: int, message_id: int) -> AnswerMessage | None:
    """The answer that this message of a chat belongs to; None if it is of no answer, or that is forgotten."""
    original = outbox.alias("original")  # of a message that was sent again
    item = func.coalesce(outbox.c.item, original.c.item)
    query = (
        select(outbox.c.id, outbox.c.lane, turns.c.id.label("turn"))
        .select_from(
            outbox.outerjoin(original, original.c.id == outbox.c.copy_of).join(turns, turns.c.item == item)
        )
        .where(
            outbox.c.message_id == message_id,
            or_(outbox.c.lane == Lane(chat).key, outbox.c.lane.startswith(f"{chat}:")),
            turns.c.state != "forgotten",
        )
        .order_by(outbox.c.id.desc())
        .limit(1)
    )
    row = (await tx.execute(query)).one_or_none()
    if row is None:
        return None
    return AnswerMessage(row.id, row.turn, Lane.parse(row.lane))


async def store(
    tx: Transaction, answer: AnswerMessage, person: int, verdict: Verdict | None, *, item: int, now: float
) -> bool:
    """Store what inbox item `item` says that a person thinks of an answer; None: nothing any more.

    False if a newer item has said something else: those of a moment may be handled in any order.
    """
    changed = {"turn": answer.turn, "value": verdict, "item": item, "at": now}
    statement = upsert(verdicts).values(outbox=answer.row, person=person, **changed)
    if_newer = statement.on_conflict_do_update(
        index_elements=["outbox", "person"], set_=changed, where=verdicts.c.item < item
    )
    return (await tx.execute(if_newer.returning(verdicts.c.item))).one_or_none() is not None


async def find_last_row(tx: Transaction, turn: int) -> int | None:
    """The outbox's row of the last text of a turn's answer, before its files; None if it has no answer."""
    query = (
        select(outbox.c.id)
        .join(turns, turns.c.item == outbox.c.item)
        .where(turns.c.id == turn, outbox.c.body.is_not(None), outbox.c.part < FIRST_FILE_PART)
        .order_by(outbox.c.part.desc())
        .limit(1)
    )
    row: int | None = (await tx.execute(query)).scalar_one_or_none()
    return row
