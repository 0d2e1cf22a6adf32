"""The inbox: what is to be done, stored before its arrival is confirmed to Telegram.

An item goes new → running → done, or dead when it cannot be handled; it is parked while a person is asked.
Functions work inside the caller's transaction `tx`, and note the shares of items that may be claimed.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, bindparam, case, func, insert, literal, or_, select, true, update

from bot.db import share_holds
from bot.db.portable_sql import ListMembership
from bot.db.queues.claim import (
    MAX_GROUP_BYTES,
    choose_claimable,
    compute_begin_time,
    find_cutting_edits,
    find_rows_to_measure,
    find_yielding_tasks,
    limit_due_tasks,
    measure_body,
)
from bot.db.revisions import REVISION_SUM
from bot.db.shares import ShareHold
from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import InboxItem, ItemKind, ItemShape, Lane
from bot.errors import ShareLost

TURN_SHAPES: tuple[ItemShape, ...] = ("text", "deep")  # what a turn answers

# A message older than this when it is fetched, or when the gateway starts, waited while the gateway was down.
STALE_SECONDS = 600
_CLAIM_SCAN_ROWS = 5000  # rows a claim looks at; the rest is looked at when these are done

# As updates are stored: what begins a topic that its person gave no name, and what says that they have.
_HAS_IMPLICIT_NAME = inbox.c.body.like('%"is_name_implicit":true%')
_HAS_OTHER_NAME = inbox.c.body.like('%"forum_topic_edited":%')

# Statements that every message needs are built once: building one costs more than running it.
# The claim query. It reads, oldest first, what runs and what might start; claim.py decides about each row.
#   Running rows keep their lane busy, and a due task among them may have to yield to a person.
#   New rows are left out while another item of their lane runs: a lane never has two turns at a time, and
#   messages that wait in busy lanes do not fill the scan. They are read all the same
#     if they have no lane: a control item (/stop, a tap) waits for nothing,
#     if they are a /new or an edit, which may cut what runs in their lane,
#     or if a due task holds their lane, because a person's message makes that task yield.
# The index on (state, lane, id) serves both halves, so that done rows, nearly all of the table, cost nothing.
# No row needs a lock: a lane is of one process, whose claims run one at a time.
_BUSY_LANES = select(inbox.c.lane).where(inbox.c.state == "running", inbox.c.lane.is_not(None))
_IS_TASK_OF_JOB = and_(inbox.c.kind == "task", inbox.c.job.is_not(None))
_IS_DUE_TASK = or_(_IS_TASK_OF_JOB, inbox.c.kind == "hook")  # people's messages go before it
_YIELDING_LANES = select(inbox.c.lane).where(inbox.c.state == "running", _IS_DUE_TASK)
_LANE_IS_FREE = or_(
    inbox.c.lane.is_(None),
    inbox.c.lane.not_in(_BUSY_LANES),
    inbox.c.shape.in_((literal("new"), literal("edit"))),  # a list of values is expanded for each execution
    inbox.c.lane.in_(_YIELDING_LANES),
)
# Thousands of rows may wait after an outage: bodies are read only of those that may start.
_HAS_BEGUN = inbox.c.state == "running"
_MAY_START = and_(inbox.c.state == "new", _LANE_IS_FREE)
_SELECT_WITHOUT_BODY = (
    select(*(column for column in inbox.c if column is not inbox.c.body))
    .order_by(inbox.c.id)
    .limit(_CLAIM_SCAN_ROWS)
)
_CLAIMABLE = _SELECT_WITHOUT_BODY.where(or_(_HAS_BEGUN, _MAY_START))
_IS_OF_SHARES = ListMembership(inbox.c.share, "shares")
# What other replicas changed before these rows were stored is counted in what this one statement reads.
_CLAIMABLE_OF_SHARES = _SELECT_WITHOUT_BODY.add_columns(REVISION_SUM).where(
    or_(_HAS_BEGUN, and_(_MAY_START, _IS_OF_SHARES))
)
_ID_IN_IDS = ListMembership(inbox.c.id, "ids")
_SELECT_BODIES = select(inbox.c.id, inbox.c.body).where(_ID_IN_IDS)

# The first claim of an item, and the first one after an approval, are timed; later attempts keep those times.
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
    .returning(inbox.c.id, inbox.c.body)
)
_MARK_RUNNING_UNDER_HOLDS = _MARK_RUNNING.where(share_holds.require_standing(inbox.c.share))

# Every new item that is left after a claim waits for its lane from now on; only the first time counts.
_MARK_SEEN = (
    update(inbox).where(inbox.c.state == "new", inbox.c.seen_at.is_(None)).values(seen_at=bindparam("now"))
)
_MARK_SEEN_OF_SHARES = _MARK_SEEN.where(_IS_OF_SHARES)
_MARK_DONE = update(inbox).where(_ID_IN_IDS).values(state="done", done_at=bindparam("now"))
# Spans belong to the turn, which is known by its first item; the CASE has no ELSE, so the others get NULL.
_MARK_TURN_DONE = _MARK_DONE.values(spans=case((inbox.c.id == bindparam("first"), bindparam("measured"))))

# A /new stops what runs in its lane, unless that was queued after the /new; so does an edit of its message.
_MARK_STOPPED = (
    update(inbox)
    .where(inbox.c.lane == bindparam("of_lane"), inbox.c.id < bindparam("before"))
    .where(inbox.c.state == "running", inbox.c.stopped.is_(False))
    .values(stopped=True)
)


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What the worker may start now, what it has to interrupt, and what has to wait.

    `groups`: items to start, those of one group answered together.
    `cutting_items`: each /new that interrupts its busy lane.
    `cutting_edits`: each edit of a message that is being answered.
    `held_until`: when the first lane that waits for the rest of a paste may start (epoch seconds).
    `has_waiting`: the claim saw items that have to wait.
    `yielding_items`: running due tasks that yield to a person's message.
    `revision`: the sum of all revisions as of this claim, where other replicas change them.
    """

    groups: tuple[tuple[InboxItem, ...], ...]
    cutting_items: tuple[tuple[Lane, int], ...]
    held_until: float | None
    has_waiting: bool
    yielding_items: tuple[tuple[Lane, int], ...] = ()
    cutting_edits: tuple[tuple[Lane, int], ...] = ()
    revision: int | None = None


