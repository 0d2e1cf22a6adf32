"""Makes and deletes the stored sums of past days in UTC; `summed_scopes` reads them.

A day is summed once it is over and nothing of it is under way. Who changes a row of an older turn deletes the
sums of its day in the same transaction, so that sums that exist equal their rows. Functions work inside the
caller's transaction `tx`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
)

from bot.db.portable_sql import LockNumber, TransactionLock, WholePart
from bot.db.tables import (
    accounts,
    daily_calls,
    daily_tools,
    daily_turns,
    model_calls,
    summed_days,
    tool_calls,
    turns,
)
from bot.db.transaction import Transaction
from bot.db.usage.call_filters import IS_PARTLY_COUNTED
from bot.db.usage.ledger_columns import (
    CANVASES,
    IS_FAILED_TURN,
    IS_TYPED_READ,
    count_when,
    sum_known,
    sum_when,
)
from bot.db.usage.local_days import FIRST_MOMENT
from bot.db.usage.usage_sums import DAY_SECONDS

SumPart = Literal["time", "user", "chat", "tool"]
"""What a day's sums are kept by: quarters of an hour, persons, lanes, or names of tools."""

CalledKind = Literal["model", "purpose", "call", "tool"]
"""What turns call, by which sums tell them apart; `call`: a model for a purpose."""

SUM_PARTS: Final[tuple[SumPart, ...]] = get_args(SumPart)
SLOT_SECONDS = 900  # the zones' days and hours begin with one
DELAY_SECONDS = 3_600.0  # after a day's end: most of its turns are over then, and have their account

_LOCK = select(TransactionLock(LockNumber.DAY_SUMS))
_call = model_calls.c
_tool = tool_calls.c
_KEY_NAMES = {"time": "slot", "user": "person", "chat": "lane"}
_CALLED = {
    "model": (model_calls, _call.model),
    "purpose": (model_calls, _call.purpose),
    "call": (model_calls, _call.purpose + literal_column("' '") + _call.model),
    "tool": (tool_calls, _tool.name),
}
CALLED_KINDS: Final[dict[SumPart, tuple[CalledKind, ...]]] = {
    "time": ("model", "purpose", "call", "tool"),
    "user": ("model", "purpose", "call"),
    "chat": ("model", "purpose", "call"),
    "tool": ("model", "purpose", "call"),
}
"""By what turns called, sums are kept beside those of all; by persons and tools they would be too many."""
CALL_SUMS: dict[str, ColumnElement[Any]] = {
    "calls": func.count(),
    "input": sum_known(_call.prompt_tokens),
    "input_known": func.count(_call.prompt_tokens),
    "cached": sum_known(_call.cached_tokens),
    "cached_known": func.count(_call.cached_tokens),
    "cached_of": sum_when(_call.cached_tokens.is_not(None), _call.prompt_tokens),
    "output": sum_known(_call.completion_tokens),
    "output_known": func.count(_call.completion_tokens),
    "partial": count_when(IS_PARTLY_COUNTED),
    "canvases": sum_when(~IS_TYPED_READ, CANVASES),
    "canvases_known": func.count(case((~IS_TYPED_READ, _call.completion_tokens))),
    "costing": count_when(~IS_TYPED_READ),
    "failed": count_when(_call.outcome == "failed"),
}


def is_over(day: int, now: float) -> bool:
    """Whether a day can have been summed by now."""
    return (day + 1) * DAY_SECONDS + DELAY_SECONDS <= now


