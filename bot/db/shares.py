"""Holds of shares, by which a replica that lost its chats can write nothing more for them.

A hold begins once the share's lock is taken, and every transaction of work under it requires that it still
stands. Functions work inside the caller's transaction `tx`.
"""

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Select, and_, bindparam, delete, exists, func, insert, select, tuple_, update

from bot.db.tables import lives, share_holds
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.errors import ShareLost

_current_hold: ContextVar["ShareHold | None"] = ContextVar("hold", default=None)


@dataclass(frozen=True, slots=True)
class ShareHold:
    """A share as one replica holds it; `epoch` counts the holds of the share."""

    share: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LiveReplica:
    """A replica whose locks stand, by the id of its life: the shares it holds, and whether it leads."""

    life: int
    shares: tuple[int, ...]
    is_leader: bool


@dataclass(frozen=True, slots=True)
class SettingDigest:
    """A setting by its number among those that must agree, and a digest of its value that a lock can have."""

    setting: int
    digest: int


@dataclass(frozen=True, slots=True)
class LockHolders:
    """Who holds what, as sessions, which PostgreSQL numbers.

    `session`: the one that asked. `replicas`: the sessions of those that take shares, by the ids of their
    lives. `shares`: the session of each share that is held. `leader`: None while nobody leads. `leaving`: the
    sessions of replicas that take no more shares.
    """

    session: int
    replicas: Mapping[int, int]
    shares: Mapping[int, int]
    leader: int | None
    leaving: frozenset[int] = frozenset()

    @property
    def is_leader(self) -> bool:
        """Whether this session leads."""
        return self.leader == self.session

    @property
    def own_shares(self) -> frozenset[int]:
        """The shares that this session holds."""
        return frozenset(share for share, session in self.shares.items() if session == self.session)

    def list_replicas(self) -> tuple[LiveReplica, ...]:
        """All live replicas, in the order in which they began."""
        return tuple(
            LiveReplica(
                life,
                tuple(sorted(share for share, holder in self.shares.items() if holder == session)),
                is_leader=self.leader == session,
            )
            for life, session in sorted(self.replicas.items())
        )


class OwnShares:
    """The shares this process works for; the share keeper changes `holds` and confirms them."""

    def __init__(self) -> None:
        self.life = 0  # of this process, once it is known
        self.holds: dict[int, ShareHold] = {}
        self.holders: LockHolders | None = None  # when the shares were last confirmed
        self.other_schema: str | None = None  # of the database, once that is not the one of this version
        self._confirmed_at = -math.inf  # monotonic
        self._has_unread: Callable[[], bool] = lambda: False

    def confirm(
        self, holders: LockHolders, moment: float, has_unread: Callable[[], bool] = lambda: False
    ) -> None:
        """Note who held what at this moment of the monotonic clock.

        `has_unread`: whether the session of the locks says something that was not read, perhaps its end.
        """
        self.holders = holders
        self._confirmed_at = moment
        self._has_unread = has_unread

    def is_confirmed(self) -> bool:
        """Whether it was lately certain: a process that was paused finds out before it goes on."""
        return time.monotonic() < self._confirmed_at + _CONFIRMED_SECONDS and not self._has_unread()

    @property
    def is_leader(self) -> bool:
        """Whether this process leads for certain."""
        return self.holders is not None and self.holders.is_leader and self.is_confirmed()

    @property
    def has_leader(self) -> bool:
        """Whether some process leads, and this one takes part."""
        return self.holders is not None and self.holders.leader is not None and self.is_confirmed()

    def has(self, lane: Lane) -> bool:
        """Whether a lane's chat belongs to these shares."""
        return lane.share in self.holds


_CONFIRMED_SECONDS = 3.0  # several looks; a server that is gone without a word frees no lock within it
_IS_REQUESTED = share_holds.c.share.in_(bindparam("numbers", expanding=True))
_NEWEST = select(share_holds.c.share, func.max(share_holds.c.epoch)).group_by(share_holds.c.share)
_SELECT_NEWEST = (
    select(share_holds)
    .where(_IS_REQUESTED, tuple_(share_holds.c.share, share_holds.c.epoch).in_(_NEWEST))
    .order_by(share_holds.c.share)
    .with_for_update()
)
_END = (
    update(share_holds)
    .where(share_holds.c.share == bindparam("of_share"), share_holds.c.ended_at.is_(None))
    .values(ended_at=bindparam("last_seen_at"))
)
_SELECT_STANDING = select(share_holds.c.share, share_holds.c.epoch).where(
    _IS_REQUESTED, share_holds.c.ended_at.is_(None)
)
# A replica that takes a share over waits for the transactions that share the lock of its hold's row.
_LOCK_STANDING = _SELECT_STANDING.with_for_update(read=True)