async def is_lane_busy(tx: Transaction, lane: Lane) -> bool:
    """Whether something of the lane waits or is being answered."""
    query = select(inbox.c.id).where(inbox.c.lane == lane.key, inbox.c.state.in_(("new", "running"))).limit(1)
    return (await tx.execute(query)).one_or_none() is not None


async def add(
    tx: Transaction,
    *,
    kind: ItemKind,
    lane: Lane | None,
    sender: int | None,
    body: Mapping[str, Any],
    now: float,
) -> int:
    """Store an item that no update brought; returns its id."""
    row = {
        "kind": kind,
        "shape": "other",
        "lane": lane.key if lane else None,
        "sender": sender,
        "body": json.dumps(body, ensure_ascii=False),
        "received_at": now,
    }
    inserted = (await tx.execute(insert(inbox).values(row).returning(inbox.c.id, inbox.c.share))).one()
    tx.changes.note_inbox([inserted.share])
    return int(inserted.id)


async def recover(tx: Transaction, *, now: float, shares: Collection[int] | None = None) -> None:
    """Set what ran when its process died to new; its turn continues from what is stored.

    Only what belongs to `shares`; None: to any, at the start of a process that has all. Messages stored more
    than STALE_SECONDS ago become stale, as those are that Telegram kept for as long.
    """
    is_taken_over = true() if shares is None else inbox.c.share.in_(shares)
    was_running = update(inbox).where(is_taken_over, inbox.c.state == "running")
    recovered = await tx.execute(was_running.values(state="new").returning(inbox.c.share))
    tx.changes.note_inbox(recovered.scalars())
    is_old = (
        (inbox.c.state == "new")
        & inbox.c.shape.in_(TURN_SHAPES)
        & (inbox.c.received_at < now - STALE_SECONDS)
    )
    # A turn that waited for an approval is not stale: a person took that long, not the gateway.
    was_parked = inbox.c.turn.is_not(None) & inbox.c.asked_at.is_not(None)
    await tx.execute(update(inbox).where(is_taken_over, is_old, ~was_parked).values(stale=True))


