"""The turns and the model calls that took most of something, one by one, the most first. Reads only.

What is not known of a call is None, and ranks last.
"""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, Subquery, and_, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import accounts, model_calls, tool_calls, turns
from bot.db.usage.scope_filters import of_calls_alone, of_turns
from bot.db.usage.usage_sums import Scope
from bot.domain import CANVAS, CallOutcome

Sort = Literal["tokens", "input", "cached", "output", "reasoning", "canvases", "seconds", "waited", "when"]
_m = model_calls.c
_t = turns.c
_a = accounts.c


@dataclass(frozen=True, slots=True)
class RankedCall:
    """A model call with its place: `turn`, `chat` and `user` are None where it belongs to no turn."""

    call: int
    turn: int | None
    step: int
    chat: str | None
    user: int | None
    created_at: float
    purpose: str
    again: str | None
    model: str
    thinking: bool
    input: int | None
    cached: int | None
    output: int | None
    reasoning: int | None
    canvases: int | None
    partial: bool
    waited: float | None
    seconds: float | None
    outcome: CallOutcome | None


@dataclass(frozen=True, slots=True)
class RankedTurn:
    """A turn with the sums of its calls; `counted` False: some call did not tell all its tokens,
    `cached_counted`: or what was cached of them.

    `seconds` is the whole of its account, `waited` what it waited for its chat and for seats; None without an
    account.
    """

    turn: int
    chat: str
    user: int
    received_at: float
    thinking: bool
    ending: str | None
    calls: int
    input: int | None
    cached: int | None
    output: int | None
    reasoning: int | None
    canvases: int | None
    counted: bool
    cached_counted: bool
    tools: int
    waited: float | None
    seconds: float | None


