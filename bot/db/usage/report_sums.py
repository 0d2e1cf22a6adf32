"""Sums over the ledger for reports: model calls and turns with their accounts, in total or by group.

Only reads. scope_filters says which rows belong to a scope.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    sum_seconds,
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
    BreakdownColumn,
    CallSums,
    GroupBy,
    GroupKey,
    RetrySums,
    Scope,
    TurnCounts,
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
_PLAIN_SUMS: Mapping[str, ColumnElement[Any]] = {
    "calls": func.count(),
    "input": sum_known(_call.prompt_tokens),
    "cached": sum_known(_call.cached_tokens),
    "output": sum_known(_call.completion_tokens),
    "reasoning": sum_known(_call.reasoning_tokens),
    "canvases": sum_known(CANVASES),
    "thinking": sum_known(cast(_call.thinking, Integer)),
    "thinking_canvases": sum_known(cast(_call.thinking, Integer) * CANVASES),
    "busy": sum_known(_SEAT_SECONDS),
    "waited": sum_known(_call.seat_at - _call.created_at),
}
# It did not end by itself with a known count, so its seconds are not those of its counted canvases.
_IS_UNTIMED = or_(
    IS_TYPED_READ,
    _call.completion_tokens.is_(None),
    _call.usage_partial,
    func.coalesce(_call.outcome, "") != "ok",
)
_ODD_SUMS: Mapping[str, ColumnElement[Any]] = {
    "without_input": count_when(_call.prompt_tokens.is_(None)),
    "without_cached": count_when(_call.cached_tokens.is_(None)),
    "input_without_cached": sum_when(_call.cached_tokens.is_(None), _call.prompt_tokens),
    "without_output": count_when(_call.completion_tokens.is_(None)),
    "partial": count_when(IS_PARTLY_COUNTED),
    "without_reasoning": count_when(_call.reasoning_tokens.is_(None)),
    "output_without_reasoning": sum_when(_call.reasoning_tokens.is_(None), _call.completion_tokens),
    "reads": count_when(IS_TYPED_READ),
    "reads_with_output": count_when(and_(IS_TYPED_READ, _call.completion_tokens.is_not(None))),
    "read_canvases": sum_when(IS_TYPED_READ, CANVASES),
    "thinking_reads": count_when(and_(IS_TYPED_READ, _call.thinking)),
    "thinking_read_canvases": sum_when(and_(IS_TYPED_READ, _call.thinking), CANVASES),
    "cut": count_when(or_(_call.outcome == "cut", _call.finish_reason == "length")),
    "cancelled": count_when(_call.outcome == "cancelled"),
    "failed": count_when(_call.outcome == "failed"),
    "untimed": count_when(_IS_UNTIMED),
    "untimed_canvases": sum_when(_IS_UNTIMED, CANVASES),
    "untimed_seconds": sum_when(_IS_UNTIMED, _SEAT_SECONDS),
}
_NO_ODD_SUMS = dict.fromkeys(_ODD_SUMS, 0)
_TURN_COUNTS: Mapping[str, ColumnElement[Any]] = {
    "turns": func.count(),
    "failed": count_when(IS_FAILED_TURN),
    "settled": func.count(_account.turn),
}
_TURN_SUMS: Mapping[str, ColumnElement[Any]] = {
    **_TURN_COUNTS,
    "thinking": count_when(_turn.thinking),
    "empty": count_when(_turn.ending == "empty"),
    "cut": count_when(_turn.ending == "cut"),
    "answered": count_when(_turn.ending.in_(ANSWERED_ENDINGS)),
    "thinking_settled": count_when(and_(_turn.thinking, _account.turn.is_not(None))),
    "thinking_seconds": sum_seconds(case((_turn.thinking, _account.whole))),
}
_THINKING_CALL_SUMS: Mapping[str, ColumnElement[Any]] = {
    "thinking_calls": func.count(),
    "thinking_calls_known": func.count(_call.completion_tokens),
    "thinking_calls_partial": count_when(IS_PARTLY_COUNTED),
    "thinking_canvases": sum_known(CANVASES),
}
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
    plain_rows = await sum_calls_by_group(tx, scope, group, [*_PLAIN_SUMS.values()])
    odd_columns = [*_ODD_SUMS.values()]
    odd_rows = await sum_calls_by_group(tx, scope, group, odd_columns, [text(ODD_CALL_SQL)])
    odd_by_key = _name_sums(_ODD_SUMS, odd_rows)
    return [
        _to_call_sums(key, plain, odd_by_key.get(key, _NO_ODD_SUMS))
        for key, plain in _name_sums(_PLAIN_SUMS, plain_rows).items()
        if plain["calls"]
    ]


def _name_sums(columns: Mapping[str, object], rows: Iterable[tuple[Any, ...]]) -> dict[Any, dict[str, Any]]:
    """The sums of each row by the names of their columns, by the row's key, which is its first value."""
    return {key: dict(zip(columns, sums, strict=True)) for key, *sums in rows}


