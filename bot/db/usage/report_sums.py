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

from bot.db.tables import ODD, accounts, approvals, durations, model_calls, readings, tool_calls, turns
from bot.db.usage.scope_filters import between, of_calls_alone, of_turns, with_model
from bot.db.usage.usage_sums import (
    DAY,
    AgainSums,
    AskedSums,
    CallSums,
    Group,
    Key,
    Scope,
    Seconds,
    ServerSums,
    ToolSums,
    TurnSums,
)
from bot.domain import CANVAS

_m = model_calls.c
_t = turns.c
_a = accounts.c
_c = tool_calls.c
_q = approvals.c
_SECONDS = tuple(accounts.c[name] for name in get_args(Seconds))
_CANVASES = (_m.completion_tokens + (CANVAS - 1)) // CANVAS


def _sum(column: ColumnElement[Any], when: ColumnElement[bool] | None = None) -> ColumnElement[Any]:
    return func.coalesce(func.sum(column if when is None else case((when, column))), 0)


def _times(when: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.count(case((when, 1)))


# Over every call only what must be summed; what is told of few (unknown, cut, failed) is counted over the odd
# ones, which have an index of their own: a sum over a million calls costs a second for every ten columns.
_PLAIN: tuple[ColumnElement[Any], ...] = (
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
_DECIDES = _m.purpose == "decision"  # a reading is one step, and costs no canvas
_ODD: tuple[ColumnElement[Any], ...] = (
    _times(_m.prompt_tokens.is_(None)),
    _times(_m.cached_tokens.is_(None)),
    _sum(_m.prompt_tokens, _m.cached_tokens.is_(None)),
    _times(_m.completion_tokens.is_(None)),
    _times(_m.usage_partial),
    _times(_m.reasoning_tokens.is_(None)),
    _sum(_m.completion_tokens, _m.reasoning_tokens.is_(None)),
    _times(_DECIDES),
    _times(and_(_DECIDES, _m.completion_tokens.is_not(None))),
    _sum(_CANVASES, _DECIDES),
    _times(and_(_DECIDES, _m.thinking)),
    _sum(_CANVASES, and_(_DECIDES, _m.thinking)),
    _times(or_(_m.outcome == "cut", _m.finish_reason == "length")),
    _times(_m.outcome == "cancelled"),
    _times(_m.outcome == "failed"),
)
_NOT_ODD = (0,) * len(_ODD)
_OF_TURNS = {"day": cast(_t.received_at / DAY, Integer), "chat": _t.lane, "user": _t.person}
_OF_CALLS = {"model": _m.model, "purpose": _m.purpose}


async def calls(tx: AsyncConnection, scope: Scope, by: Group | None) -> list[CallSums]:
    """Model calls a group; calls without a turn are groups of their own under `chat` and `user` (key None)."""
    plain = {row[0]: row[1:] for row in await _of_turns_and_without(tx, scope, by, _PLAIN)}
    odd = {row[0]: row[1:] for row in await _of_turns_and_without(tx, scope, by, _ODD, text(ODD))}
    return [_call_sums(key, row, odd.get(key, _NOT_ODD)) for key, row in plain.items() if row[0]]


def _call_sums(key: Key, plain: tuple[Any, ...], odd: tuple[Any, ...]) -> CallSums:
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


async def again(tx: AsyncConnection, scope: Scope, by: Group | None) -> list[AgainSums]:
    """Calls that would not have been needed, by group and reason."""
    rows = await _of_turns_and_without(
        tx, scope, by, (_m.again, func.count()), _m.again.is_not(None), _m.again
    )
    return [AgainSums(*row) for row in rows]


async def _of_turns_and_without(
    tx: AsyncConnection,
    scope: Scope,
    by: Group | None,
    sums: Sequence[ColumnElement[Any]],
    also: Any = None,
    within: ColumnElement[Any] | None = None,
) -> list[tuple[Any, ...]]:
    """Rows of (key, *sums): from calls of turns and calls of none, at once where nothing depends on the turn."""
    more = [] if also is None else [also]
    if scope.is_everything and by not in _OF_TURNS:
        return await _rows(tx, select(_call_key(by), *sums).select_from(model_calls).where(*more), by, within)
    joined = turns.join(model_calls, _m.turn == _t.id)
    where = [*of_turns(scope), *more, *([] if scope.model is None else [_m.model == scope.model])]
    query = select(_OF_TURNS.get(by or "", _call_key(by)), *sums).select_from(joined).where(*where)
    found = await _rows(tx, query, by, within)
    if scope.is_of_turns:
        return found
    made = cast(_m.created_at / DAY, Integer) if by == "day" else _call_key(by)
    alone = (
        select(made, *sums).select_from(model_calls).where(_m.turn.is_(None), *of_calls_alone(scope), *more)
    )
    return _added(found, await _rows(tx, alone, by, within), 1 if within is None else 2)


def _added(some: list[tuple[Any, ...]], others: list[tuple[Any, ...]], keys: int) -> list[tuple[Any, ...]]:
    """The rows of both, those of the same first `keys` columns added up."""
    sums = {row[:keys]: row[keys:] for row in some}
    for row in others:
        before = sums.get(row[:keys])
        if before is None:
            added = row[keys:]
        else:
            added = tuple(a + b for a, b in zip(before, row[keys:], strict=True))
        sums[row[:keys]] = added
    return [key + row for key, row in sums.items()]


def _call_key(by: Group | None) -> ColumnElement[Any]:
    return _OF_CALLS.get(by or "", literal(None))


async def _rows(
    tx: AsyncConnection, query: Select[Any], by: Group | None, within: ColumnElement[Any] | None
) -> list[tuple[Any, ...]]:
    keys: list[Any] = [] if by is None else [query.selected_columns[0]]
    keys += [] if within is None else [within]
    return [tuple(row) for row in await tx.execute(query.group_by(*keys) if keys else query)]


async def turned(tx: AsyncConnection, scope: Scope, by: Group | None) -> list[TurnSums]:
    """Turns a group; only a `day`, a `chat` and a `user` group turns, else there is one group (key None)."""
    key = _OF_TURNS.get(by or "", literal(None))
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
        *(func.coalesce(func.sum(column), 0.0) for column in _SECONDS),
    )
    query = (
        select(*columns).select_from(turns.outerjoin(accounts, _a.turn == _t.id)).where(*with_model(scope))
    )
    rows = await _rows(tx, query, by if by in _OF_TURNS else None, None)
    return [_turn_sums(row) for row in rows if row[1]]


def _turn_sums(row: tuple[Any, ...]) -> TurnSums:
    names = [one.name for one in fields(TurnSums)][:-1]
    return TurnSums(**dict(zip(names, row, strict=False)), seconds=row[len(names) :])


async def tools(tx: AsyncConnection, scope: Scope, by: Group | Literal["tool"] | None) -> list[ToolSums]:
    """Tool calls a group and outcome; by `model` and `purpose` there is one group (key None)."""
    key = _c.name if by == "tool" else _OF_TURNS.get(by or "", literal(None))
    took = _c.ended_at - _c.began_at
    columns = (key, _c.outcome, func.count(), func.count(took), func.coalesce(func.sum(took), 0.0))
    query = select(*columns).group_by(*([key] if by == "tool" or by in _OF_TURNS else []), _c.outcome)
    if scope.is_everything and by not in _OF_TURNS:
        query = query.select_from(tool_calls)
    else:
        query = query.select_from(turns.join(tool_calls, _c.turn == _t.id)).where(*with_model(scope))
    return [ToolSums(row[0], row[1], row[2], row[3], row[4]) for row in await tx.execute(query)]


async def asked(tx: AsyncConnection, scope: Scope, by: Group | Literal["tool"] | None) -> list[AskedSums]:
    """Tool calls that a person was asked about, a group and answer; by `model` and `purpose` there is one
    group.
    """
    key = _q.tool if by == "tool" else _OF_TURNS.get(by or "", literal(None))
    waited = func.coalesce(func.sum(_q.answered_at - _q.asked_at), 0.0)
    query = select(key, _q.answer, func.count(), waited).select_from(approvals.join(turns, _q.turn == _t.id))
    grouped = query.where(*with_model(scope)).group_by(
        *([key] if by == "tool" or by in _OF_TURNS else []), _q.answer
    )
    return [AskedSums(row[0], row[1], row[2], row[3]) for row in await tx.execute(grouped)]


async def account_rows(tx: AsyncConnection, scope: Scope, by: Group | None) -> list[tuple[Any, ...]]:
    """(key, then `Seconds` in order), an account a row."""
    key = _OF_TURNS.get(by or "", literal(None))
    query = (
        select(key, *_SECONDS).select_from(turns.join(accounts, _a.turn == _t.id)).where(*with_model(scope))
    )
    return [tuple(row) for row in await tx.execute(query)]


async def tool_seconds(tx: AsyncConnection, scope: Scope) -> list[tuple[str, float]]:
    """Name and seconds, a tool call that ended a row."""
    took = (_c.ended_at - _c.began_at).label("took")
    query = select(_c.name, took).select_from(turns.join(tool_calls, _c.turn == _t.id))
    return [
        (row.name, row.took) for row in await tx.execute(query.where(*with_model(scope), took.is_not(None)))
    ]


async def counted(
    tx: AsyncConnection, scope: Scope, *, daily: bool
) -> list[tuple[int | None, str, int, int]]:
    """(day, or None for all days together; kind; bucket; count), of the whole days in scope."""
    day = durations.c.day if daily else literal(None)
    query = select(day, durations.c.kind, durations.c.bucket, func.sum(durations.c.count))
    if scope.since is None:
        first = []
    else:
        first = [durations.c.day >= int(scope.since // DAY)]
    if scope.until is None:
        last = []
    else:
        last = [durations.c.day < int(scope.until // DAY)]
    keys = [durations.c.kind, durations.c.bucket, *([durations.c.day] if daily else [])]
    return [
        (row[0], row[1], row[2], row[3])
        for row in await tx.execute(query.where(*first, *last).group_by(*keys))
    ]


async def server(tx: AsyncConnection, scope: Scope) -> ServerSums:
    """What was read of the endpoints' counters in this span of time; chats, people and models are not told
    apart.
    """
    told = (
        func.count(),
        func.sum(readings.c.steps_seen),
        func.sum(readings.c.committed_seen),
        func.sum(readings.c.gap),
    )
    compared = select(*told).where(readings.c.since.is_not(None), *between(readings.c.read_at, scope))
    row = (await tx.execute(compared)).one()
    return ServerSums(row[0], row[1], row[2], row[3])