_CANVASES = case((_m.purpose != "decision", (_m.completion_tokens + (CANVAS - 1)) // CANVAS))
_CALL_SORTS: dict[Sort, ColumnElement[Any]] = {
    "tokens": case(
        (_m.prompt_tokens.is_(None), _m.completion_tokens),
        else_=_m.prompt_tokens + func.coalesce(_m.completion_tokens, 0),
    ),
    "input": _m.prompt_tokens,
    "cached": _m.cached_tokens,
    "output": _m.completion_tokens,
    "reasoning": _m.reasoning_tokens,
    "canvases": _CANVASES,
    "seconds": _m.ended_at - _m.seat_at,
    "waited": _m.seat_at - _m.created_at,
    "when": _m.created_at,
}


async def calls(tx: AsyncConnection, scope: Scope, sort: Sort, top: int) -> list[RankedCall]:
    """The `top` model calls by `sort`, of turns and of none."""
    by = _CALL_SORTS[sort]
    if scope.is_everything:
        chosen = [select(_m.id, by.label("rank"))]
    else:
        of_some = [] if scope.model is None else [_m.model == scope.model]
        joined = select(_m.id, by.label("rank")).select_from(turns.join(model_calls, _m.turn == _t.id))
        alone = select(_m.id, by.label("rank")).where(_m.turn.is_(None), *of_calls_alone(scope))
        chosen = [joined.where(*of_turns(scope), *of_some), alone]
    found: list[tuple[int, Any]] = []
    for query in chosen:
        found += [(row.id, row.rank) for row in await tx.execute(_most(query, by, _m.id, top))]
    found.sort(key=lambda one: (one[1] is None, -(one[1] or 0), -one[0]))
    order = {call: place for place, (call, _) in enumerate(found[:top])}
    columns = (
        *(
            _m.id,
            _m.turn,
            _m.step,
            _t.lane,
            _t.person,
            _m.created_at,
            _m.purpose,
            _m.again,
            _m.model,
            _m.thinking,
        ),
        *(
            _m.prompt_tokens,
            _m.cached_tokens,
            _m.completion_tokens,
            _m.reasoning_tokens,
            _CANVASES,
            _m.usage_partial,
        ),
        *(_m.seat_at - _m.created_at, _m.ended_at - _m.seat_at, _m.outcome),
    )
    query = (
        select(*columns).select_from(model_calls.outerjoin(turns, _m.turn == _t.id)).where(_m.id.in_(order))
    )
    rows = [RankedCall(*row) for row in [tuple(one) for one in await tx.execute(query)]]
    return sorted(rows, key=lambda one: order[one.call])


async def ranked_turns(tx: AsyncConnection, scope: Scope, sort: Sort, top: int) -> list[RankedTurn]:
    """The `top` turns by `sort`."""
    spent = _spent(scope)
    by = _turn_sort(sort, spent)
    chosen = select(_t.id).select_from(_with_calls(spent, accounts_too=True)).where(*of_turns(scope))
    if scope.model is not None:
        chosen = chosen.where(spent.c.turn.is_not(None))
    ids = list((await tx.execute(_most(chosen, by, _t.id, top))).scalars())
    order = {turn: place for place, turn in enumerate(ids)}
    rows = [RankedTurn(*row) for row in [tuple(one) for one in await tx.execute(_shown(ids))]]
    return sorted(rows, key=lambda one: order[one.turn])


def _most(query: Select[Any], by: ColumnElement[Any], then: ColumnElement[Any], top: int) -> Select[Any]:
    return query.order_by(by.desc().nulls_last(), then.desc()).limit(top)


def _spent(scope: Scope) -> Subquery:
    """The sums of a turn's calls."""
    of_some = [] if scope.model is None else [_m.model == scope.model]
    return (
        select(
            _m.turn,
            func.sum(_m.prompt_tokens).label("input"),
            func.sum(_m.cached_tokens).label("cached"),
            func.sum(_m.completion_tokens).label("output"),
            func.sum(_m.reasoning_tokens).label("reasoning"),
            func.sum(_CANVASES).label("canvases"),
        )
        .where(_m.turn.is_not(None), *of_some)
        .group_by(_m.turn)
        .subquery("spent")
    )


def _with_calls(spent: Subquery, *, accounts_too: bool) -> Any:
    joined = turns.outerjoin(spent, spent.c.turn == _t.id)
    if accounts_too:
        return joined.outerjoin(accounts, _a.turn == _t.id)
    return joined


def _turn_sort(sort: Sort, spent: Subquery) -> ColumnElement[Any]:
    match sort:
        case "tokens":
            return func.coalesce(spent.c.input, 0) + func.coalesce(spent.c.output, 0)
        case "seconds":
            return _a.whole
        case "waited":
            return _a.lane_wait + _a.seat_wait
        case "when":
            return _t.received_at
    column: ColumnElement[Any] = spent.c[sort]
    return column


def _shown(ids: list[int]) -> Select[Any]:
    """These turns with the sums of all their calls."""
    told = and_(_m.prompt_tokens.is_not(None), _m.completion_tokens.is_not(None), _m.usage_partial.is_(False))
    ran = select(func.count()).where(tool_calls.c.turn == _t.id).scalar_subquery()
    columns = (
        *(_t.id, _t.lane, _t.person, _t.received_at, _t.thinking, _t.ending, func.count(_m.id)),
        *(func.sum(_m.prompt_tokens), func.sum(_m.cached_tokens), func.sum(_m.completion_tokens)),
        *(
            func.sum(_m.reasoning_tokens),
            func.sum(_CANVASES),
            func.count(case((told, 1))) == func.count(_m.id),
        ),
        func.count(_m.cached_tokens) == func.count(_m.id),
        *(ran, _a.lane_wait + _a.seat_wait, _a.whole),
    )
    joined = turns.outerjoin(model_calls, _m.turn == _t.id).outerjoin(accounts, _a.turn == _t.id)
    return select(*columns).select_from(joined).where(_t.id.in_(ids)).group_by(_t.id)