def _to_call_sums(key: GroupKey, plain: Mapping[str, Any], odd: Mapping[str, Any]) -> CallSums:
    calls = plain["calls"]
    return CallSums(
        key=key,
        calls=calls,
        input=plain["input"],
        input_known=calls - odd["without_input"],
        cached=plain["cached"],
        cached_known=calls - odd["without_cached"],
        cached_of=plain["input"] - odd["input_without_cached"],
        output=plain["output"],
        output_known=calls - odd["without_output"],
        partial=odd["partial"],
        reasoning=plain["reasoning"],
        reasoning_known=calls - odd["without_reasoning"],
        reasoning_of=plain["output"] - odd["output_without_reasoning"],
        canvases=plain["canvases"] - odd["read_canvases"],
        canvases_known=calls - odd["without_output"] - odd["reads_with_output"],
        costing=calls - odd["reads"],
        thinking=plain["thinking"] - odd["thinking_reads"],
        thinking_canvases=plain["thinking_canvases"] - odd["thinking_read_canvases"],
        busy=float(plain["busy"]),
        waited=float(plain["waited"]),
        timed=calls - odd["untimed"],
        timed_canvases=plain["canvases"] - odd["untimed_canvases"],
        timed_seconds=float(plain["busy"] - odd["untimed_seconds"]),
        cut=odd["cut"],
        cancelled=odd["cancelled"],
        failed=odd["failed"],
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


async def count_turns(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[TurnCounts]:
    """Turns by group as `sum_turns`, without the sums, which take many times as long."""
    query = _select_turns(scope, get_turn_group_column(scope, group, literal(None)), _TURN_COUNTS.values())
    rows = await _load_rows(tx, query, group if group in TURN_GROUPS else None, None)
    counts_by_key = _name_sums(_TURN_COUNTS, rows)
    return [TurnCounts(key=key, **counts) for key, counts in counts_by_key.items() if counts["turns"]]


async def sum_turns(tx: Transaction, scope: Scope, group: GroupBy | None) -> list[TurnSums]:
    """Turns by group; by what is only a call's, such as `model`, there is one group (key None)."""
    key = get_turn_group_column(scope, group, literal(None))
    turn_group = group if group in TURN_GROUPS else None
    seconds = map(sum_seconds, _BREAKDOWN_COLUMNS)
    rows = await _load_rows(tx, _select_turns(scope, key, [*_TURN_SUMS.values(), *seconds]), turn_group, None)
    call_rows = await _load_rows(tx, _select_thinking_calls(scope, key), turn_group, None)
    calls_by_key = _name_sums(_THINKING_CALL_SUMS, call_rows)
    return [
        TurnSums(
            key=row_key,
            **dict(zip(_TURN_SUMS, sums, strict=False)),
            **calls_by_key.get(row_key, dict.fromkeys(_THINKING_CALL_SUMS, 0)),
            seconds=tuple(sums[len(_TURN_SUMS) :]),
        )
        for row_key, *sums in rows
        if sums[0]
    ]


def _select_turns(scope: Scope, key: ColumnElement[Any], sums: Iterable[ColumnElement[Any]]) -> Select[Any]:
    query = select(key, *sums).select_from(turns.outerjoin(accounts, _account.turn == _turn.id))
    return query.where(*build_calling_turn_filter(scope))


def _select_thinking_calls(scope: Scope, key: ColumnElement[Any]) -> Select[Any]:
    """All calls of thinking turns, also those without thinking: turns are what people compare."""
    calls = select(key, *_THINKING_CALL_SUMS.values())
    calls = calls.select_from(turns.join(model_calls, _call.turn == _turn.id))
    return calls.where(_turn.thinking, ~IS_TYPED_READ, *build_calling_turn_filter(scope))


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
