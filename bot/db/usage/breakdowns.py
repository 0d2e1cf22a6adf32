"""Stored breakdowns ("accounts") of turns, and the rows they are computed from.

Times are epoch seconds; bot.usage computes what they add up to. Functions work inside the caller's
transaction `tx`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import (
    ColumnElement,
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

from bot.db.portable_sql import ListMembership, upsert
from bot.db.tables import accounts, inbox, outbox, turns
from bot.db.transaction import Transaction

_SETTLED_STATES = ("done", "failed", "unknown")
_HAS_UNDELIVERED_PART = exists().where(
    outbox.c.item == turns.c.item, or_(~outbox.c.final, outbox.c.state.not_in(_SETTLED_STATES))
)
_IS_PART = and_(outbox.c.item == turns.c.item, outbox.c.body.is_not(None))
_LAST_DELIVERED_AT = select(func.max(outbox.c.done_at)).where(_IS_PART).scalar_subquery()
_SETTLED_AT = case((turns.c.ended_at < _LAST_DELIVERED_AT, _LAST_DELIVERED_AT), else_=turns.c.ended_at)
_SELECT_TIMESTAMPS = select(
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
    _SETTLED_AT.label("settled_at"),
    # A /forget may have deleted the turn's texts before its account was made.
    or_(turns.c.state == "failed", and_(turns.c.state == "forgotten", turns.c.ending == "failed")).label(
        "failed"
    ),
    case((inbox.c.update_id.is_not(None), inbox.c.body)).label("update"),
).join(inbox, inbox.c.id == turns.c.item)
_IS_REQUESTED_ITEM = ListMembership(turns.c.item, "items")
_SELECT_DELIVERED = _SELECT_TIMESTAMPS.where(
    _IS_REQUESTED_ITEM, turns.c.ended_at.is_not(None), ~_HAS_UNDELIVERED_PART
)
# Two selects, each with its own index: a single one with both conditions would read the whole inbox. Parked
# turns are left out, because nothing works on them.
_LEFTOVER_ITEMS = union(
    select(inbox.c.id).where(inbox.c.spans.is_not(None), inbox.c.state != "parked"),
    select(inbox.c.id).where(inbox.c.state.in_(("new", "running")), inbox.c.turn.is_not(None)),
)
_SELECT_UNACCOUNTED = (
    select(inbox.c.id, inbox.c.lane, inbox.c.spans, turns.c.ended_at)
    .join(turns, turns.c.item == inbox.c.id)
    .where(inbox.c.id.in_(_LEFTOVER_ITEMS))
    .order_by(inbox.c.id)
)
_UPDATE_SPANS = update(inbox).where(inbox.c.id == bindparam("of_item")).values(spans=bindparam("so_far"))
_CLEAR_SPANS = update(inbox).where(ListMembership(inbox.c.id, "items")).values(spans=None)
_INSERT_ACCOUNT = upsert(accounts).on_conflict_do_nothing(index_elements=["turn"])


@dataclass(frozen=True, slots=True)
class TurnTimestamps:
    """The timestamps of a delivered turn, from its rows.

    `received_at`: getUpdates had returned its first message. `seen_at`: its lane was found busy. `taken_at`:
    it was claimed. `asked_at` to `agreed_at`: it waited for a person, and was claimed again at `retaken_at`.
    `began_at`: the turn was opened. `settled_at`: its last part was delivered or given up. `failed`: it ended
    without an answer. `sent_at`: Telegram's own date of the message, in whole seconds; None: it is no update.
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
    sent_at: int | None = None


@dataclass(frozen=True, slots=True)
class UnaccountedTurn:
    """A turn without an account; `spans` is the JSON of what was measured so far."""

    item: int
    lane: str
    spans: str | None
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class StoredBreakdown:
    """An account: `seconds` by column of the table, which add up to `whole`."""

    turn: int
    settled_at: float
    whole: float
    seconds: Mapping[str, float]


async def list_unaccounted(tx: Transaction) -> list[UnaccountedTurn]:
    """Turns without an account that earlier processes left behind, the oldest first."""
    return [UnaccountedTurn(*row) for row in await tx.execute(_SELECT_UNACCOUNTED)]


async def load_timestamps(tx: Transaction, items: Sequence[int]) -> list[TurnTimestamps]:
    """The timestamps of the turns that began with these items and are delivered.

    A turn is delivered when all its messages have reached Telegram or were given up.
    """
    rows = await tx.execute(_SELECT_DELIVERED, {"items": list(items)})
    timestamps = []
    for row in rows:
        values = row._asdict()
        message = json.loads(values.pop("update") or "{}").get("message", {})
        timestamps.append(TurnTimestamps(**values, sent_at=message.get("edit_date") or message.get("date")))
    return timestamps


async def store_spans(tx: Transaction, spans: Mapping[int, str]) -> None:
    """Store what was measured so far: JSON by item."""
    if spans:
        await tx.execute(_UPDATE_SPANS, [{"of_item": item, "so_far": text} for item, text in spans.items()])


async def store_breakdowns(tx: Transaction, breakdowns: Mapping[int, StoredBreakdown]) -> None:
    """Store accounts, by the first item of their turns, and clear the spans, which are no longer needed."""
    if not breakdowns:
        return
    rows = [asdict(breakdown) for breakdown in breakdowns.values()]
    await tx.execute(_INSERT_ACCOUNT, [row | row.pop("seconds") for row in rows])
    await tx.execute(_CLEAR_SPANS, {"items": [*breakdowns]})


async def is_idle(tx: Transaction, update_id: int | None = None) -> bool:
    """Whether nothing waits to be done or delivered, and this update, if given, has been stored."""
    busy = or_(
        exists().where(inbox.c.state.in_(("new", "running"))),
        exists().where(outbox.c.state.in_(("new", "sending", "open"))),
    )
    is_stored: ColumnElement[bool] = true()
    if update_id is not None:
        is_stored = exists().where(inbox.c.update_id == update_id)
    return bool((await tx.execute(select(and_(is_stored, not_(busy))))).scalar_one())


async def is_all_accounted(tx: Transaction) -> bool:
    """Whether every ended turn has its account."""
    return (await tx.execute(_SELECT_UNACCOUNTED.limit(1))).one_or_none() is None
