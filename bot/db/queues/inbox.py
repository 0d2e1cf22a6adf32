"""The inbox: what is to be done, written down before Telegram is told that it has arrived.

new → running → done, or dead when it cannot be handled; parked while a person is asked. Functions work inside
the caller's transaction `tx`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, bindparam, case, func, insert, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.queues.claim import choose_claimable, compute_begin_time, find_yielding_tasks, limit_due_tasks
from bot.db.tables import inbox
from bot.domain import InboxItem, ItemKind, ItemShape, Lane

TURN_SHAPES: tuple[ItemShape, ...] = ("text", "deep")  # what a turn answers
STALE_SECONDS = (
    600  # a message older than this when it is fetched, or when the house starts, waited while it was down
)
_CLAIM_SCAN_ROWS = 5000  # rows a claim looks at; the rest is seen when these are done

# Statements of the way of every message are built once: building one costs more than running it.
_INSERT_UPDATES = upsert(inbox).on_conflict_do_nothing(index_elements=["update_id"])
_COUNT_WAITING = (
    select(inbox.c.sender, func.count())
    .where(
        inbox.c.state == "new",
        inbox.c.shape.in_(TURN_SHAPES),
        inbox.c.sender.in_(bindparam("senders", expanding=True)),
    )
    .group_by(inbox.c.sender)
)
_BUSY_LANES = select(inbox.c.lane).where(inbox.c.state == "running", inbox.c.lane.is_not(None))
_IS_DUE_TASK = and_(inbox.c.kind == "task", inbox.c.job.is_not(None))  # people's messages go before it
_YIELDING_LANES = select(inbox.c.lane).where(inbox.c.state == "running", _IS_DUE_TASK)
_LANE_IS_FREE = or_(
    inbox.c.lane.is_(None),
    inbox.c.lane.not_in(_BUSY_LANES),
    inbox.c.shape == "new",
    inbox.c.lane.in_(_YIELDING_LANES),
)
_CLAIMABLE = (
    select(inbox)
    .where(or_(inbox.c.state == "running", and_(inbox.c.state == "new", _LANE_IS_FREE)))
    .order_by(inbox.c.id)
    .limit(_CLAIM_SCAN_ROWS)
)
_ID_IN_IDS = inbox.c.id.in_(bindparam("ids", expanding=True))
_MARK_RUNNING = (
    update(inbox)
    .where(_ID_IN_IDS)
    .values(
        state="running",
        attempt=inbox.c.attempt + 1,
        taken_at=func.coalesce(inbox.c.taken_at, bindparam("now")),
        retaken_at=case(
            (inbox.c.agreed_at.is_not(None), func.coalesce(inbox.c.retaken_at, bindparam("now")))
        ),
    )
)
_MARK_SEEN = (
    update(inbox).where(inbox.c.state == "new", inbox.c.seen_at.is_(None)).values(seen_at=bindparam("now"))
)
_MARK_DONE = update(inbox).where(_ID_IN_IDS).values(state="done", done_at=bindparam("now"))
_MARK_TURN_DONE = _MARK_DONE.values(spans=case((inbox.c.id == bindparam("first"), bindparam("measured"))))

_MARK_STOPPED = (
    update(inbox)
    .where(inbox.c.lane == bindparam("of_lane"), inbox.c.id < bindparam("before"))
    .where(inbox.c.state == "running", inbox.c.stopped.is_(False))
    .values(stopped=True)
)


@dataclass(frozen=True, slots=True)
class IncomingUpdate:
    """An update as it is stored: read leniently, parsed only when its turn comes."""

    update_id: int
    shape: ItemShape
    lane: Lane | None
    sender: int | None
    body: str
    stale: bool
    not_before: float | None


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What the worker may start now (`groups`), what cuts into a busy lane, and when a held lane is ripe.

    `left`: something was seen that has to wait. `yielding` are running items that give way to a person.
    """

    groups: tuple[tuple[InboxItem, ...], ...]
    cutting_items: tuple[tuple[Lane, int], ...]
    held_until: float | None
    has_waiting: bool
    yielding_items: tuple[tuple[Lane, int], ...] = ()


