"""Turns that wait for a person: parked, and brought back. Functions work inside the caller's transaction
`tx`.

A parked turn holds neither lane nor task: its items are neither new, nor running, nor done, until the answer
makes them new again. What came of earlier waits of the same turn is in its spans.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.conversations import turns as stored
from bot.db.queues import outbox
from bot.db.tables import inbox, turns
from bot.domain import Lane

_IS_WAITING = and_(inbox.c.turn.is_not(None), inbox.c.state.in_(("parked", "new")))


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """The last time something of a turn waited for a person: asked, answered, taken up again (epoch seconds)."""

    asked_at: float
    agreed_at: float
    retaken_at: float


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that was ended where it waited; `spans` is what was measured of it."""

    item: int
    lane: Lane
    spans: str | None


async def load_wait_times(tx: AsyncConnection, item: int) -> WaitTimes | None:
    """How long the item that began a turn has waited for a person before it was taken up again; None: it
    never did.
    """
    columns = (inbox.c.asked_at, inbox.c.agreed_at, inbox.c.retaken_at)
    asked_at, agreed_at, retaken_at = (await tx.execute(select(*columns).where(inbox.c.id == item))).one()
    if asked_at is None or agreed_at is None:
        return None
    return WaitTimes(asked_at, agreed_at, agreed_at if retaken_at is None else retaken_at)


async def is_any_stopped(tx: AsyncConnection, items: Sequence[int]) -> bool:
    """Whether a /stop has met one of these items, which run."""
    met = select(inbox.c.id).where(inbox.c.id.in_(items), inbox.c.stopped.is_(True)).limit(1)
    return (await tx.execute(met)).one_or_none() is not None


async def park(tx: AsyncConnection, turn: int, items: Sequence[int], *, spans: str, now: float) -> None:
    """The turn waits for a person from now on; `spans` is what was measured of it, earlier waits included."""
    await tx.execute(update(turns).where(turns.c.id == turn).values(state="parked"))
    asked = {"asked_at": now, "agreed_at": None, "retaken_at": None}
    await tx.execute(update(inbox).where(inbox.c.id.in_(items)).values(state="parked", **asked))
    await tx.execute(update(inbox).where(inbox.c.id == items[0]).values(spans=spans))


async def resume(tx: AsyncConnection, turn: int, *, stopped: bool, now: float) -> None:
    """The turn goes on when its lane is free; `stopped`: it comes to its end then."""
    await tx.execute(
        update(turns).where(turns.c.id == turn, turns.c.state == "parked").values(state="running")
    )
    # Waiting is no failed attempt; but it has begun, so the next is not its first.
    back = {"state": "new", "agreed_at": now, "attempt": 1} | ({"stopped": True} if stopped else {})
    mine = update(inbox).where(inbox.c.turn == turn, inbox.c.state == "parked")
    await tx.execute(mine.values(back))


async def list_parked_turns(tx: AsyncConnection, lane: Lane, *, before: int) -> list[int]:
    """The parked turns of a lane that began before inbox item `before`."""
    here = and_(turns.c.lane == lane.key, turns.c.state == "parked", turns.c.item < before)
    return list((await tx.execute(select(turns.c.id).where(here).order_by(turns.c.id))).scalars())


async def end_waiting_turns(tx: AsyncConnection, person: int, *, reason: str, now: float) -> list[EndedTurn]:
    """Turns of a person that wait, for somebody or to be taken up again, end without an answer."""
    theirs = and_(turns.c.person == person, or_(turns.c.state == "parked", turns.c.state == "running"))
    waiting = select(turns.c.id, turns.c.item, turns.c.lane).join(inbox, inbox.c.id == turns.c.item)
    found = (await tx.execute(waiting.where(theirs, _IS_WAITING))).all()
    ended = []
    for turn, item, lane in found:
        await stored.fail(tx, item, reason=reason, now=now)
        await outbox.add(
            tx, item=item, lane=Lane.parse(lane), parts=(), now=now
        )  # what it has shown is taken back
        agreed = {"agreed_at": now, "retaken_at": now}
        await tx.execute(
            update(inbox).where(
                inbox.c.turn == turn, inbox.c.agreed_at.is_(None), inbox.c.asked_at.is_not(None)
            ),
            agreed,
        )
        over = update(inbox).where(inbox.c.turn == turn, inbox.c.state.in_(("parked", "new")))
        await tx.execute(over.values(state="done", done_at=now, error=reason))
        spans = (await tx.execute(select(inbox.c.spans).where(inbox.c.id == item))).scalar_one()
        ended.append(EndedTurn(item, Lane.parse(lane), spans))
    return ended
