"""Accounts of turns as they are kept, the rows they are made from, and what a page shows of a turn beside
them.

Functions work inside the caller's transaction `tx`. What times amount to is the usage room's to judge; they
are epoch seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import (
    ColumnElement,
    Row,
    and_,
    bindparam,
    case,
    exists,
    func,
    not_,
    or_,
    select,
    true,
    union,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import accounts, durations, inbox, model_calls, outbox, tool_calls, turns

_SETTLED = ("done", "failed", "unknown")
_WAITING = exists().where(
    outbox.c.item == turns.c.item, or_(~outbox.c.final, outbox.c.state.not_in(_SETTLED))
)
_PART = and_(outbox.c.item == turns.c.item, outbox.c.body.is_not(None))
_LAST = select(func.max(outbox.c.done_at)).where(_PART).scalar_subquery()
_ENDED_OR_LAST = case((turns.c.ended_at < _LAST, _LAST), else_=turns.c.ended_at)
_COURSE = select(
    turns.c.id.label("turn"),
    turns.c.item,
    turns.c.received_at,
    inbox.c.seen_at,
    inbox.c.taken_at,
    inbox.c.asked_at,
    inbox.c.agreed_at,
    inbox.c.retaken_at,
    turns.c.began_at,
    turns.c.ended_at,
    _ENDED_OR_LAST.label("settled_at"),
    # A /forget may have come before the account.
    or_(turns.c.state == "failed", and_(turns.c.state == "forgotten", turns.c.ending == "failed")).label(
        "failed"
    ),
).join(inbox, inbox.c.id == turns.c.item)
_IS_ONE = turns.c.item.in_(bindparam("items", expanding=True))
_DELIVERED = _COURSE.where(_IS_ONE, turns.c.ended_at.is_not(None), ~_WAITING)
# Two selects, each by its index: one with both conditions would read the whole inbox. Nobody works on parked
# turns.
_LEFT = union(
    select(inbox.c.id).where(inbox.c.spans.is_not(None), inbox.c.state != "parked"),
    select(inbox.c.id).where(inbox.c.state.in_(("new", "running")), inbox.c.turn.is_not(None)),
)
_UNACCOUNTED = (
    select(inbox.c.id, inbox.c.lane, inbox.c.spans, turns.c.ended_at.is_not(None).label("over"))
    .join(turns, turns.c.item == inbox.c.id)
    .where(inbox.c.id.in_(_LEFT))
    .order_by(inbox.c.id)
)
_MEASURED = update(inbox).where(inbox.c.id == bindparam("of_item")).values(spans=bindparam("so_far"))
_CLEAR = update(inbox).where(inbox.c.id.in_(bindparam("items", expanding=True))).values(spans=None)
_KEEP = upsert(accounts).on_conflict_do_nothing(index_elements=["turn"])
_NEW = upsert(durations)
_COUNT = _NEW.on_conflict_do_update(
    index_elements=["day", "kind", "bucket"], set_={"count": durations.c.count + _NEW.excluded.count}
)


@dataclass(frozen=True, slots=True)
class Course:
    """A delivered turn's way through the house, as its rows tell it.

    `received_at`: getUpdates had returned its first message; `seen_at`: its lane was found busy; `asked_at`
    to `agreed_at`: the chat was asked for its consent, after which it was taken again at `retaken_at`;
    `began_at`: the turn was opened; `settled_at`: its last part was delivered or given up. `failed`: it was
    set aside.
    """

    turn: int
    item: int
    received_at: float
    seen_at: float | None
    taken_at: float | None
    asked_at: float | None
    agreed_at: float | None
    retaken_at: float | None
    began_at: float
    ended_at: float
    settled_at: float
    failed: bool


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """A turn whose account is not made; `spans` is what was measured of it so far, as it is stored."""

    item: int
    lane: str
    spans: str | None
    over: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """An account: seconds by column of the table, which add up to `whole`."""

    turn: int
    settled_at: float
    whole: float
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CallRow:
    """A model call; tokens are the server's counts, None where it gave none. A reading of one step costs no
    canvas.
    """

    outcome: str | None
    again: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    partial: bool
    is_reading: bool = False


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool call; `arguments` is JSON text, `result` what the model read."""

    name: str
    arguments: str
    outcome: str | None
    result: str | None


@dataclass(frozen=True, slots=True)
class PartRow:
    """A message of the answer, and when it was first sent; None if that failed, or nobody knows."""

    message_id: int | None
    sent_at: float | None


