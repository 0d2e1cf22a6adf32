"""Daily quotas of canvases that admins have set, and how many canvases a person has used.

Canvases are estimated: ceil(output tokens / 256) for each model call. A call whose tokens the server did not
count costs one canvas if it sent anything, or was stopped with a seat: it took no less, and no limit refuses
for what is not known. A group has a limit, too, for what everybody takes in it; its number is that of its
chat, which is negative. Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import and_, bindparam, case, delete, func, or_, select

from bot.db import revisions
from bot.db.portable_sql import replace_row
from bot.db.tables import limits, model_calls, turns
from bot.db.transaction import Transaction
from bot.db.usage.ledger_columns import CANVASES, IS_TYPED_READ
from bot.domain import MAX_TURN_SECONDS

EVERYBODY = 0  # all members without a limit of their own

# Blocks are no canvases where a server sends text token by token.
_IS_UNCOUNTED = model_calls.c.completion_tokens.is_(None)
_TOOK_CANVAS = or_(
    model_calls.c.blocks > 0,
    and_(model_calls.c.outcome == "cancelled", model_calls.c.seat_at.is_not(None)),
)
_CANVAS_COST = case(
    (and_(_IS_UNCOUNTED, _TOOK_CANVAS), 1),
    else_=CANVASES,
)

# The condition on `ended_at` only narrows the search to an index range; the calls' own times decide. A turn
# may last for days: it waits for an approval, or the gateway was off. Its last calls may follow its end.
_SELECT_CANVASES = (
    select(
        func.coalesce(func.sum(_CANVAS_COST), 0).label("canvases"),
        func.count(case((or_(_IS_UNCOUNTED, model_calls.c.usage_partial), 1))).label("unknown_calls"),
    )
    .select_from(turns.join(model_calls, model_calls.c.turn == turns.c.id))
    .where(or_(turns.c.ended_at >= bindparam("begin") - MAX_TURN_SECONDS, turns.c.ended_at.is_(None)))
    .where(model_calls.c.created_at >= bindparam("begin"), ~IS_TYPED_READ)
)
_SELECT_CANVASES_OF_PERSON = _SELECT_CANVASES.where(turns.c.person == bindparam("person_id"))
# The keys of a group's topics are its own and a colon before their numbers: a range of the index on lanes.
_SELECT_CANVASES_IN_CHAT = _SELECT_CANVASES.where(
    or_(
        turns.c.lane == bindparam("chat"),
        and_(turns.c.lane > bindparam("topics_after"), turns.c.lane < bindparam("topics_before")),
    )
)
_SELECT_RULES = select(limits.c.person, limits.c.canvases).order_by(limits.c.person)
_SELECT_RULES_OF = _SELECT_RULES.where(limits.c.person.in_((bindparam("person_id"), EVERYBODY)))


@dataclass(frozen=True, slots=True)
class QuotaRule:
    """A quota that an admin has set: canvases a day; None: no limit."""

    person: int
    canvases: int | None


@dataclass(frozen=True, slots=True)
class UsedCanvases:
    """Canvases of calls; of `unknown_calls` more may have been used than what is counted."""

    canvases: int
    unknown_calls: int


async def count_used_canvases(tx: Transaction, holder: int, since: float) -> UsedCanvases:
    """The canvases of a person's or a group's turns since `since` (epoch seconds); typed reads cost none."""
    if holder < 0:
        chat = str(holder)
        topics = {"topics_after": f"{chat}:", "topics_before": f"{chat};"}
        result = await tx.execute(_SELECT_CANVASES_IN_CHAT, {"chat": chat, "begin": since, **topics})
    else:
        result = await tx.execute(_SELECT_CANVASES_OF_PERSON, {"person_id": holder, "begin": since})
    row = result.one()
    return UsedCanvases(row.canvases, row.unknown_calls)


async def list_rules(tx: Transaction) -> list[QuotaRule]:
    """All rules, the one for EVERYBODY first."""
    return [QuotaRule(row.person, row.canvases) for row in await tx.execute(_SELECT_RULES)]


async def find_rules(tx: Transaction, person: int) -> tuple[QuotaRule | None, QuotaRule | None]:
    """The rule for this person, and the one for everybody."""
    rows = await tx.execute(_SELECT_RULES_OF, {"person_id": person})
    rules = {row.person: QuotaRule(row.person, row.canvases) for row in rows}
    return rules.get(person), rules.get(EVERYBODY)


async def put(tx: Transaction, person: int, canvases: int | None, *, set_by: int, now: float) -> None:
    """Set the rule for a person or EVERYBODY; replaces an earlier one."""
    row = {"person": person, "canvases": canvases, "set_by": set_by, "set_at": now}
    await tx.execute(replace_row(limits, row))
    await revisions.bump(tx, revisions.LIMITS)


async def remove(tx: Transaction, person: int) -> None:
    """Remove the rule for a person or EVERYBODY."""
    await tx.execute(delete(limits).where(limits.c.person == person))
    await revisions.bump(tx, revisions.LIMITS)
