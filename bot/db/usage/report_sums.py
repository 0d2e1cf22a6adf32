"""Sums over the ledger for reports: model calls and turns with their accounts, in total or by group.

Only reads. scope_filters says which rows belong to a scope.
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
    literal_column,
    or_,
    select,
    text,
)

from bot.db.tables import (
    ODD_CALL_SQL,
    accounts,
    durations,
    model_calls,
    turns,
)
from bot.db.transaction import Transaction
from bot.db.usage.call_filters import IS_PARTLY_COUNTED, UNKNOWN_REASON, build_unknown_filter
from bot.db.usage.ledger_columns import (
    ANSWERED_ENDINGS,
    CANVASES,
    IS_FAILED_TURN,
    IS_TYPED_READ,
    count_when,
    join_person_and_model,
    sum_known,
    sum_when,
)
from bot.db.usage.local_days import build_time_column
from bot.db.usage.scope_filters import (
    build_call_filter,
    build_calling_turn_filter,
    build_turn_filter,
    build_turnless_call_filter,
)
from bot.db.usage.usage_sums import (
    DAY_SECONDS,
    BreakdownColumn,
    CallSums,
    GroupBy,
    GroupKey,
    RetrySums,
    Scope,
    TurnSums,
    UnknownUsage,
)

_call = model_calls.c
_turn = turns.c
_account = accounts.c
_BREAKDOWN_COLUMNS = tuple(accounts.c[name] for name in get_args(BreakdownColumn))
_SEAT_SECONDS = _call.ended_at - _call.seat_at

# Only what must be is summed over every call: over a million calls, ten columns cost a second. What is true
# of few calls (unknown, cut, failed) is counted over the odd ones alone, which have an index of their own.
_PLAIN_SUMS: tuple[ColumnElement[Any], ...] = (
    func.count(),
    sum_known(_call.prompt_tokens),
    sum_known(_call.cached_tokens),
    sum_known(_call.completion_tokens),
    sum_known(_call.reasoning_tokens),
    sum_known(CANVASES),
    sum_known(cast(_call.thinking, Integer)),
    sum_known(cast(_call.thinking, Integer) * CANVASES),
    sum_known(_SEAT_SECONDS),
    sum_known(_call.seat_at - _call.created_at),
)
# It did not end by itself with a known count, so its seconds are not those of its counted canvases.
_IS_UNTIMED = or_(
    IS_TYPED_READ,
    _call.completion_tokens.is_(None),
    _call.usage_partial,
    func.coalesce(_call.outcome, "") != "ok",
)
_ODD_SUMS: tuple[ColumnElement[Any], ...] = (
    count_when(_call.prompt_tokens.is_(None)),
    count_when(_call.cached_tokens.is_(None)),
    sum_when(_call.cached_tokens.is_(None), _call.prompt_tokens),
    count_when(_call.completion_tokens.is_(None)),
    count_when(IS_PARTLY_COUNTED),
    count_when(_call.reasoning_tokens.is_(None)),
    sum_when(_call.reasoning_tokens.is_(None), _call.completion_tokens),
    count_when(IS_TYPED_READ),
    count_when(and_(IS_TYPED_READ, _call.completion_tokens.is_not(None))),
    sum_when(IS_TYPED_READ, CANVASES),
    count_when(and_(IS_TYPED_READ, _call.thinking)),
    sum_when(and_(IS_TYPED_READ, _call.thinking), CANVASES),
    count_when(or_(_call.outcome == "cut", _call.finish_reason == "length")),
    count_when(_call.outcome == "cancelled"),
    count_when(_call.outcome == "failed"),
    count_when(_IS_UNTIMED),
    sum_when(_IS_UNTIMED, CANVASES),
    sum_when(_IS_UNTIMED, _SEAT_SECONDS),
)
_NO_ODD_SUMS = (0,) * len(_ODD_SUMS)
_NO_THINKING_CALLS = (0, 0, 0, 0)
_SCATTER_RANGE = 2**32
TURN_GROUPS = frozenset({"day", "hour", "chat", "user", "thinking"})
# As expressions, or SQLite walks the index of all turns by person or lane to find those of one day.
_TURN_GROUP_COLUMNS: dict[str, ColumnElement[Any]] = {
    "chat": _turn.lane.concat(literal_column("''")),
    "user": _turn.person + literal_column("0"),
    "thinking": _turn.thinking,
}
_CALL_GROUP_COLUMNS = {
    "model": _call.model,
    "purpose": _call.purpose,
    "user-model": join_person_and_model(_turn.person, _call.model),
}


async def sum_calls(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[CallSums]:
    """Model calls by group; by `chat` or `user`, those without a turn are a group of their own (key None)."""
    plain_rows = await sum_calls_by_group(tx, scope, group, _PLAIN_SUMS)
    odd_rows = await sum_calls_by_group(tx, scope, group, _ODD_SUMS, [text(ODD_CALL_SQL)])
    odd_by_key = {key: sums for key, *sums in odd_rows}
    return [
        _to_call_sums(key, [calls, *sums], odd_by_key.get(key, _NO_ODD_SUMS))
        for key, calls, *sums in plain_rows
        if calls
    ]


def _to_call_sums(key: GroupKey, plain: Sequence[Any], odd: Sequence[Any]) -> CallSums:
    calls, inputs, cached, outputs, reasoning, canvases, thinking, thinking_canvases, busy, waited = plain
    (
        no_input,
        no_cached,
        input_without_cached,
        no_output,
        partial,
        no_reasoning,
        output_without_reasoning,
        decisions,
        counted_decisions,
        decision_canvases,
        thinking_decisions,
        thinking_decision_canvases,
        cut,
        cancelled,
        failed,
        untimed,
        untimed_canvases,
        untimed_seconds,
    ) = odd
    return CallSums(
        key=key,
        calls=calls,
        input=inputs,
        input_known=calls - no_input,
        cached=cached,
        cached_known=calls - no_cached,
        cached_of=inputs - input_without_cached,
        output=outputs,
        output_known=calls - no_output,
        partial=partial,
        reasoning=reasoning,
        reasoning_known=calls - no_reasoning,
        reasoning_of=outputs - output_without_reasoning,
        canvases=canvases - decision_canvases,
        canvases_known=calls - no_output - counted_decisions,
        costing=calls - decisions,
        thinking=thinking - thinking_decisions,
        thinking_canvases=thinking_canvases - thinking_decision_canvases,
        busy=float(busy),
        waited=float(waited),
        timed=calls - untimed,
        timed_canvases=canvases - untimed_canvases,
        timed_seconds=float(busy - untimed_seconds),
        cut=cut,
        cancelled=cancelled,
        failed=failed,
    )


async def sum_unknown_usage(tx: Transaction, scope: Scope) -> list[UnknownUsage]:
    """Calls whose usage is not wholly known, by the reason, the most frequent first."""
    counts = (_call.prompt_tokens, _call.cached_tokens, _call.completion_tokens, _call.reasoning_tokens)
    sums: tuple[ColumnElement[Any], ...] = (
        UNKNOWN_REASON,
        func.count(),
        *(count_when(count.is_(None)) for count in counts),
        count_when(IS_PARTLY_COUNTED),
    )
    conditions = build_unknown_filter("any")
    rows = await sum_calls_by_group(tx, scope, None, sums, conditions, UNKNOWN_REASON)
    return sorted((UnknownUsage(*row[1:]) for row in rows), key=lambda usage: -usage.calls)


async def sum_retries(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[RetrySums]:
    """Calls that repeat another one, by group and reason."""
    sums = (_call.again, func.count())
    rows = await sum_calls_by_group(tx, scope, group, sums, [_call.again.is_not(None)], _call.again)
    return [RetrySums(*row) for row in rows]


async def sum_calls_by_group(
    tx: Transaction,
    scope: Scope,
    group: GroupBy | None,
    sums: Sequence[ColumnElement[Any]],
    extra_conditions: Sequence[Any] = (),
    subgroup_column: ColumnElement[Any] | None = None,
) -> list[tuple[Any, ...]]:
    """Rows of (key, *sums) over calls of turns and calls without a turn.

    If neither the scope nor the group depends on turns, one query without a join reads both. With a
    `subgroup_column`, which must be the first of `sums`, it is a part of the key.
    """
    call_key: ColumnElement[Any] = _CALL_GROUP_COLUMNS.get(group or "", literal(None))
    if scope.is_everything and group not in {*TURN_GROUPS, "user-model"}:
        query = select(call_key, *sums).select_from(model_calls).where(*extra_conditions)
        return await _load_rows(tx, query, group, subgroup_column)
    turn_key = get_turn_group_column(scope, group, call_key)
    query = select(turn_key, *sums).select_from(turns.join(model_calls, _call.turn == _turn.id))
    query = query.where(*build_turn_filter(scope), *extra_conditions)
    query = query.where(*build_call_filter(scope))
    rows = await _load_rows(tx, query, group, subgroup_column)
    if scope.is_turns_only:
        return rows
    if group == "day" or group == "hour":
        call_key = build_time_column(_call.created_at, scope, group)
    elif group == "user-model":
        call_key = literal(None)
    query = select(call_key, *sums).select_from(model_calls)
    query = query.where(_call.turn.is_(None), *build_turnless_call_filter(scope), *extra_conditions)
    rows_without_turn = await _load_rows(tx, query, group, subgroup_column)
    key_count = 1 if subgroup_column is None else 2
    return _merge_sums(rows, rows_without_turn, key_count)


def _merge_sums(
    rows: list[tuple[Any, ...]], other_rows: list[tuple[Any, ...]], key_count: int
) -> list[tuple[Any, ...]]:
    """The rows of both lists; rows that share their first `key_count` columns are added up."""
    sums_by_key = {row[:key_count]: row[key_count:] for row in rows}
    for row in other_rows:
        key = row[:key_count]
        sums = row[key_count:]
        if key in sums_by_key:
            sums = tuple(a + b for a, b in zip(sums_by_key[key], sums, strict=True))
        sums_by_key[key] = sums
    return [key + sums for key, sums in sums_by_key.items()]


async def _load_rows(
    tx: Transaction, query: Select[Any], group: GroupBy | None, subgroup_column: ColumnElement[Any] | None
) -> list[tuple[Any, ...]]:
    """Run a query grouped by its first column, if there is a group, and by the subgroup column."""
    if group is not None:
        query = query.group_by(query.selected_columns[0])
    if subgroup_column is not None:
        query = query.group_by(subgroup_column)
    return [tuple(row) for row in await tx.execute(query)]


async def count_turns(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[TurnSums]:
    """Turns, those that failed and those with an account, by group as `sum_turns`.

    All other sums, which take many times as long, are left 0.
    """
    key = get_turn_group_column(scope, group, literal(None))
    query = select(key, func.count(), count_when(IS_FAILED_TURN), func.count(_account.turn))
    query = query.select_from(turns.outerjoin(accounts, _account.turn == _turn.id))
    query = query.where(*build_calling_turn_filter(scope))
    rows = await _load_rows(tx, query, group if group in TURN_GROUPS else None, None)
    return [build_turn_counts(*row) for row in rows if row[1]]


def build_turn_counts(key: GroupKey, count: int, failed: int, settled: int) -> TurnSums:
    """The sums of turns of which no more is known."""
    nothing: dict[str, Any] = {field.name: 0 for field in fields(TurnSums)}
    nothing["seconds"] = (0.0,) * len(_BREAKDOWN_COLUMNS)
    return TurnSums(**nothing | {"key": key, "turns": count, "failed": failed, "settled": settled})


async def sum_turns(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[TurnSums]:
    """Turns by group; by what is only a call's, such as `model`, there is one group (key None)."""
    key = get_turn_group_column(scope, group, literal(None))
    settled = case((_account.turn.is_not(None), 1))
    columns = (  # in the order of the fields of TurnSums, its `seconds` last, without those of calls
        key,
        func.count(),
        func.count(case((_turn.thinking, 1))),
        func.count(case((_turn.ending == "empty", 1))),
        func.count(case((_turn.ending == "cut", 1))),
        count_when(_turn.ending.in_(ANSWERED_ENDINGS)),
        count_when(IS_FAILED_TURN),
        func.count(_account.turn),
        func.count(case((_turn.thinking, settled))),
        func.coalesce(func.sum(case((_turn.thinking, _account.whole))), 0.0),
        *(func.coalesce(func.sum(column), 0.0) for column in _BREAKDOWN_COLUMNS),
    )
    query = (
        select(*columns)
        .select_from(turns.outerjoin(accounts, _account.turn == _turn.id))
        .where(*build_calling_turn_filter(scope))
    )
    turn_group = group if group in TURN_GROUPS else None
    rows = await _load_rows(tx, query, turn_group, None)
    call_rows = await _load_rows(tx, _select_thinking_calls(scope, key), turn_group, None)
    calls_by_key = {call_key: sums for call_key, *sums in call_rows}
    return [_to_turn_sums(row, calls_by_key.get(row[0], _NO_THINKING_CALLS)) for row in rows if row[1]]