def find_day(moment: float) -> int:
    """The day in UTC that a moment belongs to."""
    return int(moment // DAY_SECONDS)


async def discard(tx: Transaction, moments: Iterable[float], *, now: float) -> None:
    """Delete the sums of the days of these moments, when turns were received that change only now.

    No statement for moments of days that have no sums yet, as those of nearly all turns that change.
    """
    days = {day for day in map(find_day, moments) if is_over(day, now)}
    if not days:
        return
    await tx.execute(_LOCK)  # sums that are being made without this change are deleted once they are
    for table in (summed_days, daily_turns, daily_calls):
        await tx.execute(delete(table).where(table.c.part.in_(SUM_PARTS), table.c.day.in_(days)))
    await tx.execute(delete(daily_tools).where(daily_tools.c.day.in_(days)))


async def list_missing(tx: Transaction, *, now: float) -> list[tuple[SumPart, int]]:
    """What has not been summed of the days that are over, the newest first."""
    oldest_turn = (await tx.execute(select(func.min(turns.c.received_at)))).scalar_one()
    oldest_call = (await tx.execute(select(func.min(_call.created_at)))).scalar_one()
    oldest = min((moment for moment in (oldest_turn, oldest_call) if moment is not None), default=now)
    stored = {(row.part, row.day) for row in await tx.execute(select(summed_days))}
    days = range(find_day(now), find_day(max(oldest, FIRST_MOMENT)) - 1, -1)
    return [
        (part, day) for day in days if is_over(day, now) for part in SUM_PARTS if (part, day) not in stored
    ]


async def store(tx: Transaction, part: SumPart, day: int) -> bool:
    """Sum one part of a day; False while something of the day is under way, or if it is summed."""
    await tx.execute(_LOCK)
    is_stored = exists().where(summed_days.c.part == part, summed_days.c.day == day)
    if (await tx.execute(select(or_(is_stored, _has_unfinished(day))))).scalar_one():
        return False
    await tx.execute(insert(summed_days).values(part=part, day=day))
    if part == "tool":
        await _store_tools(tx, day)
        await _store_calls_beside_tools(tx, day, {"model": _call.model, "purpose": _call.purpose}, part)
        return True
    await _store_turns(tx, part, day)
    await _store_calls(tx, part, day)
    await _store_turnless_calls(tx, part, day)
    if part == "time":
        await _store_calls_beside_tools(tx, day, {"slot": _build_turn_key(part)}, part)
    return True


def _is_in_day(moment: ColumnElement[float], day: int) -> ColumnElement[bool]:
    return and_(moment >= day * DAY_SECONDS, moment < (day + 1) * DAY_SECONDS)


def _has_unfinished(day: int) -> ColumnElement[bool]:
    """Whether a turn of the day is still at work or parked, or one of its calls has not ended."""
    of_day = _is_in_day(turns.c.received_at, day)
    turns_and_calls = turns.join(model_calls, _call.turn == turns.c.id)
    turns_and_tools = turns.join(tool_calls, _tool.turn == turns.c.id)
    is_turnless = and_(_call.turn.is_(None), _is_in_day(_call.created_at, day))
    return or_(
        exists(select(turns.c.id).where(of_day, turns.c.state.in_(("running", "parked")))),
        exists(select(_call.id).select_from(turns_and_calls).where(of_day, _call.outcome.is_(None))),
        exists(select(_tool.id).select_from(turns_and_tools).where(of_day, _tool.outcome.is_(None))),
        exists(select(_call.id).where(is_turnless, _call.outcome.is_(None))),
    )


def _count_slots(moment: ColumnElement[float]) -> ColumnElement[int]:
    return WholePart(moment / literal_column(f"{SLOT_SECONDS}.0"))


def _build_turn_key(part: SumPart) -> ColumnElement[Any]:
    if part == "time":
        return _count_slots(turns.c.received_at)
    return turns.c.person if part == "user" else turns.c.lane


def name_called(kind: CalledKind, name: str) -> str:
    """How rows name what their turns called."""
    return f"{kind} {name}"


def _select_callers(kind: CalledKind, day: int) -> Subquery:
    """The turns of a day, by what they called of this kind: columns `turn` and `called`."""
    table, name = _CALLED[kind]
    called = literal(name_called(kind, "")).concat(name).label("called")
    query = select(turns.c.id.label("turn"), called).distinct()
    query = query.select_from(turns.join(table, table.c.turn == turns.c.id))
    return query.where(_is_in_day(turns.c.received_at, day)).subquery()


async def _store_turns(tx: Transaction, part: SumPart, day: int) -> None:
    keys = (_build_turn_key(part), turns.c.endpoint, turns.c.thinking)
    counts = (func.count(), count_when(IS_FAILED_TURN), func.count(accounts.c.turn))
    names = ("part", "day", "called", _KEY_NAMES[part], "endpoint", "thinking", "turns", "failed", "settled")
    of_day = _is_in_day(turns.c.received_at, day)
    settled_turns = turns.outerjoin(accounts, accounts.c.turn == turns.c.id)
    query = select(literal(part), literal(day), literal(""), *keys, *counts)
    query = query.select_from(settled_turns).where(of_day).group_by(*keys)
    await tx.execute(insert(daily_turns).from_select(names, query))
    for kind in CALLED_KINDS[part]:
        callers = _select_callers(kind, day)
        query = select(literal(part), literal(day), callers.c.called, *keys, *counts)
        query = query.select_from(settled_turns.join(callers, callers.c.turn == turns.c.id))
        query = query.where(of_day).group_by(callers.c.called, *keys)
        await tx.execute(insert(daily_turns).from_select(names, query))


async def _store_calls(tx: Transaction, part: SumPart, day: int) -> None:
    keys = (_build_turn_key(part), turns.c.endpoint, turns.c.thinking, _call.model, _call.purpose)
    query = select(literal(part), literal(day), literal(""), *keys, *CALL_SUMS.values())
    query = query.select_from(turns.join(model_calls, _call.turn == turns.c.id))
    query = query.where(_is_in_day(turns.c.received_at, day)).group_by(*keys)
    names = ("part", "day", "called", _KEY_NAMES[part], "endpoint", "thinking", "model", "purpose")
    await tx.execute(insert(daily_calls).from_select((*names, *CALL_SUMS), query))


async def _store_calls_beside_tools(
    tx: Transaction, day: int, keys_by_name: Mapping[str, ColumnElement[Any]], part: SumPart
) -> None:
    """Model calls of the turns that called a tool, by the tool and these keys."""
    callers = _select_callers("tool", day)
    keys = (callers.c.called, turns.c.endpoint, turns.c.thinking, *keys_by_name.values())
    query = select(literal(part), literal(day), *keys, *CALL_SUMS.values())
    calling_turns = turns.join(callers, callers.c.turn == turns.c.id)
    query = query.select_from(calling_turns.join(model_calls, _call.turn == turns.c.id))
    query = query.where(_is_in_day(turns.c.received_at, day)).group_by(*keys)
    names = ("part", "day", "called", "endpoint", "thinking", *keys_by_name, *CALL_SUMS)
    await tx.execute(insert(daily_calls).from_select(names, query))


async def _store_turnless_calls(tx: Transaction, part: SumPart, day: int) -> None:
    keys: Sequence[ColumnElement[Any]] = (_call.model, _call.purpose)
    names = ("part", "day", "called", "model", "purpose", *CALL_SUMS)
    if part == "time":
        keys = (_count_slots(_call.created_at), *keys)
        names = ("part", "day", "called", "slot", "model", "purpose", *CALL_SUMS)
    query: Select[Any] = select(literal(part), literal(day), literal(""), *keys, *CALL_SUMS.values())
    query = query.where(_call.turn.is_(None), _is_in_day(_call.created_at, day)).group_by(*keys)
    await tx.execute(insert(daily_calls).from_select(names, query))


async def _store_tools(tx: Transaction, day: int) -> None:
    keys = (_tool.name, _tool.outcome, _tool.refusal, turns.c.endpoint, turns.c.thinking)
    seconds = _tool.ended_at - _tool.began_at
    sums = (func.count(), func.count(seconds), func.coalesce(func.sum(seconds), 0.0))
    key_names = ("day", "called", "tool", "outcome", "refusal", "endpoint", "thinking")
    names = (*key_names, "calls", "timed", "seconds")
    of_day = _is_in_day(turns.c.received_at, day)
    calling_turns = turns.join(tool_calls, _tool.turn == turns.c.id)
    query = select(literal(day), literal(""), *keys, *sums)
    query = query.select_from(calling_turns).where(of_day).group_by(*keys)
    await tx.execute(insert(daily_tools).from_select(names, query))
    for kind in CALLED_KINDS["tool"]:
        callers = _select_callers(kind, day)
        query = select(literal(day), callers.c.called, *keys, *sums)
        query = query.select_from(calling_turns.join(callers, callers.c.turn == turns.c.id))
        query = query.where(of_day).group_by(callers.c.called, *keys)
        await tx.execute(insert(daily_tools).from_select(names, query))