@dataclass(frozen=True, slots=True)
class TurnRow:
    """An accounted turn with all that belongs to it."""

    id: int
    ending: str
    received_at: float
    account: Kept
    calls: tuple[CallRow, ...]
    tools: tuple[ToolRow, ...]
    parts: tuple[PartRow, ...]


async def unaccounted(tx: AsyncConnection) -> list[Unaccounted]:
    """What earlier processes have left without an account, the oldest first."""
    return [Unaccounted(*row) for row in await tx.execute(_UNACCOUNTED)]


async def courses(tx: AsyncConnection, items: Sequence[int]) -> list[Course]:
    """Of the turns that began with these items, those whose every message has reached Telegram or was given
    up.
    """
    return [Course(**row._asdict()) for row in await tx.execute(_DELIVERED, {"items": list(items)})]


async def measured(tx: AsyncConnection, spans: Mapping[int, str]) -> None:
    """Store what was measured so far, by item."""
    if spans:
        await tx.execute(_MEASURED, [{"of_item": item, "so_far": text} for item, text in spans.items()])


async def keep(
    tx: AsyncConnection, made: Mapping[int, Kept], counts: Mapping[tuple[int, str, int], int]
) -> None:
    """Store accounts, by the first item of their turns, and add `counts` (by day, kind and bucket) to the
    durations.

    What was measured is not needed any more.
    """
    if not made:
        return
    rows = [asdict(one) for one in made.values()]
    await tx.execute(_KEEP, [row | row.pop("seconds") for row in rows])
    numbers = [
        {"day": day, "kind": kind, "bucket": bucket, "count": n} for (day, kind, bucket), n in counts.items()
    ]
    if numbers:
        await tx.execute(_COUNT, numbers)
    await tx.execute(_CLEAR, {"items": [*made]})


async def delivered(tx: AsyncConnection, *, after: int = 0) -> list[TurnRow]:
    """The turns above `after` that have their account, in order."""
    query = select(turns.c.item, turns.c.ending, turns.c.received_at, accounts).join(
        accounts, accounts.c.turn == turns.c.id
    )
    rows = (await tx.execute(query.where(turns.c.id > after).order_by(turns.c.id))).all()
    return [await _turn(tx, row) for row in rows]


async def settled(tx: AsyncConnection, update_id: int | None = None) -> bool:
    """Whether nothing waits to be done or delivered, and this update, if one is named, has been stored."""
    busy = or_(
        exists().where(inbox.c.state.in_(("new", "running"))),
        exists().where(outbox.c.state.in_(("new", "sending", "open"))),
    )
    known: ColumnElement[bool] = true()
    if update_id is not None:
        known = exists().where(inbox.c.update_id == update_id)
    return bool((await tx.execute(select(and_(known, not_(busy))))).scalar_one())


async def accounted(tx: AsyncConnection) -> bool:
    """Whether every turn that has ended has its account."""
    return (await tx.execute(_UNACCOUNTED.limit(1))).one_or_none() is None


async def _turn(tx: AsyncConnection, row: Row[tuple[object, ...]]) -> TurnRow:
    calls = select(model_calls).where(model_calls.c.turn == row.turn).order_by(model_calls.c.id)
    tools = select(tool_calls).where(tool_calls.c.turn == row.turn).order_by(tool_calls.c.id)
    parts = (
        select(outbox).where(outbox.c.item == row.item, outbox.c.body.is_not(None)).order_by(outbox.c.part)
    )
    return TurnRow(
        row.turn,
        row.ending,
        row.received_at,
        _kept(row),
        tuple(_call(call) for call in await tx.execute(calls)),
        tuple(
            ToolRow(tool.name, tool.arguments, tool.outcome, tool.result) for tool in await tx.execute(tools)
        ),
        tuple(PartRow(part.message_id, part.sent_at) for part in await tx.execute(parts)),
    )


def _kept(row: Row[tuple[object, ...]]) -> Kept:
    told = {"turn", "settled_at", "whole"}
    seconds = {
        name: value for name, value in row._asdict().items() if name in accounts.c and name not in told
    }
    return Kept(row.turn, row.settled_at, row.whole, seconds)


def _call(row: Row[tuple[object, ...]]) -> CallRow:
    return CallRow(
        outcome=row.outcome,
        again=row.again,
        input_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        output_tokens=row.completion_tokens,
        partial=row.usage_partial,
        is_reading=row.purpose == "decision",
    )
