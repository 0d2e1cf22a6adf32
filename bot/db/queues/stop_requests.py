"""What a /stop, or a tap on Stop, does to the inbox: which turn it stops, and which messages it drops.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, true, update

from bot.db.queues.inbox import TURN_SHAPES
from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import Lane

_HAS_BEGUN = or_(inbox.c.state == "running", and_(inbox.c.state == "new", inbox.c.turn.is_not(None)))
_IS_WAITING = and_(inbox.c.state == "new", inbox.c.shape.in_(TURN_SHAPES), inbox.c.turn.is_(None))
_MAX_TRANSIT_SECONDS = 5.0  # from Telegram's date to ours, whose clocks may differ


@dataclass(frozen=True, slots=True)
class StopResult:
    """What a /stop found.

    `running`: a turn runs, or continues in a moment, and is stopped. `dropped` and `waiting` count messages
    it dropped and messages that still wait. `parked`: turns that wait for a person, where none runs.
    `was_late`: the turn that it meant has ended, and what waited behind that one goes on. `last_item`: the
    newest item of what is stopped.
    """

    running: bool
    dropped: int
    waiting: int
    parked: tuple[int, ...] = ()
    was_late: bool = False
    last_item: int | None = None


@dataclass(frozen=True, slots=True)
class StopCommand:
    """A /stop that somebody wrote.

    `sender`: it concerns only what this person sent (None: what anybody did).
    `sent_at`: when it was written, as Telegram says (None: unknown).
    """

    sender: int | None = None
    sent_at: float | None = None


async def stop(
    tx: Transaction, lane: Lane, *, before: int, now: float, command: StopCommand | None = None
) -> StopResult:
    """Apply the /stop of item `before`, which concerns only what came earlier in its lane.

    The turn that runs, or continues in a moment after a restart, is marked, and stays stopped. If there is
    none and a `command` was written, the lane's parked turns are returned for the caller to end. If there are
    none either, earlier waiting messages are dropped. What waited for a turn that has ended since the command
    was written is spared.
    """
    came_before = _came_before(lane, before)
    ended_at = await _find_end_since(tx, came_before, before, command.sent_at if command else None)
    is_meant = true() if ended_at is None else inbox.c.received_at >= ended_at
    earlier = and_(came_before, is_meant, _is_from(command.sender if command else None))
    marked = update(inbox).values(stopped=True)
    stopped = list[int]()
    if command is not None:
        # One turn is meant: of those that have begun, the one that runs goes before one that waits.
        is_running = inbox.c.state == "running"
        stopped = list((await tx.execute(marked.where(earlier, is_running).returning(inbox.c.id))).scalars())
    if not stopped:
        stopped = list((await tx.execute(marked.where(earlier, _HAS_BEGUN).returning(inbox.c.id))).scalars())
    goes_on = False
    if ended_at is not None and not stopped:
        waited_behind = and_(came_before, inbox.c.received_at < ended_at, or_(_HAS_BEGUN, _IS_WAITING))
        goes_on = (await tx.execute(select(inbox.c.id).where(waited_behind).limit(1))).first() is not None
    dropped = 0
    parked_turns = list[int]()
    if not stopped and not goes_on and command is not None:
        is_parked = and_(came_before, _is_from(command.sender), inbox.c.state == "parked")
        parked = select(inbox.c.turn).distinct().where(is_parked)
        parked_turns = list((await tx.execute(parked)).scalars())
    if not stopped and not parked_turns:
        dropped = await _drop(tx, earlier, now=now)
    still_waiting = select(func.count()).select_from(inbox).where(inbox.c.lane == lane.key, _IS_WAITING)
    waiting = (await tx.execute(still_waiting)).scalar_one()
    was_late = goes_on and not dropped
    last_item = max(stopped, default=None)
    return StopResult(bool(stopped), dropped, int(waiting), tuple(parked_turns), was_late, last_item)


async def stop_lane(tx: Transaction, lane: Lane) -> None:
    """Mark the turn that runs in the lane, or continues in a moment after a restart, as stopped."""
    await tx.execute(update(inbox).where(inbox.c.lane == lane.key, _HAS_BEGUN).values(stopped=True))


async def stop_turn(tx: Transaction, lane: Lane, item: int) -> bool | None:
    """Mark the turn that began with this item as stopped.

    True: it runs; False: it continues later, only to end; None: it is over.
    """
    turn_items = update(inbox).where(inbox.c.lane == lane.key, inbox.c.id == item, _HAS_BEGUN)
    marked = await tx.execute(turn_items.values(stopped=True).returning(inbox.c.state))
    state = marked.scalar_one_or_none()
    if state is None:
        return None
    return bool(state == "running")


async def drop_waiting(tx: Transaction, lane: Lane, *, before: int, now: float) -> int:
    """Drop the lane's waiting messages that came before item `before`; returns how many."""
    return await _drop(tx, _came_before(lane, before), now=now)


def _came_before(lane: Lane, item: int) -> ColumnElement[bool]:
    """The condition that a row of the lane came before this item.

    What waits behind a message that was edited is stored again with new numbers, but keeps Telegram's.
    """
    update_id = select(inbox.c.update_id).where(inbox.c.id == item).scalar_subquery()
    return and_(inbox.c.lane == lane.key, or_(inbox.c.id < item, inbox.c.update_id < update_id))


async def _drop(tx: Transaction, condition: ColumnElement[bool], *, now: float) -> int:
    waiting = update(inbox).where(condition, _IS_WAITING)
    dropped = await tx.execute(waiting.values(state="done", done_at=now, error="dropped by the person"))
    return dropped.rowcount


async def _find_end_since(
    tx: Transaction, came_before: ColumnElement[bool], stop_item: int, sent_at: float | None
) -> float | None:
    """Return when the turn ended by itself that ran as the /stop was written; None: none has since.

    Telegram's date has whole seconds: a turn that ended in the same second counts as having run. One that a
    /stop ended is not meant: its person has written a second one, for what runs now.
    """
    if sent_at is None:
        return None
    received_at = select(inbox.c.received_at).where(inbox.c.id == stop_item).scalar_subquery()
    has_ended_since = and_(
        inbox.c.state == "done",
        inbox.c.turn.is_not(None),
        inbox.c.stopped.is_(False),
        inbox.c.done_at >= sent_at,
        inbox.c.done_at >= received_at - _MAX_TRANSIT_SECONDS,
    )
    query = select(func.max(inbox.c.done_at)).where(came_before, has_ended_since)
    ended_at: float | None = (await tx.execute(query)).scalar_one()
    return ended_at


async def is_of_others(tx: Transaction, lane: Lane, item: int, person: int) -> bool:
    """Whether somebody else sent the item of this lane."""
    sender = select(inbox.c.sender).where(inbox.c.lane == lane.key, inbox.c.id == item)
    return (await tx.execute(sender)).scalar_one_or_none() not in {None, person}


async def has_work_of_others(tx: Transaction, lane: Lane, person: int) -> bool:
    """Whether something that somebody else asked runs or waits in the lane."""
    is_asked = and_(inbox.c.sender != person, inbox.c.shape.not_in(("new", "command")))
    is_pending = inbox.c.state.in_(("new", "running", "parked"))
    query = select(inbox.c.id).where(inbox.c.lane == lane.key, is_pending, is_asked).limit(1)
    return (await tx.execute(query)).first() is not None


def _is_from(sender: int | None) -> ColumnElement[bool]:
    return true() if sender is None else inbox.c.sender == sender
