"""Answers that were read out, each with its seconds; beside the accounts of their turns.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy import select

from bot.db.portable_sql import upsert
from bot.db.tables import messages, speeches, turns
from bot.db.transaction import Transaction


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
