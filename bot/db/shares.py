"""Values of shares: who holds what, and the hold under which the caller works.

A hold begins once the share's lock is taken, and every transaction of work under it requires that it still
stands (share_holds.py).
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from bot.domain import Lane

PEER_SECONDS = 11.0
"""After so long a peer that is gone without a word is noticed, here and at the server, which then frees its
locks."""
_CONFIRMED_SECONDS = 3.0  # several looks; a server that is gone without a word frees no lock within it

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
    sessions of replicas that take no more shares. `schema`: of the database; None: it was not read.
    """

    session: int
    replicas: Mapping[int, int]
    shares: Mapping[int, int]
    leader: int | None
    leaving: frozenset[int] = frozenset()
    schema: str | None = None

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
        self._leads_since = math.inf  # epoch seconds
        self._led_until = -math.inf
        self.other_schema: str | None = None  # of the database, once that is not the one of this version
        self._confirmed_at = -math.inf  # monotonic
        self._has_unread: Callable[[], bool] = lambda: False

    def confirm(
        self, holders: LockHolders, moment: float, has_unread: Callable[[], bool] = lambda: False
    ) -> None:
        """Note who held what at this moment of the monotonic clock.

        `has_unread`: whether the session of the locks says something that was not read, perhaps its end.
        """
        if holders.is_leader:
            self._led_until = time.time()
            if self.holders is None or not self.holders.is_leader:
                self._leads_since = self._led_until
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
    def led_period(self) -> tuple[float, float]:
        """When this process led last (epoch seconds); open at the end while it did at the last look."""
        leads = self.holders is not None and self.holders.is_leader
        return self._leads_since, math.inf if leads else self._led_until

    @property
    def has_leader(self) -> bool:
        """Whether some process leads, and this one takes part."""
        return self.holders is not None and self.holders.leader is not None and self.is_confirmed()

    def count_replicas(self) -> int:
        """How many replicas took shares at the last look, this one included."""
        return max(1, len(self.holders.replicas)) if self.holders is not None else 1

    def has(self, lane: Lane) -> bool:
        """Whether a lane's chat belongs to these shares."""
        return lane.share in self.holds


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
