"""What a /stop, or a tap on Stop, means for the inbox: which turn it meets, and what it drops of what waits.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.queues.inbox import TURN_SHAPES
from bot.db.tables import inbox
from bot.domain import Lane

_HAS_BEGUN = or_(inbox.c.state == "running", and_(inbox.c.state == "new", inbox.c.turn.is_not(None)))
_IS_WAITING = and_(inbox.c.state == "new", inbox.c.shape.in_(TURN_SHAPES), inbox.c.turn.is_(None))


@dataclass(frozen=True, slots=True)
class StopResult:
    """What a /stop met: a running turn, parked ones where none runs, waiting messages that it dropped, and
    those that still wait.
    """

    running: bool
    dropped: int
    waiting: int
    parked: tuple[int, ...] = ()


async def stop(
    tx: AsyncConnection, lane: Lane, *, before: int, now: float, include_parked: bool = False
) -> StopResult:
    """A /stop of item `before`: it concerns only what came earlier.

    The turn that runs, or goes on in a moment after a restart, is marked, and stays stopped. When there is
    none, those that are `parked` are meant, which the caller ends; when there are none either, or they are
    not asked for, earlier waiting messages are dropped.
    """
    earlier = and_(inbox.c.lane == lane.key, inbox.c.id < before)
    marked = update(inbox).values(stopped=True)
    # Whoever asks for those that are `parked` means one turn: of what has begun, that which runs before what
    # waits.
    if include_parked:
        met = (await tx.execute(marked.where(earlier, inbox.c.state == "running"))).rowcount
    else:
        met = 0
    met = met or (await tx.execute(marked.where(earlier, _HAS_BEGUN))).rowcount
    dropped = 0
    waiting_turns = list[int]()
    if not met and include_parked:
        theirs = select(inbox.c.turn).distinct().where(earlier, inbox.c.state == "parked")
        waiting_turns = list((await tx.execute(theirs)).scalars())
    if not met and not waiting_turns:
        dropped = await drop_waiting(tx, lane, before=before, now=now)
    here = and_(inbox.c.lane == lane.key, _IS_WAITING)
    still = (await tx.execute(select(func.count()).select_from(inbox).where(here))).scalar_one()
    return StopResult(met > 0, dropped, int(still), tuple(waiting_turns))


async def stop_turn(tx: AsyncConnection, lane: Lane, item: int) -> bool | None:
    """The turn that began with this item is to stop: whether it runs, or goes on later; None: it is over."""
    mine = and_(inbox.c.lane == lane.key, inbox.c.id == item, _HAS_BEGUN)
    met = await tx.execute(update(inbox).where(mine).values(stopped=True).returning(inbox.c.state))
    state = met.scalar_one_or_none()
    if state is None:
        return None
    return bool(state == "running")


async def drop_waiting(tx: AsyncConnection, lane: Lane, *, before: int, now: float) -> int:
    """Drop the lane's waiting messages older than item `upto`; returns how many."""
    mine = and_(inbox.c.lane == lane.key, inbox.c.id < before, _IS_WAITING)
    gone = await tx.execute(
        update(inbox).where(mine).values(state="done", done_at=now, error="dropped by the person")
    )
    return gone.rowcount
