"""Turns that wait for a person's approval: parked, resumed, or ended where they wait.

A parked turn holds neither its lane nor a task: its items are neither new, nor running, nor done, until the
answer makes them new again. Earlier waits of the same turn are in its spans. Functions work inside the
caller's transaction `tx`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, or_, select, update

from bot.db.conversations.turns import fail
from bot.db.queues import outbox
from bot.db.tables import inbox, turns
from bot.db.transaction import Transaction
from bot.domain import Lane

_IS_WAITING = and_(inbox.c.turn.is_not(None), inbox.c.state.in_(("parked", "new")))


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """The last wait of a turn for a person: asked, answered, claimed again (epoch seconds)."""

    asked_at: float
    agreed_at: float
    retaken_at: float


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that was ended while it waited; `spans` (JSON) is what was measured of it."""

    item: int
    lane: Lane
    spans: str | None


async def load_wait_times(tx: Transaction, item: int) -> WaitTimes | None:
    """When the item that began a turn waited for a person; None: it never did, or still waits."""
    columns = (inbox.c.asked_at, inbox.c.agreed_at, inbox.c.retaken_at)
    asked_at, agreed_at, retaken_at = (await tx.execute(select(*columns).where(inbox.c.id == item))).one()
    if asked_at is None or agreed_at is None:
        return None
    if retaken_at is None:
        retaken_at = agreed_at
    return WaitTimes(asked_at, agreed_at, retaken_at)


async def is_any_stopped(tx: Transaction, items: Sequence[int]) -> bool:
    """Whether a /stop concerns one of these running items."""
    stopped = select(inbox.c.id).where(inbox.c.id.in_(items), inbox.c.stopped.is_(True)).limit(1)
    return (await tx.execute(stopped)).one_or_none() is not None


async def park(tx: Transaction, turn: int, items: Sequence[int], *, spans: str, now: float) -> None:
    """Park a turn until a person answers; `spans` (JSON) is what was measured of it, earlier waits too."""
    await tx.execute(update(turns).where(turns.c.id == turn).values(state="parked"))
    wait_times = {"asked_at": now, "agreed_at": None, "retaken_at": None}
    await tx.execute(update(inbox).where(inbox.c.id.in_(items)).values(state="parked", **wait_times))
    await tx.execute(update(inbox).where(inbox.c.id == items[0]).values(spans=spans))


async def resume(tx: Transaction, turn: int, *, stopped: bool, now: float) -> None:
    """Let a parked turn continue once its lane is free; `stopped`: only to end there."""
    await tx.execute(
        update(turns).where(turns.c.id == turn, turns.c.state == "parked").values(state="running")
    )
    # Waiting is no failed attempt, but the turn has begun: the next claim is not its first attempt.
    values: dict[str, object] = {"state": "new", "agreed_at": now, "attempt": 1}
    if stopped:
        values["stopped"] = True
    parked = update(inbox).where(inbox.c.turn == turn, inbox.c.state == "parked")
    resumed = await tx.execute(parked.values(values).returning(inbox.c.share))
    tx.changes.note_inbox(resumed.scalars())


async def list_parked_turns(tx: Transaction, lane: Lane, *, before: int) -> list[int]:
    """The parked turns of a lane that began before inbox item `before`."""
    parked = and_(turns.c.lane == lane.key, turns.c.state == "parked", turns.c.item < before)
    return list((await tx.execute(select(turns.c.id).where(parked).order_by(turns.c.id))).scalars())


async def end_waiting_turns(tx: Transaction, person: int, *, reason: str, now: float) -> list[EndedTurn]:
    """End a person's turns that wait for an answer, or to be claimed again, without an answer."""
    return await _end_waiting(tx, turns.c.person == person, reason=reason, now=now)


async def end_turns(tx: Transaction, turn_ids: Sequence[int], *, reason: str, now: float) -> list[EndedTurn]:
    """End those of these turns that wait for an answer, or to be claimed again, without an answer."""
    return await _end_waiting(tx, turns.c.id.in_(turn_ids), reason=reason, now=now)


async def _end_waiting(
    tx: Transaction, condition: ColumnElement[bool], *, reason: str, now: float
) -> list[EndedTurn]:
    has_not_ended = or_(turns.c.state == "parked", turns.c.state == "running")
    query = select(turns.c.id, turns.c.item, turns.c.lane).join(inbox, inbox.c.id == turns.c.item)
    rows = (await tx.execute(query.where(condition, has_not_ended, _IS_WAITING))).all()
    ended = []
    for turn, item, lane in rows:
        await fail(tx, item, reason=reason, now=now)
        # No parts: what the turn has shown so far is taken back.
        await outbox.add(tx, item=item, lane=Lane.parse(lane), parts=(), now=now)
        unanswered = update(inbox).where(
            inbox.c.turn == turn, inbox.c.agreed_at.is_(None), inbox.c.asked_at.is_not(None)
        )
        await tx.execute(unanswered, {"agreed_at": now, "retaken_at": now})
        waiting = update(inbox).where(inbox.c.turn == turn, inbox.c.state.in_(("parked", "new")))
        await tx.execute(waiting.values(state="done", done_at=now, error=reason))
        spans = (await tx.execute(select(inbox.c.spans).where(inbox.c.id == item))).scalar_one()
        ended.append(EndedTurn(item, Lane.parse(lane), spans))
    return ended
