"""What model calls took, read back from their rows: of a lane's last turn, and of a person since some time.

Reads only; the rows are written by calls.py as the calls happen.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import model_calls, turns
from bot.domain import Lane

CANVAS = 256  # tokens


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over model calls. Tokens are None when no call told; `whole` False: some did not, it was at least so much.

    `canvases` is an estimate, ceil(output / 256) a call. `seconds` go from messages received to turns ended.
    """

    turns: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    canvases: int | None
    seconds: float
    whole: bool


async def last_turn(tx: AsyncConnection, lane: Lane) -> Spent | None:
    """What the newest ended turn of the lane took; None if there is none."""
    ended = select(turns.c.id).where(turns.c.lane == lane.key, turns.c.ended_at.is_not(None))
    newest = ended.order_by(turns.c.ended_at.desc(), turns.c.id.desc()).limit(1)
    spent = await _spent(tx, turns.c.id == newest.scalar_subquery())
    return spent if spent.turns else None


async def since(tx: AsyncConnection, person: int, begin: float) -> Spent:
    """What all turns of a person took that began at `begin` (epoch seconds) or later."""
    return await _spent(tx, and_(turns.c.person == person, turns.c.began_at >= begin))


async def _spent(tx: AsyncConnection, which: ColumnElement[bool]) -> Spent:
    unsure = or_(
        model_calls.c.prompt_tokens.is_(None),
        model_calls.c.completion_tokens.is_(None),
        model_calls.c.usage_partial.is_(True),
    )
    counted = select(
        func.count(model_calls.c.id),
        func.sum(model_calls.c.prompt_tokens),
        func.sum(model_calls.c.completion_tokens),
        func.sum((model_calls.c.completion_tokens + (CANVAS - 1)) // CANVAS),
        func.coalesce(func.sum(case((unsure, 1), else_=0)), 0),
    )
    calls, inputs, outputs, canvases, gaps = (
        await tx.execute(counted.select_from(turns.join(model_calls, model_calls.c.turn == turns.c.id)).where(which))
    ).one()
    took = select(func.count(), func.coalesce(func.sum(turns.c.ended_at - turns.c.received_at), 0.0)).where(which)
    count, seconds = (await tx.execute(took)).one()
    return Spent(count, calls, inputs, outputs, canvases, seconds, whole=gaps == 0)
