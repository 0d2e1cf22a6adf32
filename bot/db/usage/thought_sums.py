"""What the latest calls took that thought. Only reads."""

from dataclasses import dataclass

from sqlalchemy import case, func, select

from bot.db.tables import model_calls
from bot.db.transaction import Transaction
from bot.db.usage.ledger_columns import CANVASES, sum_known, sum_seconds
from bot.domain import BRAKE_FINISH_REASON

MAX_THOUGHTS = 50
MAX_CALLS = 1000  # calls that are looked through, the newest

_call = model_calls.c
# Of a thought that was cut, nothing is counted apart: it is all there was.
_THOUGHT_TOKENS = func.coalesce(
    _call.reasoning_tokens,
    case((_call.finish_reason == BRAKE_FINISH_REASON, _call.completion_tokens), else_=0),
)
_RECENT_THOUGHTS = (
    select(
        _THOUGHT_TOKENS.label("tokens"),
        CANVASES.label("canvases"),
        (_call.ended_at - _call.seat_at).label("seconds"),
    )
    .where(
        _call.id > select(func.max(_call.id) - MAX_CALLS).scalar_subquery(),
        _call.thinking,
        _call.purpose == "turn",
        _call.outcome.in_(("ok", "cut")),
        _call.seat_at.is_not(None),
        _THOUGHT_TOKENS > 0,
    )
    .order_by(_call.id.desc())
    .limit(MAX_THOUGHTS)
    .subquery()
)
_SELECT_SUMS = select(
    func.count().label("count"),
    sum_known(_RECENT_THOUGHTS.c.tokens).label("tokens"),
    sum_known(_RECENT_THOUGHTS.c.canvases).label("canvases"),
    sum_seconds(_RECENT_THOUGHTS.c.seconds).label("seconds"),
)


@dataclass(frozen=True, slots=True)
class ThoughtSums:
    """Sums over calls that thought: `tokens` of the thoughts, `canvases` and `seconds` of the whole calls."""

    count: int
    tokens: int
    canvases: int
    seconds: float


async def sum_recent_thoughts(tx: Transaction) -> ThoughtSums:
    """The sums over the newest calls that thought, of which the server told how long."""
    return ThoughtSums(**(await tx.execute(_SELECT_SUMS)).one()._asdict())
