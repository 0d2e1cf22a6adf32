"""Sums over the ledger for reports: model calls, turns with their accounts, tool calls; of all or a group at
a time.

Reads only; which rows a scope is about, scopes.py says.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, get_args

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import (
    ODD_CALL_SQL,
    accounts,
    approvals,
    durations,
    model_calls,
    readings,
    tool_calls,
    turns,
)
from bot.db.usage.scope_filters import (
    build_time_filter,
    build_turn_and_model_filter,
    build_turn_filter,
    build_turnless_call_filter,
)
from bot.db.usage.usage_sums import (
    DAY_SECONDS,
    ApprovalSums,
    BreakdownColumn,
    CallSums,
    GroupBy,
    GroupKey,
    RetrySums,
    Scope,
    ServerSums,
    ToolSums,
    TurnSums,
)
from bot.domain import CANVAS_TOKENS

_m = model_calls.c
_t = turns.c
_a = accounts.c
_c = tool_calls.c
_q = approvals.c
_BREAKDOWN_COLUMNS = tuple(accounts.c[name] for name in get_args(BreakdownColumn))
_CANVASES = (_m.completion_tokens + (CANVAS_TOKENS - 1)) // CANVAS_TOKENS


def _sum(column: ColumnElement[Any], when: ColumnElement[bool] | None = None) -> ColumnElement[Any]:
    return func.coalesce(func.sum(column if when is None else case((when, column))), 0)


def _count_when(when: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.count(case((when, 1)))


# Over every call only what must be summed; what is told of few (unknown, cut, failed) is counted over the odd
# ones, which have an index of their own: a sum over a million calls costs a second for every ten columns.
_PLAIN_SUMS: tuple[ColumnElement[Any], ...] = (
    func.count(),
    _sum(_m.prompt_tokens),
    _sum(_m.cached_tokens),
    _sum(_m.completion_tokens),
    _sum(_m.reasoning_tokens),
    _sum(_CANVASES),
    _sum(cast(_m.thinking, Integer)),
    _sum(cast(_m.thinking, Integer) * _CANVASES),
    _sum(_m.ended_at - _m.seat_at),
    _sum(_m.seat_at - _m.created_at),
)
_IS_DECISION = _m.purpose == "decision"  # a reading is one step, and costs no canvas
_ODD_SUMS: tuple[ColumnElement[Any], ...] = (
    _count_when(_m.prompt_tokens.is_(None)),
    _count_when(_m.cached_tokens.is_(None)),
    _sum(_m.prompt_tokens, _m.cached_tokens.is_(None)),
    _count_when(_m.completion_tokens.is_(None)),
    _count_when(_m.usage_partial),
    _count_when(_m.reasoning_tokens.is_(None)),
    _sum(_m.completion_tokens, _m.reasoning_tokens.is_(None)),
    _count_when(_IS_DECISION),
    _count_when(and_(_IS_DECISION, _m.completion_tokens.is_not(None))),
    _sum(_CANVASES, _IS_DECISION),
    _count_when(and_(_IS_DECISION, _m.thinking)),
    _sum(_CANVASES, and_(_IS_DECISION, _m.thinking)),
    _count_when(or_(_m.outcome == "cut", _m.finish_reason == "length")),
    _count_when(_m.outcome == "cancelled"),
    _count_when(_m.outcome == "failed"),
)
_NO_ODD_SUMS = (0,) * len(_ODD_SUMS)
_TURN_GROUP_COLUMNS = {"day": cast(_t.received_at / DAY_SECONDS, Integer), "chat": _t.lane, "user": _t.person}
_CALL_GROUP_COLUMNS = {"model": _m.model, "purpose": _m.purpose}


async def sum_calls(tx: AsyncConnection, scope: Scope, group: GroupBy | None) -> list[CallSums]:
    """Model calls a group; calls without a turn are groups of their own under `chat` and `user` (key None)."""
    plain = {row[0]: row[1:] for row in await _sum_calls_by_group(tx, scope, group, _PLAIN_SUMS)}
    odd = {
        row[0]: row[1:] for row in await _sum_calls_by_group(tx, scope, group, _ODD_SUMS, text(ODD_CALL_SQL))
    }
    return [_to_call_sums(key, row, odd.get(key, _NO_ODD_SUMS)) for key, row in plain.items() if row[0]]


def _to_call_sums(key: GroupKey, plain: tuple[Any, ...], odd: tuple[Any, ...]) -> CallSums:
    calls, inputs, cached, outputs, reasoning, canvases, thinking, thinking_canvases, busy, waited = plain
    no_input, no_cached, input_of_those, no_output, partial, no_reasoning, output_of_those, *more = odd
    decisions, decisions_known, their_canvases, thought, their_thinking_canvases, cut, cancelled, failed = (
        more
    )
    return CallSums(
        key=key,
        calls=calls,
        input=inputs,
        input_known=calls - no_input,
        cached=cached,
        cached_known=calls - no_cached,
        cached_of=inputs - input_of_those,
        output=outputs,
        output_known=calls - no_output,
        partial=partial,
        reasoning=reasoning,
        reasoning_known=calls - no_reasoning,
        reasoning_of=outputs - output_of_those,
        canvases=canvases - their_canvases,
        canvases_known=calls - no_output - decisions_known,
        costing=calls - decisions,
        thinking=thinking - thought,
        thinking_canvases=thinking_canvases - their_thinking_canvases,
        busy=float(busy),
        waited=float(waited),
        cut=cut,
        cancelled=cancelled,
        failed=failed,
    )


async def sum_retries(tx: AsyncConnection, scope: Scope, group: GroupBy | None) -> list[RetrySums]:
    """Calls that would not have been needed, by group and reason."""
    rows = await _sum_calls_by_group(
        tx, scope, group, (_m.again, func.count()), _m.again.is_not(None), _m.again
    )
    return [RetrySums(*row) for row in rows]


async def _sum_calls_by_group(
    tx: AsyncConnection,
    scope: Scope,
    group: GroupBy | None,
    sums: Sequence[ColumnElement[Any]],
    extra_condition: Any = None,
    subgroup_column: ColumnElement[Any] | None = None,
) -> list[tuple[Any, ...]]:
    """Rows of (key, *sums): from calls of turns and calls of none, at once where nothing depends on the turn."""
    more = [] if extra_condition is None else [extra_condition]
    if scope.is_everything and group not in _TURN_GROUP_COLUMNS:
        return await _load_rows(
            tx,
            select(_get_call_group_column(group), *sums).select_from(model_calls).where(*more),
            group,
            subgroup_column,
        )
    joined = turns.join(model_calls, _m.turn == _t.id)
    where = [*build_turn_filter(scope), *more, *([] if scope.model is None else [_m.model == scope.model])]
    query = (
        select(_TURN_GROUP_COLUMNS.get(group or "", _get_call_group_column(group)), *sums)
        .select_from(joined)
        .where(*where)
    )
    found = await _load_rows(tx, query, group, subgroup_column)
    if scope.is_turns_only:
        return found
    made = cast(_m.created_at / DAY_SECONDS, Integer) if group == "day" else _get_call_group_column(group)
    alone = (
        select(made, *sums)
        .select_from(model_calls)
        .where(_m.turn.is_(None), *build_turnless_call_filter(scope), *more)
    )
    return _merge_sums(
        found, await _load_rows(tx, alone, group, subgroup_column), 1 if subgroup_column is None else 2
    )


def _merge_sums(
    rows: list[tuple[Any, ...]], other_rows: list[tuple[Any, ...]], key_count: int
) -> list[tuple[Any, ...]]:
    """The rows of both, those of the same first `keys` columns added up."""
    sums = {row[:key_count]: row[key_count:] for row in rows}
    for row in other_rows:
        before = sums.get(row[:key_count])
        if before is None:
            added = row[key_count:]
        else:
            added = tuple(a + b for a, b in zip(before, row[key_count:], strict=True))
        sums[row[:key_count]] = added
    return [key + row for key, row in sums.items()]


def _get_call_group_column(group: GroupBy | None) -> ColumnElement[Any]:
    return _CALL_GROUP_COLUMNS.get(group or "", literal(None))


async def _load_rows(
    tx: AsyncConnection, query: Select[Any], group: GroupBy | None, subgroup_column: ColumnElement[Any] | None
) -> list[tuple[Any, ...]]:
    keys: list[Any] = [] if group is None else [query.selected_columns[0]]
    keys += [] if subgroup_column is None else [subgroup_column]
    return [tuple(row) for row in await tx.execute(query.group_by(*keys) if keys else query)]


async def sum_turns(tx: AsyncConnection, scope: Scope, group: GroupBy | None) -> list[TurnSums]:
    """Turns a group; only a `day`, a `chat` and a `user` group turns, else there is one group (key None)."""
    key = _TURN_GROUP_COLUMNS.get(group or "", literal(None))
    settled = case((_a.turn.is_not(None), 1))
    columns = (
        key,
        func.count(),
        func.count(case((_t.thinking, 1))),
        func.count(case((_t.ending == "empty", 1))),
        func.count(case((_t.ending == "cut", 1))),
        func.count(_a.turn),
        func.count(case((_t.thinking, settled))),
        func.coalesce(func.sum(case((_t.thinking, _a.whole))), 0.0),
        *(func.coalesce(func.sum(column), 0.0) for column in _BREAKDOWN_COLUMNS),
    )
    query = (
        select(*columns)
        .select_from(turns.outerjoin(accounts, _a.turn == _t.id))
        .where(*build_turn_and_model_filter(scope))
    )
    rows = await _load_rows(tx, query, group if group in _TURN_GROUP_COLUMNS else None, None)
    return [_to_turn_sums(row) for row in rows if row[1]]


def _to_turn_sums(row: tuple[Any, ...]) -> TurnSums:
    names = [one.name for one in fields(TurnSums)][:-1]
    return TurnSums(**dict(zip(names, row, strict=False)), seconds=row[len(names) :])


async def sum_tool_calls(
    tx: AsyncConnection, scope: Scope, group: GroupBy | Literal["tool"] | None
) -> list[ToolSums]:
    """Tool calls a group and outcome; by `model` and `purpose` there is one group (key None)."""
    key = _c.name if group == "tool" else _TURN_GROUP_COLUMNS.get(group or "", literal(None))
    took = _c.ended_at - _c.began_at
    columns = (key, _c.outcome, func.count(), func.count(took), func.coalesce(func.sum(took), 0.0))
    query = select(*columns).group_by(
        *([key] if group == "tool" or group in _TURN_GROUP_COLUMNS else []), _c.outcome
    )
    if scope.is_everything and group not in _TURN_GROUP_COLUMNS:
        query = query.select_from(tool_calls)
    else:
        query = query.select_from(turns.join(tool_calls, _c.turn == _t.id)).where(
            *build_turn_and_model_filter(scope)
        )
    return [ToolSums(row[0], row[1], row[2], row[3], row[4]) for row in await tx.execute(query)]


async def sum_approvals(
    tx: AsyncConnection, scope: Scope, group: GroupBy | Literal["tool"] | None
) -> list[ApprovalSums]:
    """Tool calls that a person was asked about, a group and answer; by `model` and `purpose` there is one
    group.
    """
    key = _q.tool if group == "tool" else _TURN_GROUP_COLUMNS.get(group or "", literal(None))
    waited = func.coalesce(func.sum(_q.answered_at - _q.asked_at), 0.0)
    query = select(key, _q.answer, func.count(), waited).select_from(approvals.join(turns, _q.turn == _t.id))
    grouped = query.where(*build_turn_and_model_filter(scope)).group_by(
        *([key] if group == "tool" or group in _TURN_GROUP_COLUMNS else []), _q.answer
    )
    return [ApprovalSums(row[0], row[1], row[2], row[3]) for row in await tx.execute(grouped)]


async def list_breakdown_seconds(
    tx: AsyncConnection, scope: Scope, group: GroupBy | None
) -> list[tuple[Any, ...]]:
    """(key, then `Seconds` in order), an account a row."""
    key = _TURN_GROUP_COLUMNS.get(group or "", literal(None))
    query = (
        select(key, *_BREAKDOWN_COLUMNS)
        .select_from(turns.join(accounts, _a.turn == _t.id))
        .where(*build_turn_and_model_filter(scope))
    )
    return [tuple(row) for row in await tx.execute(query)]


async def list_tool_seconds(tx: AsyncConnection, scope: Scope) -> list[tuple[str, float]]:
    """Name and seconds, a tool call that ended a row."""
    took = (_c.ended_at - _c.began_at).label("took")
    query = select(_c.name, took).select_from(turns.join(tool_calls, _c.turn == _t.id))
    return [
        (row.name, row.took)
        for row in await tx.execute(query.where(*build_turn_and_model_filter(scope), took.is_not(None)))
    ]


async def count_durations(
    tx: AsyncConnection, scope: Scope, *, daily: bool
) -> list[tuple[int | None, str, int, int]]:
    """(day, or None for all days together; kind; bucket; count), of the whole days in scope."""
    day = durations.c.day if daily else literal(None)
    query = select(day, durations.c.kind, durations.c.bucket, func.sum(durations.c.count))
    if scope.since is None:
        first = []
    else:
        first = [durations.c.day >= int(scope.since // DAY_SECONDS)]
    if scope.until is None:
        last = []
    else:
        last = [durations.c.day < int(scope.until // DAY_SECONDS)]
    keys = [durations.c.kind, durations.c.bucket, *([durations.c.day] if daily else [])]
    return [
        (row[0], row[1], row[2], row[3])
        for row in await tx.execute(query.where(*first, *last).group_by(*keys))
    ]


async def sum_server_counters(tx: AsyncConnection, scope: Scope) -> ServerSums:
    """What was read of the endpoints' counters in this span of time; chats, people and models are not told
    apart.
    """
    told = (
        func.count(),
        func.sum(readings.c.steps_seen),
        func.sum(readings.c.committed_seen),
        func.sum(readings.c.gap),
    )
    compared = select(*told).where(
        readings.c.since.is_not(None), *build_time_filter(readings.c.read_at, scope)
    )
    row = (await tx.execute(compared)).one()
    return ServerSums(row[0], row[1], row[2], row[3])