def _select_thinking_calls(scope: Scope, key: ColumnElement[Any]) -> Select[Any]:
    """All calls of thinking turns, also those without thinking: turns are what people compare."""
    sums = (
        func.count(),
        func.count(_call.completion_tokens),
        count_when(IS_PARTLY_COUNTED),
        sum_known(CANVASES),
    )
    calls = select(key, *sums).select_from(turns.join(model_calls, _call.turn == _turn.id))
    return calls.where(_turn.thinking, ~IS_TYPED_READ, *build_calling_turn_filter(scope))


def _to_turn_sums(row: tuple[Any, ...], thinking_calls: Sequence[int]) -> TurnSums:
    names = [field.name for field in fields(TurnSums)][:-1]
    counts = (*row[: -len(_BREAKDOWN_COLUMNS)], *thinking_calls)
    return TurnSums(**dict(zip(names, counts, strict=True)), seconds=row[-len(_BREAKDOWN_COLUMNS) :])


def get_turn_group_column(
    scope: Scope, group: GroupBy | Literal["tool"] | None, other_column: ColumnElement[Any]
) -> ColumnElement[Any]:
    """What turns are grouped by; `other_column` where that is nothing of a turn."""
    if group == "day" or group == "hour":
        return build_time_column(_turn.received_at, scope, group)
    return _TURN_GROUP_COLUMNS.get(group or "", other_column)