async def store(tx: AsyncConnection, updates: Sequence[IncomingUpdate], *, now: float) -> None:
    """Write updates down; one that is known already is passed over."""
    rows = [
        {
            "update_id": one.update_id,
            "kind": "update",
            "shape": one.shape,
            "lane": one.lane.key if one.lane else None,
            "sender": one.sender,
            "body": one.body,
            "stale": one.stale,
            "not_before": one.not_before,
            "received_at": now,
        }
        for one in updates
    ]
    if rows:
        await tx.execute(_INSERT_UPDATES, rows)


async def find_known(tx: AsyncConnection, update_ids: Sequence[int]) -> set[int]:
    """Which of these updates are stored already."""
    return set(
        (await tx.execute(select(inbox.c.update_id).where(inbox.c.update_id.in_(update_ids)))).scalars()
    )


async def count_waiting(tx: AsyncConnection, senders: Iterable[int]) -> dict[int, int]:
    """How many messages of each of these people wait to be taken."""
    return {
        int(sender): int(count)
        for sender, count in await tx.execute(_COUNT_WAITING, {"senders": list(senders)})
    }


async def is_lane_busy(tx: AsyncConnection, lane: Lane) -> bool:
    """Whether something of the lane waits or is being answered."""
    here = select(inbox.c.id).where(inbox.c.lane == lane.key, inbox.c.state.in_(("new", "running"))).limit(1)
    return (await tx.execute(here)).one_or_none() is not None


async def add(
    tx: AsyncConnection,
    *,
    kind: ItemKind,
    lane: Lane | None,
    sender: int | None,
    body: Mapping[str, Any],
    now: float,
) -> int:
    """Write down work of the house's own; returns its id."""
    row = {
        "kind": kind,
        "shape": "other",
        "lane": lane.key if lane else None,
        "sender": sender,
        "body": json.dumps(body, ensure_ascii=False),
        "received_at": now,
    }
    made = await tx.execute(insert(inbox).values(row).returning(inbox.c.id))
    return int(made.scalar_one())


async def recover(tx: AsyncConnection, *, now: float) -> None:
    """At start: what ran when the process died is new again; its turn goes on from what is stored.

    What was stored long before is as stale as what Telegram has kept for us since.
    """
    await tx.execute(update(inbox).where(inbox.c.state == "running").values(state="new"))
    waits = (
        (inbox.c.state == "new")
        & inbox.c.shape.in_(TURN_SHAPES)
        & (inbox.c.received_at < now - STALE_SECONDS)
    )
    was_parked = inbox.c.turn.is_not(None) & inbox.c.asked_at.is_not(None)  # it is a person who took so long
    await tx.execute(update(inbox).where(waits, ~was_parked).values(stale=True))


async def claim(tx: AsyncConnection, *, now: float) -> ClaimResult:
    """Take everything that may start: control items, and of each idle lane its oldest item with what joins
    it.
    """
    seen = (await tx.execute(_CLAIMABLE)).all()
    running = [row for row in seen if row.state == "running"]
    rows = [row for row in seen if row.state == "new"]
    busy = {row.lane: compute_begin_time(row) for row in running if row.lane}
    stopping = {row.sender for row in seen if row.shape == "stop"}
    taken, cutting, ripe_at = choose_claimable(rows, busy, stopping, now)
    taken = limit_due_tasks(taken, running)
    yielding = find_yielding_tasks(running, rows)
    cutting = [row for row in cutting if row.lane not in yielding]  # what gives way need not be cut
    ids = [row.id for group in taken for row in group]
    if ids:
        await tx.execute(_MARK_RUNNING, {"ids": ids, "now": now})
    if running or len(rows) > len(ids):
        await tx.execute(_MARK_SEEN, {"now": now})  # what waits behind these
    for row in cutting:
        await tx.execute(_MARK_STOPPED, {"of_lane": row.lane, "before": row.id})
    groups = tuple(tuple(_to_item(row, now) for row in group) for group in taken)
    cuts = tuple((Lane.parse(row.lane), int(row.id)) for row in cutting)
    left = len(rows) > len(ids) or len(seen) == _CLAIM_SCAN_ROWS
    return ClaimResult(
        groups, cuts, ripe_at, left, tuple((Lane.parse(lane), item) for lane, item in yielding.items())
    )


