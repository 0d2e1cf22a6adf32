"""Stores holds of shares, by which a replica that lost its chats can write nothing more for them.

Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Collection
from itertools import pairwise

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    tuple_,
    update,
)

from bot.db.portable_sql import ListMembership
from bot.db.shares import ShareHold
from bot.db.tables import lives, share_holds
from bot.db.transaction import Transaction
from bot.domain import SHARE_COUNT
from bot.errors import ShareLost

_IS_REQUESTED = ListMembership(share_holds.c.share, "numbers")
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


def require_standing(share: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether the share of a row is held under one of the holds `hold_keys`; it stays so until `tx` ends.

    For the WHERE of a statement that changes rows: it saves the trip that `require` takes. PostgreSQL only.
    """
    is_held = and_(
        share_holds.c.share == share,
        share_holds.c.ended_at.is_(None),
        ListMembership(share_holds.c.epoch * SHARE_COUNT + share_holds.c.share, "hold_keys"),
    )
    return exists(select(share_holds.c.share).where(is_held).with_for_update(read=True))


def compute_keys(holds: Collection[ShareHold]) -> list[int]:
    """What `require_standing` knows these holds by."""
    return [hold.epoch * SHARE_COUNT + hold.share for hold in holds]


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
