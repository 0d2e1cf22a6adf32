"""The turns and the model calls that took most of something, one by one, the most first. Reads only.

What is not known of a call is None, and ranks last.
"""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, Subquery, and_, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import accounts, model_calls, tool_calls, turns
from bot.db.usage.scope_filters import build_turn_filter, build_turnless_call_filter
from bot.db.usage.usage_sums import Scope
from bot.domain import CANVAS_TOKENS, CallOutcome

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


_CANVASES = case((_m.purpose != "decision", (_m.completion_tokens + (CANVAS_TOKENS - 1)) // CANVAS_TOKENS))
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


async def rank_calls(tx: AsyncConnection, scope: Scope, sort: Sort, top: int) -> list[RankedCall]:
    """The `top` model calls by `sort`, of turns and of none."""
    by = _CALL_SORTS[sort]
    if scope.is_everything:
        chosen = [select(_m.id, by.label("rank"))]
    else:
        of_some = [] if scope.model is None else [_m.model == scope.model]
        joined = select(_m.id, by.label("rank")).select_from(turns.join(model_calls, _m.turn == _t.id))
        alone = select(_m.id, by.label("rank")).where(_m.turn.is_(None), *build_turnless_call_filter(scope))
        chosen = [joined.where(*build_turn_filter(scope), *of_some), alone]
    found: list[tuple[int, Any]] = []
    for query in chosen:
        found += [(row.id, row.rank) for row in await tx.execute(_take_top(query, by, _m.id, top))]
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


async def rank_turns(tx: AsyncConnection, scope: Scope, sort: Sort, top: int) -> list[RankedTurn]:
    """The `top` turns by `sort`."""
    spent = _build_call_sums(scope)
    by = _build_turn_sort(sort, spent)
    chosen = (
        select(_t.id).select_from(_join_calls(spent, with_accounts=True)).where(*build_turn_filter(scope))
    )
    if scope.model is not None:
        chosen = chosen.where(spent.c.turn.is_not(None))
    ids = list((await tx.execute(_take_top(chosen, by, _t.id, top))).scalars())
    order = {turn: place for place, turn in enumerate(ids)}
    rows = [RankedTurn(*row) for row in [tuple(one) for one in await tx.execute(_select_turns(ids))]]
    return sorted(rows, key=lambda one: order[one.turn])


def _take_top(
    query: Select[Any], sort_column: ColumnElement[Any], tie_breaker: ColumnElement[Any], top: int
) -> Select[Any]:
    return query.order_by(sort_column.desc().nulls_last(), tie_breaker.desc()).limit(top)


def _build_call_sums(scope: Scope) -> Subquery:
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


def _join_calls(call_sums: Subquery, *, with_accounts: bool) -> Any:
    joined = turns.outerjoin(call_sums, call_sums.c.turn == _t.id)
    if with_accounts:
        return joined.outerjoin(accounts, _a.turn == _t.id)
    return joined


def _build_turn_sort(sort: Sort, call_sums: Subquery) -> ColumnElement[Any]:
    match sort:
        case "tokens":
            return func.coalesce(call_sums.c.input, 0) + func.coalesce(call_sums.c.output, 0)
        case "seconds":
            return _a.whole
        case "waited":
            return _a.lane_wait + _a.seat_wait
        case "when":
            return _t.received_at
    column: ColumnElement[Any] = call_sums.c[sort]
    return column


def _select_turns(ids: list[int]) -> Select[Any]:
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