def _to_item(row: Row[Any], now: float) -> InboxItem:
    return InboxItem(
        id=row.id,
        kind=row.kind,
        shape=row.shape,
        lane=Lane.parse(row.lane) if row.lane else None,
        sender=row.sender,
        body=json.loads(row.body) if row.body else {},
        attempt=row.attempt + 1,
        stale=bool(row.stale),
        received_at=row.received_at,
        taken_at=now,
        has_turn=row.turn is not None,
        stored_spans=row.spans,
        job=row.job,
        due_at=row.due_at,
    )


async def mark_done(tx: AsyncConnection, ids: Sequence[int], *, spans: str | None = None, now: float) -> None:
    """These items are answered. `spans` is what was measured of their turn, kept with the first one."""
    row = {"ids": list(ids), "now": now}
    if spans is None:
        await tx.execute(_MARK_DONE, row)
    else:
        await tx.execute(_MARK_TURN_DONE, row | {"first": ids[0], "measured": spans})


async def count_attempt(tx: AsyncConnection, item: int) -> None:
    """Count this running item as taken once more: taking it was not synced, and what it is about to do is
    done once.
    """
    await tx.execute(update(inbox).where(inbox.c.id == item).values(attempt=inbox.c.attempt + 1))


async def release(tx: AsyncConnection, ids: Sequence[int]) -> None:
    """These running items gave way and are new again, which is no attempt that failed."""
    running = update(inbox).where(_ID_IN_IDS, inbox.c.state == "running")
    # One whose turn has begun keeps its first: the next is not that, and the turn stays in its conversation.
    attempt = case((and_(inbox.c.turn.is_not(None), inbox.c.attempt == 1), 1), else_=inbox.c.attempt - 1)
    await tx.execute(running.values(state="new", attempt=attempt), {"ids": list(ids)})


async def requeue(tx: AsyncConnection, item: int, lane: Lane, *, now: float) -> bool:
    """A /deep that waited for consent is to be answered after all; False if it waits no more, or is of
    another lane.

    The rest of a long paste was set aside with it and comes back with it.
    """
    mine = (
        (inbox.c.lane == lane.key)
        & (inbox.c.state == "done")
        & inbox.c.turn.is_(None)
        & inbox.c.error.is_(None)
    )
    asked = select(inbox.c.done_at).where(mine, inbox.c.id == item, inbox.c.shape == "deep").scalar_subquery()
    back = update(inbox).where(
        mine, inbox.c.id >= item, inbox.c.shape.in_(TURN_SHAPES), inbox.c.done_at == asked
    )
    asked_at = func.coalesce(inbox.c.asked_at, inbox.c.done_at)
    waited = {"asked_at": asked_at, "agreed_at": now, "retaken_at": None}
    return (await tx.execute(back.values(state="new", done_at=None, **waited))).rowcount > 0


async def store_error(tx: AsyncConnection, item: int, error: str) -> None:
    """Say of an item that is done why nothing came of it yet."""
    await tx.execute(update(inbox).where(inbox.c.id == item).values(error=error))


async def requeue_failed(tx: AsyncConnection, lane: Lane, *, error: str, since: float) -> bool:
    """Have the newest item of the lane that ended with this error since then done again; False if there is
    none.
    """
    mine = and_(inbox.c.lane == lane.key, inbox.c.error == error, inbox.c.received_at >= since)
    newest = select(inbox.c.id).where(mine, inbox.c.state == "done").order_by(inbox.c.id.desc()).limit(1)
    found = (await tx.execute(newest)).scalar()
    if found is None:
        return False
    again = {"kind": inbox.c.kind, "shape": inbox.c.shape, "lane": inbox.c.lane, "sender": inbox.c.sender}
    again |= {"body": inbox.c.body, "received_at": inbox.c.received_at}
    copied = select(*again.values()).where(inbox.c.id == found)
    await tx.execute(insert(inbox).from_select([*again], copied))
    await store_error(tx, found, "done again")
    return True


async def mark_dead(tx: AsyncConnection, ids: Sequence[int], *, error: str, now: float) -> bool:
    """These items cannot be handled; they are kept for admins to see. False if they were done before."""
    running = update(inbox).where(inbox.c.id.in_(ids), inbox.c.state == "running")
    return (await tx.execute(running.values(state="dead", done_at=now, error=error))).rowcount > 0


async def forget_body(tx: AsyncConnection, ids: Sequence[int]) -> None:
    """Drop what strangers wrote."""
    await tx.execute(update(inbox).where(inbox.c.id.in_(ids)).values(body=None))
