"""Answers that were read out, each with its seconds; beside the accounts of their turns.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import asdict, dataclass, fields
from typing import Literal, NamedTuple

from sqlalchemy import func, select

from bot.db.portable_sql import upsert
from bot.db.tables import messages, speeches, turns
from bot.db.transaction import Transaction
from bot.db.usage.scope_filters import build_turn_filter
from bot.db.usage.usage_sums import Scope


@dataclass(frozen=True, slots=True)
class Speech:
    """How an answer was read out: `chars` of it; 0: nothing of it is read out. Times in epoch seconds.

    `wanted_at`: the answer was stored. `began_at`: the service was asked, after a wait for a free place.
    """

    turn: int
    chars: int
    wanted_at: float
    began_at: float
    ended_at: float
    outcome: Literal["ok", "failed"]


class SpeechSums(NamedTuple):
    """Answers that were read out, how many could not be, and the seconds of both at the service."""

    spoken: int
    failed: int
    seconds: float


async def find(tx: Transaction, turn: int) -> Speech | None:
    """How the answer of a turn was read out; None: it was not to be."""
    query = select(*(speeches.c[field.name] for field in fields(Speech))).where(speeches.c.turn == turn)
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else Speech(*row)


async def sum_speeches(tx: Transaction, scope: Scope) -> SpeechSums:
    """The sums over the turns of a scope."""
    columns = (
        func.count().filter(speeches.c.outcome == "ok"),
        func.count().filter(speeches.c.outcome == "failed"),
        func.coalesce(func.sum(speeches.c.ended_at - speeches.c.began_at), 0.0),
    )
    query = select(*columns).join(turns, turns.c.id == speeches.c.turn).where(*build_turn_filter(scope))
    return SpeechSums(*(await tx.execute(query)).one())


async def load_answer(tx: Transaction, turn: int) -> str:
    """The answer (Markdown) of a turn that still stands in its conversation; "" if it does not."""
    query = (
        select(messages.c.text)
        .join(turns, turns.c.id == messages.c.turn)
        .where(messages.c.turn == turn, messages.c.role == "assistant", turns.c.state == "ended")
        .order_by(messages.c.id.desc())
        .limit(1)
    )
    text: str = (await tx.execute(query)).scalar_one_or_none() or ""
    return text


async def store(tx: Transaction, speech: Speech) -> None:
    """Store how an answer was read out, once."""
    insertion = upsert(speeches).values(asdict(speech))
    await tx.execute(insertion.on_conflict_do_nothing(index_elements=["turn"]))