async def list_breakdown_seconds(
    tx: Transaction,
    scope: Scope,
    group: GroupBy | None,
    intervals: Sequence[BreakdownColumn],
    *,
    share: float = 1.0,
) -> list[tuple[Any, ...]]:
    """One row for each account: (key, then the seconds of these intervals).

    `share` below 1: for about this share of the turns, and always for the same ones.
    """
    key = get_turn_group_column(scope, group, literal(None))
    query = (
        select(key, *(_account[interval] for interval in intervals))
        .select_from(turns.join(accounts, _account.turn == _turn.id))
        .where(*build_calling_turn_filter(scope))
    )
    if share < 1:
        # Scatters neighbours, so that no rhythm of the turns is that of the sample.
        scattered_id = _turn.id * literal_column("2654435761") % literal_column(str(_SCATTER_RANGE))
        query = query.where(scattered_id < int(share * _SCATTER_RANGE))
    return list(await tx.execute(query))


async def count_durations(
    tx: Transaction, scope: Scope, intervals: Sequence[BreakdownColumn], *, daily: bool
) -> list[tuple[int | None, str, int, int]]:
    """Durations in the whole days of the scope: (day, kind, bucket, count); not `daily`: summed, day None."""
    day: ColumnElement[Any] = durations.c.day if daily else literal(None)
    query = select(day, durations.c.kind, durations.c.bucket, func.sum(durations.c.count))
    query = query.where(durations.c.kind.in_(intervals)).group_by(durations.c.kind, durations.c.bucket)
    if daily:
        query = query.group_by(durations.c.day)
    if scope.since is not None:
        query = query.where(durations.c.day >= int(scope.since // DAY_SECONDS))
    if scope.until is not None:
        query = query.where(durations.c.day < int(scope.until // DAY_SECONDS))
    return [(row[0], row[1], row[2], row[3]) for row in await tx.execute(query)]
