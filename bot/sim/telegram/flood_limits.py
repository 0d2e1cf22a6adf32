"""Counts messages against Telegram's flood limits and names the seconds to wait; penalties grow when ignored.

Owns the token buckets; knows nothing of chats but their ids.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FloodRate:
    """`count` messages every `seconds`; `burst` of them may come at once."""

    count: float
    seconds: float
    burst: float


@dataclass(frozen=True, slots=True)
class FloodLimits:
    """What may be sent: overall, to one private chat, to one group, as drafts to one chat (None = unlimited).

    The first time a wait is ignored costs at least `penalty_seconds`, each further one twice as long up to
    `max_penalty_seconds`; after `calm_seconds` without one they are forgotten.
    """

    overall: FloodRate | None = FloodRate(30, 1, 30)
    private: FloodRate | None = FloodRate(1, 1, 4)
    group: FloodRate | None = FloodRate(20, 60, 20)
    drafts: FloodRate | None = FloodRate(2, 1, 10)
    penalty_seconds: float = 3.0
    max_penalty_seconds: float = 300.0
    calm_seconds: float = 60.0

    @classmethod
    def unlimited(cls) -> "FloodLimits":
        """No limit at all, for measuring."""
        return cls(overall=None, private=None, group=None, drafts=None)


@dataclass(slots=True)
class _Bucket:
    rate: FloodRate
    tokens: float
    counted_at: float
    closed_until: float = -math.inf
    strikes: int = 0

    def refill(self, now: float) -> None:
        gained = (now - self.counted_at) * self.rate.count / self.rate.seconds
        self.tokens = min(self.rate.burst, self.tokens + gained)
        self.counted_at = now

    def is_open(self, now: float) -> bool:
        return now >= self.closed_until and self.tokens >= 1


@dataclass(slots=True)
class FloodGate:
    """Accepts messages or names the seconds to wait; `now` gives seconds of a monotonic clock."""

    limits: FloodLimits
    now: Callable[[], float]
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def wait_for_message(self, chat_id: int, count: int = 1) -> int:
        """Count messages or an edit to this chat; 0 accepts them, else whole seconds to wait."""
        rate = self.limits.private if chat_id > 0 else self.limits.group
        return self._take({"all": self.limits.overall, f"chat {chat_id}": rate}, count)

    def wait_for_draft(self, chat_id: int) -> int:
        """Count one draft to this chat; 0 accepts it, else whole seconds to wait."""
        return self._take({f"draft {chat_id}": self.limits.drafts})

    def _take(self, rates: dict[str, FloodRate | None], count: int = 1) -> int:
        now = self.now()
        buckets = [self._bucket(name, rate, now) for name, rate in rates.items() if rate is not None]
        closed = [bucket for bucket in buckets if not bucket.is_open(now)]
        if closed:
            return max(self._refuse(bucket, now) for bucket in closed)
        for bucket in buckets:
            bucket.tokens -= count
        return 0

    def _bucket(self, name: str, rate: FloodRate, now: float) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(rate, rate.burst, now)
        bucket.refill(now)
        return bucket

    def _refuse(self, bucket: _Bucket, now: float) -> int:
        if now > bucket.closed_until + self.limits.calm_seconds:
            bucket.strikes = 0
        penalty = min(self.limits.penalty_seconds * 2**bucket.strikes, self.limits.max_penalty_seconds)
        until_token = (1 - bucket.tokens) * bucket.rate.seconds / bucket.rate.count
        bucket.strikes += 1
        wait = max(1, math.ceil(max(penalty, until_token)))
        bucket.closed_until = max(bucket.closed_until, now + wait)
        return math.ceil(bucket.closed_until - now)
