"""The model calls that waited or ran in a time span, for the picture of the seats. Only reads."""

from dataclasses import dataclass, fields

from sqlalchemy import or_, select

from bot.db.tables import model_calls
from bot.db.transaction import Transaction
from bot.domain import MAX_TURN_SECONDS, CallOutcome, CallPurpose

MAX_CALLS = 20_000


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A model call; times are epoch seconds. `ended_at` None: it runs, or was lost."""

    id: int
    turn: int | None
    purpose: CallPurpose
    endpoint: str
    created_at: float
    seat_at: float | None
    ended_at: float | None
    outcome: CallOutcome | None

    @property
    def waited(self) -> float | None:
        """Seconds until it had a seat; None: it had none, as a typed read."""
        return None if self.seat_at is None else self.seat_at - self.created_at

    @property
    def seat_seconds(self) -> float | None:
        """Seconds with a seat; None: it had none, or its end is not known."""
        if self.seat_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.seat_at


_COLUMNS = tuple(model_calls.c[field.name] for field in fields(TimedCall))


async def list_seat_calls(tx: Transaction, *, since: float, until: float) -> list[TimedCall]:
    """The calls that were made before `until` and not over at `since`, the oldest first."""
    query = select(*_COLUMNS).where(
        model_calls.c.created_at >= since - MAX_TURN_SECONDS,
        model_calls.c.created_at < until,
        or_(model_calls.c.ended_at.is_(None), model_calls.c.ended_at > since),
    )
    query = query.order_by(model_calls.c.created_at, model_calls.c.id).limit(MAX_CALLS)
    return [TimedCall(*row) for row in await tx.execute(query)]