async def claim(
    tx: Transaction,
    *,
    now: float,
    max_group_bytes: int = MAX_GROUP_BYTES,
    holds: Collection[ShareHold] | None = None,
) -> ClaimResult:
    """Claim everything of the shares that are held (None: of all) that may start; mark turns a /new cuts.

    What may start: control items, and of each idle lane its oldest item with those answered together with it.
    The texts of a group take `max_group_bytes` at most. Raises ShareLost if another replica has the share of
    something that might start; none of them can be taken over before `tx` ends.
    """
    misplaced: set[int] = set()
    shares: list[int] | None = None
    if holds is None:
        rows = (await tx.execute(_CLAIMABLE)).all()
    else:
        shares = [hold.share for hold in holds]
        rows = (await tx.execute(_CLAIMABLE_OF_SHARES, {"shares": shares})).all()
        misplaced = await _move_misplaced(tx, rows)
    running = [row for row in rows if row.state == "running"]
    waiting = [row for row in rows if row.state == "new" and row.id not in misplaced]
    busy_lanes = {row.lane: compute_begin_time(row) for row in running if row.lane}
    stopping_senders = {row.sender for row in rows if row.shape == "stop"}
    text_sizes = await _measure_texts(tx, find_rows_to_measure(waiting, busy_lanes, max_group_bytes))
    groups, cutting, held_until = choose_claimable(
        waiting, busy_lanes, stopping_senders, now, max_group_bytes, text_sizes
    )
    groups = limit_due_tasks(groups, running)
    yielding = find_yielding_tasks(running, waiting)
    cutting = [row for row in cutting if row.lane not in yielding]  # a task that yields need not be cut
    ids = [row.id for group in groups for row in group]
    bodies = await _mark_running(tx, ids, holds, now)
    if running or len(waiting) > len(ids):
        await _mark_seen(tx, now, shares)
    cutting_edits = find_cutting_edits(running, waiting)
    for row in (*cutting, *cutting_edits):
        await tx.execute(_MARK_STOPPED, {"of_lane": row.lane, "before": row.id})
    return ClaimResult(
        groups=tuple(tuple(_to_item(row, bodies[row.id], now) for row in group) for group in groups),
        cutting_items=tuple((Lane.parse(row.lane), int(row.id)) for row in cutting),
        cutting_edits=tuple((Lane.parse(row.lane), int(row.id)) for row in cutting_edits),
        held_until=held_until,
        has_waiting=len(waiting) > len(ids) or len(rows) == _CLAIM_SCAN_ROWS,
        yielding_items=tuple((Lane.parse(lane), item) for lane, item in yielding.items()),
        revision=rows[0].revision if rows and holds is not None else None,
    )


async def _mark_running(
    tx: Transaction, ids: Sequence[int], holds: Collection[ShareHold] | None, now: float
) -> dict[int, str | None]:
    """Mark items as running; returns their bodies. Raises ShareLost."""
    if not ids:
        return {}
    if holds is None:
        marked = await tx.execute(_MARK_RUNNING, {"ids": ids, "now": now})
    else:
        hold_keys = share_holds.compute_keys(holds)
        marked = await tx.execute(_MARK_RUNNING_UNDER_HOLDS, {"ids": ids, "now": now, "hold_keys": hold_keys})
    bodies = {row.id: row.body for row in marked}
    if len(bodies) < len(ids):
        raise ShareLost
    return bodies


async def _move_misplaced(tx: Transaction, rows: Sequence[Row[Any]]) -> set[int]:
    """Give waiting items whose group has got another number to the share of that; returns them."""
    share_by_item = {row.id: Lane.parse(row.lane).share for row in rows if row.lane and row.state == "new"}
    misplaced = {row.id for row in rows if share_by_item.get(row.id, row.share) != row.share}
    for item in misplaced:
        await tx.execute(update(inbox).where(inbox.c.id == item).values(share=share_by_item[item]))
        tx.changes.note_inbox([share_by_item[item]])
    return misplaced


