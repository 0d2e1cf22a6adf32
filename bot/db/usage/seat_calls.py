"""The model calls that waited or ran in a time span, for the picture of the seats. Only reads."""

from dataclasses import dataclass, fields

from sqlalchemy import bindparam, func, or_, select

from bot.db.tables import model_calls
from bot.db.transaction import Transaction
from bot.domain import MAX_TURN_SECONDS, CallOutcome, CallPurpose

MAX_CALLS = 20_000
MAX_RECENT = 50  # calls that tell how long a seat is held
MAX_SEARCHED = 1000  # calls that are looked through for them, the newest


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


_SELECT_SEAT_SECONDS = (
    select(model_calls.c.ended_at - model_calls.c.seat_at)
    .where(
        model_calls.c.id > select(func.max(model_calls.c.id) - MAX_SEARCHED).scalar_subquery(),
        model_calls.c.endpoint == bindparam("endpoint"),
        model_calls.c.purpose == "turn",
        model_calls.c.outcome.in_(("ok", "cut")),
        model_calls.c.seat_at.is_not(None),
    )
    .order_by(model_calls.c.id.desc())
    .limit(MAX_RECENT)
)


async def list_seat_seconds(tx: Transaction, endpoint: str) -> list[float]:
    """How long the latest calls of turns have held a seat of this endpoint, the newest first."""
    return list((await tx.execute(_SELECT_SEAT_SECONDS, {"endpoint": endpoint})).scalars())


async def list_seat_calls(tx: Transaction, *, since: float, until: float) -> list[TimedCall]:
    """The calls that were made before `until` and not over at `since`, the oldest first."""
    query = select(*_COLUMNS).where(
        model_calls.c.created_at >= since - MAX_TURN_SECONDS,
        model_calls.c.created_at < until,
        or_(model_calls.c.ended_at.is_(None), model_calls.c.ended_at > since),
    )
    query = query.order_by(model_calls.c.created_at, model_calls.c.id).limit(MAX_CALLS)
    return [TimedCall(*row) for row in await tx.execute(query)]
