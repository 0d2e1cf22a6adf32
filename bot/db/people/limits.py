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
from bot.domain import CANVAS

EVERYBODY = 0  # all members without a limit of their own
LONGEST_TURN = 86_400  # seconds; a call of today may be of a turn that began as long before

_COST = func.coalesce((model_calls.c.completion_tokens + (CANVAS - 1)) // CANVAS, model_calls.c.blocks)
_USED = (
    select(func.coalesce(func.sum(_COST), 0))
    .select_from(turns.join(model_calls, model_calls.c.turn == turns.c.id))
    .where(turns.c.person == bindparam("who"), turns.c.began_at >= bindparam("begin") - LONGEST_TURN)
    .where(model_calls.c.created_at >= bindparam("begin"), model_calls.c.purpose != "decision")
)
_RULES = select(limits.c.person, limits.c.canvases).order_by(limits.c.person)
_OF = _RULES.where(limits.c.person.in_((bindparam("who"), EVERYBODY)))


@dataclass(frozen=True, slots=True)
class Rule:
    """What an admin has set: so many canvases a day, or as many as they like (None)."""

    person: int
    canvases: int | None


async def used(tx: AsyncConnection, person: int, begin: float) -> int:
    """The canvases of a person's turns since `begin` (epoch seconds); readings cost none."""
    return int((await tx.execute(_USED, {"who": person, "begin": begin})).scalar_one())


async def rules(tx: AsyncConnection) -> list[Rule]:
    """All that is set, the rule for EVERYBODY first."""
    return [Rule(row.person, row.canvases) for row in await tx.execute(_RULES)]


async def rules_for(tx: AsyncConnection, person: int) -> tuple[Rule | None, Rule | None]:
    """What is set for this person, and for everybody."""
    found = {row.person: Rule(row.person, row.canvases) for row in await tx.execute(_OF, {"who": person})}
    return found.get(person), found.get(EVERYBODY)


async def put(tx: AsyncConnection, person: int, canvases: int | None, *, by: int, now: float) -> None:
    """Set a rule."""
    row = {"canvases": canvases, "set_by": by, "set_at": now}
    made = insert(limits).values({"person": person, **row})
    await tx.execute(made.on_conflict_do_update(index_elements=["person"], set_=row))


async def remove(tx: AsyncConnection, person: int) -> None:
    """Take a rule back."""
    await tx.execute(delete(limits).where(limits.c.person == person))
