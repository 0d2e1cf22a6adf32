"""Decides which shares a replica takes and gives away, so that each has an equal part. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from bot.db.shares import LockHolders
from bot.domain import SHARE_COUNT


@dataclass(frozen=True, slots=True)
class SharePlan:
    """What to take, and what to give away."""

    take: tuple[int, ...] = ()
    give: tuple[int, ...] = ()


def plan_shares(holders: LockHolders, busy_shares: Collection[int], *, leaves: bool = False) -> SharePlan:
    """Plan the next step to an equal part for each replica; one that `leaves` keeps none.

    Only shares without work are given away; a later plan gives what has work now. Each session begins at
    another one of those that are free, so that several replicas seldom ask for the same.
    """
    own = holders.own_shares
    staying = set(holders.replicas.values()) - holders.leaving
    part = 0 if leaves else -(-SHARE_COUNT // max(1, len(staying)))
    if len(own) > part:
        idle = sorted(own.difference(busy_shares))
        return SharePlan(give=tuple(idle[: len(own) - part]))
    free = sorted(set(range(SHARE_COUNT)).difference(holders.shares))
    first = holders.session % max(1, len(free))
    return SharePlan(take=tuple((free[first:] + free[:first])[: part - len(own)]))
