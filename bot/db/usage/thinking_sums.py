"""What turns took and how they ended, those that thought apart from those that did not. Only reads.

A turn belongs where it was decided to begin, also if a failing call or an endless thought switched it later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, select

from bot.db.tables import accounts, model_calls, turns
from bot.db.transaction import Transaction
from bot.db.usage.call_filters import IS_PARTLY_COUNTED
from bot.db.usage.ledger_columns import CANVAS_COST, IS_TYPED_READ, count_when, sum_known, sum_seconds
from bot.db.usage.scope_filters import build_calling_turn_filter
from bot.db.usage.usage_sums import Scope

_call = model_calls.c
_turn = turns.c
_SECONDS = func.coalesce(accounts.c.whole, _turn.ended_at - _turn.received_at)
_TURN_SUMS = (
    func.count().label("turns"),
    count_when(_turn.state == "replaced").label("replaced"),
    func.count(_SECONDS).label("timed"),
    sum_seconds(_SECONDS).label("seconds"),
)
_CALL_SUMS: Mapping[str, ColumnElement[Any]] = {
    "calls": count_when(~IS_TYPED_READ),
    "counted": func.count(case((~IS_TYPED_READ, _call.completion_tokens))),
    "partial": count_when(and_(~IS_TYPED_READ, IS_PARTLY_COUNTED)),
    "canvases": sum_known(CANVAS_COST),
    "thought_tokens": sum_known(_call.reasoning_tokens),
    "unknown_thoughts": count_when(and_(~IS_TYPED_READ, _call.reasoning_tokens.is_(None))),
    "reads": count_when(IS_TYPED_READ),
    "read_seconds": sum_seconds(case((IS_TYPED_READ, _call.ended_at - _call.created_at))),
}
_NO_CALLS = dict.fromkeys(_CALL_SUMS, 0) | {"read_seconds": 0.0}


@dataclass(frozen=True, slots=True)
class ThinkingSums:
    """Turns that thought, or that did not.

    `endings`: turns by ending (None: they have not ended). `replaced`: those that were asked again by /retry.
    `seconds`: from messages received to answers delivered, over the `timed` turns.
    `calls`: of model calls that cost canvases, the output of `counted` is known, of `partial` ones only from
    before their end; `canvases` is estimated over those. `thought_tokens` are without `unknown_thoughts`
    calls. `reads`: how often the endpoint was asked whether to think, and the seconds that took.
    """

    thinking: bool
    turns: int
    endings: Mapping[str | None, int]
    replaced: int
    timed: int
    seconds: float
    calls: int
    counted: int
    partial: int
    canvases: int
    thought_tokens: int
    unknown_thoughts: int
    reads: int
    read_seconds: float


async def sum_by_thinking(tx: Transaction, scope: Scope) -> list[ThinkingSums]:
    """The turns of the scope that thought, then those that did not; neither is listed if it has no turn."""
    conditions = build_calling_turn_filter(scope)
    turns_with_accounts = turns.outerjoin(accounts, accounts.c.turn == _turn.id)
    turn_query = select(_turn.thinking, _turn.ending, *_TURN_SUMS).select_from(turns_with_accounts)
    turn_query = turn_query.where(*conditions).group_by(_turn.thinking, _turn.ending)
    turn_rows = (await tx.execute(turn_query)).all()
    turns_with_calls = turns.join(model_calls, _call.turn == _turn.id)
    call_query = select(_turn.thinking, *_CALL_SUMS.values()).select_from(turns_with_calls)
    call_rows = await tx.execute(call_query.where(*conditions).group_by(_turn.thinking))
    calls_by_thinking = {row[0]: dict(zip(_CALL_SUMS, row[1:], strict=True)) for row in call_rows}
    all_sums = []
    for thinking in (True, False):
        rows = [row for row in turn_rows if row.thinking == thinking]  # one for each ending
        if rows:
            sums = ThinkingSums(
                thinking=thinking,
                turns=sum(row.turns for row in rows),
                endings={row.ending: row.turns for row in rows},
                replaced=sum(row.replaced for row in rows),
                timed=sum(row.timed for row in rows),
                seconds=sum(row.seconds for row in rows),
                **calls_by_thinking.get(thinking, _NO_CALLS),
            )
            all_sums.append(sums)
    return all_sums
