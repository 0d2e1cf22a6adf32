"""How often Telegram may be called: overall, in one chat, and for the progress of a running turn.

Pure: the time is passed in (seconds of any monotonic clock). Progress leaves capacity for what must arrive.
"""

from dataclasses import dataclass, field

_SLOW_SECONDS = 30.0  # all calls are slowed this long after two chats were flooded
_SAME_FLOOD_SECONDS = 5.0  # refusals of two chats within this time are one overall flood
_RESERVED_CALLS = 5  # of the overall burst, which progress never uses
_CHATS_BEFORE_SWEEP = 256


@dataclass(frozen=True, slots=True)
class CallRate:
    """`burst` calls at once, then one every `interval` seconds."""

    interval_seconds: float
    burst: int


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What we allow ourselves, a little below what Telegram's FAQ names (30/s; 1/s a chat; 20/min a group).

    `…_edit_gap`: minimum seconds between two edits of one message.
    `long_status_seconds`: an answer does not replace a status line that stood so long by an edit, which makes
    no sound, but comes as a new message.
    """

    overall: CallRate = CallRate(1 / 25, 25)
    private: CallRate = CallRate(1.0, 3)
    group: CallRate = CallRate(4.0, 5)
    group_progress: CallRate = CallRate(6.6, 3)
    private_edit_gap: float = 1.5
    group_edit_gap: float = 4.0
    long_status_seconds: float = 20.0

    def get_edit_gap(self, chat: int, length: int) -> float:
        """Return the minimum seconds between two edits of a message of `length` characters."""
        if chat > 0:
            return max(self.private_edit_gap, length / 2000)
        return self.group_edit_gap


@dataclass(slots=True)
class TokenBucket:
    """A token bucket, stored as the moment `full_at` at which it will be full again."""

    rate: CallRate
    full_at: float = 0.0

    def get_wait_seconds(self, now: float, reserve: int = 0) -> float:
        """Return the seconds until a call may be made that leaves `reserve` others."""
        slack_seconds = (self.rate.burst - 1 - reserve) * self.rate.interval_seconds
        return max(0.0, round(self.full_at - now - slack_seconds, 6))

    def spend(self, now: float, calls: float = 1.0) -> None:
        """Count calls; a negative number gives them back."""
        self.full_at = max(self.full_at, now) + calls * self.rate.interval_seconds


@dataclass(slots=True)
class _ChatBudget:
    calls: TokenBucket
    progress: TokenBucket | None
    blocked_until: float = 0.0

    def is_idle(self, now: float) -> bool:
        if self.progress is not None and self.progress.full_at > now:
            return False
        return max(self.calls.full_at, self.blocked_until) <= now


@dataclass(slots=True)
class RateBudget:
    """The budget of all calls to Telegram.

    `is_progress` marks calls that need not be made: typing signs, drafts, unfinished texts.
    """

    limits: RateLimits
    _overall: TokenBucket = field(init=False)
    _reserved_calls: int = _RESERVED_CALLS
    _chats: dict[int, _ChatBudget] = field(default_factory=dict)
    _last_flood: tuple[int, float] | None = None
    _slow_until: float = 0.0
    _sweep_at: int = _CHATS_BEFORE_SWEEP

    def __post_init__(self) -> None:
        self._overall = TokenBucket(self.limits.overall)

    def __len__(self) -> int:
        """The number of chats that are remembered."""
        return len(self._chats)

    def divide_overall(self, replicas: int) -> None:
        """Use an equal part of the overall limit: so many replicas call Telegram for one bot."""
        rate = self.limits.overall
        self._overall.rate = CallRate(rate.interval_seconds * replicas, max(1, rate.burst // replicas))
        self._reserved_calls = _RESERVED_CALLS // replicas

    def get_chat_wait_seconds(self, chat: int, now: float, *, is_progress: bool = False) -> float:
        """Return the seconds until this chat may be called, as far as it alone is concerned."""
        budget = self._chats.get(chat)
        if budget is None:
            return 0.0
        waits = [
            budget.blocked_until - now,
            budget.calls.get_wait_seconds(now, reserve=1 if is_progress else 0),
        ]
        if is_progress and budget.progress is not None:
            waits.append(budget.progress.get_wait_seconds(now))
        return max(0.0, *waits)

    def get_overall_wait_seconds(self, now: float, *, is_progress: bool = False) -> float:
        """Return the seconds until any chat may be called."""
        return self._overall.get_wait_seconds(now, reserve=self._reserved_calls if is_progress else 0)

    def spend(self, chat: int, now: float, *, is_progress: bool = False) -> None:
        """Count a call that is about to be made."""
        budget = self._chats.get(chat) or self._add_chat(chat, now)
        budget.calls.spend(now)
        if is_progress and budget.progress is not None:
            budget.progress.spend(now)
        self._overall.spend(now, 2.0 if now < self._slow_until else 1.0)

    def refund(self, chat: int, now: float) -> None:
        """Give back a call that was counted and then not made."""
        if chat in self._chats:
            self._chats[chat].calls.spend(now, -1.0)
            self._overall.spend(now, -1.0)

    def back_off(self, chat: int, seconds: float, now: float) -> None:
        """Block a chat that Telegram refused for that long; two chats at once slow all calls for a while."""
        budget = self._chats.get(chat) or self._add_chat(chat, now)
        budget.blocked_until = max(budget.blocked_until, now + seconds)
        if self._last_flood is not None:
            last_chat, last_flood_at = self._last_flood
            if last_chat != chat and now - last_flood_at <= _SAME_FLOOD_SECONDS:
                self._slow_until = now + _SLOW_SECONDS
        self._last_flood = (chat, now)

    def _add_chat(self, chat: int, now: float) -> _ChatBudget:
        if len(self._chats) >= self._sweep_at:
            self._chats = {key: budget for key, budget in self._chats.items() if not budget.is_idle(now)}
            self._sweep_at = max(_CHATS_BEFORE_SWEEP, 2 * len(self._chats))
        if chat > 0:
            budget = _ChatBudget(TokenBucket(self.limits.private), progress=None)
        else:
            budget = _ChatBudget(TokenBucket(self.limits.group), TokenBucket(self.limits.group_progress))
        self._chats[chat] = budget
        return budget
