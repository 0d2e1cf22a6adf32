"""The model calls that waited or ran in a time span, for the picture of the seats. Only reads."""

from dataclasses import dataclass

from sqlalchemy import or_, select

from bot.db.tables import model_calls
from bot.db.transaction import Transaction
from bot.domain import MAX_TURN_SECONDS

MAX_CALLS = 20_000


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A model call; times are epoch seconds. `ended_at` None: it runs, or was lost."""

    call: int
    turn: int | None
    purpose: str
    endpoint: str
    created_at: float
    seat_at: float | None
    ended_at: float | None
    outcome: str | None


_COLUMNS = tuple(model_calls.c[name] for name in TimedCall.__slots__ if name != "call")


async def list_seat_calls(tx: Transaction, *, since: float, until: float) -> list[TimedCall]:
    """The calls that were made before `until` and not over at `since`, the oldest first."""
    query = select(model_calls.c.id, *_COLUMNS).where(
        model_calls.c.created_at >= since - MAX_TURN_SECONDS,
        model_calls.c.created_at < until,
        or_(model_calls.c.ended_at.is_(None), model_calls.c.ended_at > since),
    )
    query = query.order_by(model_calls.c.created_at, model_calls.c.id).limit(MAX_CALLS)
    return [TimedCall(*row) for row in await tx.execute(query)]
