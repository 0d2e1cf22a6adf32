"""How many answers people judged by a reaction, and how many of those are bad. Only reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, FromClause, case, func, literal, select

from bot.db.tables import model_calls, tool_calls, turns, verdicts
from bot.db.transaction import Transaction
from bot.db.usage.local_days import build_time_column
from bot.db.usage.scope_filters import build_calling_turn_filter
from bot.db.usage.usage_sums import GroupBy, GroupKey, Scope

# An answer is bad if anybody says so of one of its messages.
_JUDGED = (
    select(verdicts.c.turn, func.max(case((verdicts.c.value == "bad", 1), else_=0)).label("bad"))
    .where(verdicts.c.value.is_not(None))
    .group_by(verdicts.c.turn)
    .subquery()
)
_JUDGED_TURNS: Final = turns.join(_JUDGED, _JUDGED.c.turn == turns.c.id)
_GROUPS: Mapping[str, tuple[FromClause, ColumnElement[Any]]] = {
    "chat": (_JUDGED_TURNS, turns.c.lane),
    "user": (_JUDGED_TURNS, turns.c.person),
    "thinking": (_JUDGED_TURNS, turns.c.thinking),
    "model": (_JUDGED_TURNS.join(model_calls, model_calls.c.turn == turns.c.id), model_calls.c.model),
    "tool": (_JUDGED_TURNS.join(tool_calls, tool_calls.c.turn == turns.c.id), tool_calls.c.name),
}


@dataclass(frozen=True, slots=True)
class VerdictSums:
    """Answers that somebody judged; an answer of several models or tools counts for each."""

    key: GroupKey
    judged: int
    bad: int


async def sum_verdicts(
    tx: Transaction, scope: Scope, group: GroupBy | Literal["tool"] | None
) -> list[VerdictSums]:
    """Judged answers by group, without groups that have none; by `purpose` there is one group (key None)."""
    source, key = _GROUPS.get(group or "", (_JUDGED_TURNS, literal(None)))
    if group == "day" or group == "hour":
        key = build_time_column(turns.c.received_at, scope, group)
    judged = func.count(turns.c.id.distinct())
    bad = func.count(case((_JUDGED.c.bad == 1, turns.c.id)).distinct())
    query = select(key, judged, bad).select_from(source).where(*build_calling_turn_filter(scope))
    rows = await tx.execute(query.group_by(key))
    return [VerdictSums(*row) for row in rows if row[1]]
