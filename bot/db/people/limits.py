"""How many canvases a person may use a day, where an admin has said so, and how many they have used. Works
inside `tx`.

Canvases are estimated: ceil(output / 256) a model call. A call that was not counted is taken by the blocks it
sent.
"""

from dataclasses import dataclass

from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import limits, model_calls, turns
from bot.domain import CANVAS_TOKENS

EVERYBODY = 0  # all members without a limit of their own
MAX_TURN_SECONDS = 86_400  # seconds; a call of today may be of a turn that began as long before

_CANVAS_COST = func.coalesce(
    (model_calls.c.completion_tokens + (CANVAS_TOKENS - 1)) // CANVAS_TOKENS, model_calls.c.blocks
)
_SELECT_USED_CANVASES = (
    select(func.coalesce(func.sum(_CANVAS_COST), 0))
    .select_from(turns.join(model_calls, model_calls.c.turn == turns.c.id))
    .where(turns.c.person == bindparam("who"), turns.c.began_at >= bindparam("begin") - MAX_TURN_SECONDS)
    .where(model_calls.c.created_at >= bindparam("begin"), model_calls.c.purpose != "decision")
)
_SELECT_RULES = select(limits.c.person, limits.c.canvases).order_by(limits.c.person)
_SELECT_RULES_FOR = _SELECT_RULES.where(limits.c.person.in_((bindparam("who"), EVERYBODY)))


@dataclass(frozen=True, slots=True)
class QuotaRule:
    """What an admin has set: so many canvases a day, or as many as they like (None)."""

    person: int
    canvases: int | None


async def count_used_canvases(tx: AsyncConnection, person: int, since: float) -> int:
    """The canvases of a person's turns since `begin` (epoch seconds); readings cost none."""
    return int((await tx.execute(_SELECT_USED_CANVASES, {"who": person, "begin": since})).scalar_one())


async def list_rules(tx: AsyncConnection) -> list[QuotaRule]:
    """All that is set, the rule for EVERYBODY first."""
    return [QuotaRule(row.person, row.canvases) for row in await tx.execute(_SELECT_RULES)]


async def find_rules(tx: AsyncConnection, person: int) -> tuple[QuotaRule | None, QuotaRule | None]:
    """What is set for this person, and for everybody."""
    found = {
        row.person: QuotaRule(row.person, row.canvases)
        for row in await tx.execute(_SELECT_RULES_FOR, {"who": person})
    }
    return found.get(person), found.get(EVERYBODY)


async def put(tx: AsyncConnection, person: int, canvases: int | None, *, set_by: int, now: float) -> None:
    """Set a rule."""
    row = {"canvases": canvases, "set_by": set_by, "set_at": now}
    made = insert(limits).values({"person": person, **row})
    await tx.execute(made.on_conflict_do_update(index_elements=["person"], set_=row))


async def remove(tx: AsyncConnection, person: int) -> None:
    """Take a rule back."""
    await tx.execute(delete(limits).where(limits.c.person == person))