async def _mark_seen(tx: Transaction, now: float, shares: Sequence[int] | None) -> None:
    if shares is None:
        await tx.execute(_MARK_SEEN, {"now": now})
    else:
        await tx.execute(_MARK_SEEN_OF_SHARES, {"now": now, "shares": shares})


async def _measure_texts(tx: Transaction, ids: Sequence[int]) -> dict[int, int]:
    if not ids:
        return {}
    return {row.id: measure_body(row.body) for row in await tx.execute(_SELECT_BODIES, {"ids": ids})}


def _to_item(row: Row[Any], body: str | None, now: float) -> InboxItem:
    return InboxItem(
        id=row.id,
        kind=row.kind,
        shape=row.shape,
        lane=Lane.parse(row.lane) if row.lane else None,
        sender=row.sender,
        body=json.loads(body) if body else {},
        attempt=row.attempt + 1,
        stale=bool(row.stale),
        received_at=row.received_at,
        taken_at=now,
        has_turn=row.turn is not None,
        stored_spans=row.spans,
        job=row.job,
        due_at=row.due_at,
        share=row.share,
    )


async def mark_done(tx: Transaction, ids: Sequence[int], *, spans: str | None = None, now: float) -> None:
    """Mark items as answered. `spans` (JSON) is what was measured of their turn, kept with the first item."""
    row = {"ids": list(ids), "now": now}
    if spans is None:
        await tx.execute(_MARK_DONE, row)
    else:
        await tx.execute(_MARK_TURN_DONE, row | {"first": ids[0], "measured": spans})


async def count_attempt(tx: Transaction, item: int) -> None:
    """Count one attempt more for a running item before it does something that must happen at most once.

    Its claim was not synced to the disk: after a power cut the attempt would not be counted.
    """
    await tx.execute(update(inbox).where(inbox.c.id == item).values(attempt=inbox.c.attempt + 1))


async def release(tx: Transaction, ids: Sequence[int]) -> None:
    """Set running items that gave way back to new; this counts as no attempt."""
    running = update(inbox).where(_ID_IN_IDS, inbox.c.state == "running")
    # An item whose turn has begun keeps its first attempt: the next claim is not the first one, and the turn
    # stays in its conversation.
    attempt = case((and_(inbox.c.turn.is_not(None), inbox.c.attempt == 1), 1), else_=inbox.c.attempt - 1)
    released = running.values(state="new", attempt=attempt).returning(inbox.c.share)
    tx.changes.note_inbox((await tx.execute(released, {"ids": list(ids)})).scalars())


async def mark_dead(tx: Transaction, ids: Sequence[int], *, error: str, now: float) -> bool:
    """Mark running items as dead letters, kept for admins to see; False if they were done before."""
    running = update(inbox).where(inbox.c.id.in_(ids), inbox.c.state == "running")
    return (await tx.execute(running.values(state="dead", done_at=now, error=error))).rowcount > 0


async def forget_body(tx: Transaction, ids: Sequence[int]) -> None:
    """Delete the bodies of items, which strangers wrote."""
    await tx.execute(update(inbox).where(inbox.c.id.in_(ids)).values(body=None))


async def find_untitled_topic(tx: Transaction, lane: Lane) -> int | None:
    """The item that began a private chat's topic whose name is still the app's; None: that is to stay.

    Once the body of that item is deleted, this is None.
    """
    is_root = and_(inbox.c.lane == lane.key, inbox.c.message_id == lane.topic)
    roots = (await tx.execute(select(inbox.c.id).where(is_root, _HAS_IMPLICIT_NAME))).scalars().all()
    if len(roots) != 1:
        return None
    # Only until the topic has its name: this reads all that was written in it.
    is_renaming = and_(inbox.c.lane == lane.key, inbox.c.message_id.is_not(None), _HAS_OTHER_NAME)
    is_renamed = (await tx.execute(select(inbox.c.id).where(is_renaming).limit(1))).first() is not None
    return None if is_renamed else roots[0]