_LATER = share_holds.alias("later")
_HAS_EARLY_SUCCESSOR = exists().where(
    _LATER.c.share == share_holds.c.share,
    _LATER.c.epoch == share_holds.c.epoch + 1,
    _LATER.c.began_at < bindparam("before"),
)
_DELETE_OLD = delete(share_holds).where(_HAS_EARLY_SUCCESSOR)


async def take_over(
    tx: Transaction, numbers: Collection[int], life: int, *, now: float, kept: Collection[ShareHold] = ()
) -> list[ShareHold]:
    """Store that the process of `life`, which has the locks of these shares, holds them; returns its holds.

    Those of `kept`, its own, under which it still works, stay the same if nobody else had them since. A hold
    that was left standing ended with the last heartbeat of its process, which nothing can follow now.
    """
    newest = {row.share: row for row in await tx.execute(_SELECT_NEWEST, {"numbers": list(numbers)})}
    left_by = {row.life for row in newest.values() if row.ended_at is None}
    seen = await tx.execute(select(lives.c.id, lives.c.seen_at).where(lives.c.id.in_(left_by)))
    seen_at = {row.id: row.seen_at for row in seen}
    holds = []
    for number in sorted(numbers):
        last = newest.get(number)
        if last is not None and last.ended_at is None and ShareHold(number, last.epoch) in kept:
            holds.append(ShareHold(number, last.epoch))
            continue
        hold = ShareHold(number, last.epoch + 1 if last is not None else 1)
        if last is not None and last.ended_at is None:
            last_seen_at = min(now, max(last.began_at, seen_at[last.life]))
            await tx.execute(_END, {"of_share": number, "last_seen_at": last_seen_at})
        row = {"share": number, "epoch": hold.epoch, "life": life, "began_at": now}
        await tx.execute(insert(share_holds), row)
        holds.append(hold)
    return holds


async def end_holds(tx: Transaction, holds: Collection[ShareHold], *, now: float) -> None:
    """Store that these shares are given away: nothing is written under their holds any more."""
    await require(tx, holds)
    numbers = [hold.share for hold in holds]
    standing = and_(share_holds.c.share.in_(numbers), share_holds.c.ended_at.is_(None))
    await tx.execute(update(share_holds).where(standing).values(ended_at=now))


async def require(tx: Transaction, holds: Collection[ShareHold]) -> None:
    """Keep others from taking these shares over before `tx` ends; raises ShareLost if one has already."""
    if not (await lock_standing(tx, holds)).issuperset(holds):
        raise ShareLost


async def lock_standing(tx: Transaction, holds: Collection[ShareHold]) -> set[ShareHold]:
    """Those of these holds that stand, and keep standing until `tx` ends."""
    return await _list_standing(tx, _LOCK_STANDING, holds)


async def list_standing(tx: Transaction, holds: Collection[ShareHold]) -> set[ShareHold]:
    """Those of these holds that stand at this moment."""
    return await _list_standing(tx, _SELECT_STANDING, holds)


async def _list_standing(
    tx: Transaction, query: Select[tuple[int, int]], holds: Collection[ShareHold]
) -> set[ShareHold]:
    if not holds:
        return set()
    rows = await tx.execute(query, {"numbers": [hold.share for hold in holds]})
    return {ShareHold(row.share, row.epoch) for row in rows}.intersection(holds)


async def list_gaps(tx: Transaction, share: int, since: float) -> list[tuple[float, float]]:
    """The times in which no replica held the share, as (begin, end), that ended after `since`, in order.

    There is one for each time that it changed hands; if it was given away, it may be empty.
    """
    query = select(share_holds.c.began_at, share_holds.c.ended_at).where(share_holds.c.share == share)
    rows = (await tx.execute(query.order_by(share_holds.c.epoch))).all()
    gaps = [(earlier.ended_at, later.began_at) for earlier, later in pairwise(rows)]
    return [(begin, end) for begin, end in gaps if end > since]


async def delete_old(tx: Transaction, *, before: float) -> None:
    """Delete holds that say nothing of the times since `before`; the last one of each share stays."""
    await tx.execute(_DELETE_OLD, {"before": before})


@contextlib.contextmanager
def work_under(hold: ShareHold | None) -> Iterator[None]:
    """Require the hold in every write transaction of the block, and of the tasks that begin in it."""
    token = _current_hold.set(hold)
    try:
        yield
    finally:
        _current_hold.reset(token)


def find_current_hold() -> ShareHold | None:
    """The hold under which the caller works; None: it works for no chat, or nobody else can have it."""
    return _current_hold.get()
