"""Rankings: single turns and model calls that took the most of something, the most first. Only reads.

A value that is not known is None, and ranks last.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, Subquery, case, func, select

from bot.db.tables import accounts, model_calls, tool_calls, turns
from bot.db.transaction import Transaction
from bot.db.usage.ledger_columns import CANVAS_COST, IS_COUNTED, count_when
from bot.db.usage.scope_filters import build_call_filter, build_turn_filter, build_turnless_call_filter
from bot.db.usage.turn_steps import CALL_COLUMNS, CallStep
from bot.db.usage.usage_sums import Scope

Sort = Literal["tokens", "input", "cached", "output", "reasoning", "canvases", "seconds", "waited", "when"]
_call = model_calls.c
_turn = turns.c
_account = accounts.c


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedCall(CallStep):
    """A model call with the chat and the user of its turn; None if it belongs to none."""

    chat: str | None
    user: int | None


@dataclass(frozen=True, slots=True)
class RankedTurn:
    """A turn with the sums of its calls.

    `counted` False: the tokens of some call are unknown. `cached_counted` False: its cached tokens are.
    `seconds` is the total of the account, `waited` what it waited for its chat and for seats; None without an
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


_CALL_SORTS: dict[Sort, ColumnElement[Any]] = {
    "tokens": case(
        (_call.prompt_tokens.is_(None), _call.completion_tokens),
        else_=_call.prompt_tokens + func.coalesce(_call.completion_tokens, 0),
    ),
    "input": _call.prompt_tokens,
    "cached": _call.cached_tokens,
    "output": _call.completion_tokens,
    "reasoning": _call.reasoning_tokens,
    "canvases": CANVAS_COST,
    "seconds": _call.ended_at - _call.seat_at,
    "waited": _call.seat_at - _call.created_at,
    "when": _call.created_at,
}
_SELECT_RANKED_CALLS = select(
    *CALL_COLUMNS, _turn.lane.label("chat"), _turn.person.label("user")
).select_from(model_calls.outerjoin(turns, _call.turn == _turn.id))


async def rank_calls(tx: Transaction, scope: Scope, sort: Sort, top: int) -> list[RankedCall]:
    """The `top` model calls by `sort`, of turns and without a turn."""
    sort_column = _CALL_SORTS[sort]
    every_call = select(_call.id, sort_column.label("rank"))
    if scope.is_everything:
        queries = [every_call]
    else:
        # Calls of turns belong to a scope by their turn, others by themselves; both are ranked together.
        of_turns = every_call.select_from(turns.join(model_calls, _call.turn == _turn.id)).where(
            *build_turn_filter(scope), *build_call_filter(scope)
        )
        without_turn = every_call.where(_call.turn.is_(None), *build_turnless_call_filter(scope))
        queries = [of_turns, without_turn]
    ranked: list[tuple[int, Any]] = []
    for query in queries:
        rows = await tx.execute(_take_top(query, sort_column, _call.id, top))
        ranked += [(row.id, row.rank) for row in rows]
    ranked.sort(key=lambda call_and_rank: _rank_key(*call_and_rank))
    places = {call: place for place, (call, _) in enumerate(ranked[:top])}
    selected: Iterable[Any] = await tx.execute(_SELECT_RANKED_CALLS.where(_call.id.in_(places)))
    return sorted((RankedCall(**row._asdict()) for row in selected), key=lambda call: places[call.id])


def _rank_key(call: int, rank: Any) -> tuple[bool, Any, int]:
    """Sorts the highest rank first, unknown ones last, and newer calls before older ones of the same rank."""
    return rank is None, -(rank or 0), -call


async def rank_turns(tx: Transaction, scope: Scope, sort: Sort, top: int) -> list[RankedTurn]:
    """The `top` turns by `sort`."""
    call_sums = _build_call_sums(scope)
    joined = turns.outerjoin(call_sums, call_sums.c.turn == _turn.id).outerjoin(
        accounts, _account.turn == _turn.id
    )
    query = select(_turn.id).select_from(joined).where(*build_turn_filter(scope))
    if build_call_filter(scope):
        query = query.where(call_sums.c.turn.is_not(None))
    top_turns = _take_top(query, _build_turn_sort(sort, call_sums), _turn.id, top)
    return await load_ranked_turns(tx, list((await tx.execute(top_turns)).scalars()))


async def load_ranked_turns(tx: Transaction, ids: Sequence[int]) -> list[RankedTurn]:
    """These turns, in the order in which `ids` names them."""
    places = {turn: place for place, turn in enumerate(ids)}
    selected: Iterable[Any] = await tx.execute(_select_turns(ids))
    return sorted((RankedTurn(*row) for row in selected), key=lambda turn: places[turn.turn])


def _take_top(
    query: Select[Any], sort_column: ColumnElement[Any], tie_breaker: ColumnElement[Any], top: int
) -> Select[Any]:
    return query.order_by(sort_column.desc().nulls_last(), tie_breaker.desc()).limit(top)


def _build_call_sums(scope: Scope) -> Subquery:
    """The sums of each turn's calls; only of those calls to which the scope is restricted."""
    return (
        select(
            _call.turn,
            func.sum(_call.prompt_tokens).label("input"),
            func.sum(_call.cached_tokens).label("cached"),
            func.sum(_call.completion_tokens).label("output"),
            func.sum(_call.reasoning_tokens).label("reasoning"),
            func.sum(CANVAS_COST).label("canvases"),
        )
        .where(_call.turn.is_not(None), *build_call_filter(scope))
        .group_by(_call.turn)
        .subquery("call_sums")
    )


def _build_turn_sort(sort: Sort, call_sums: Subquery) -> ColumnElement[Any]:
    match sort:
        case "tokens":
            return func.coalesce(call_sums.c.input, 0) + func.coalesce(call_sums.c.output, 0)
        case "seconds":
            return _account.whole
        case "waited":
            return _account.lane_wait + _account.seat_wait
        case "when":
            return _turn.received_at
    column: ColumnElement[Any] = call_sums.c[sort]
    return column


def _select_turns(ids: Sequence[int]) -> Select[Any]:
    """These turns with the sums of all their calls; columns in the order of the fields of RankedTurn."""
    call_count = func.count(_call.id)
    tool_count = select(func.count()).where(tool_calls.c.turn == _turn.id).scalar_subquery()
    columns: tuple[ColumnElement[Any], ...] = (
        _turn.id,
        _turn.lane,
        _turn.person,
        _turn.received_at,
        _turn.thinking,
        _turn.ending,
        call_count,
        func.sum(_call.prompt_tokens),
        func.sum(_call.cached_tokens),
        func.sum(_call.completion_tokens),
        func.sum(_call.reasoning_tokens),
        func.sum(CANVAS_COST),
        count_when(IS_COUNTED) == call_count,
        func.count(_call.cached_tokens) == call_count,
        tool_count,
        _account.lane_wait + _account.seat_wait,
        _account.whole,
    )
    joined = turns.outerjoin(model_calls, _call.turn == _turn.id).outerjoin(
        accounts, _account.turn == _turn.id
    )
    return select(*columns).select_from(joined).where(_turn.id.in_(ids)).group_by(_turn.id, _account.turn)
