"""How often Telegram may be called: overall, in one chat, and for what a running turn shows.

Pure: the time is passed in (seconds of any steady clock). What shows progress leaves room for what must
arrive.
"""

from dataclasses import dataclass, field

_SLOW_SECONDS = 30.0
_SAME_FLOOD_SECONDS = 5.0
_RESERVED_CALLS = 5
_CHATS_BEFORE_SWEEP = 256


@dataclass(frozen=True, slots=True)
class CallRate:
    """`burst` calls at once, then one every `interval` seconds."""

    interval_seconds: float
    burst: int


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What we allow ourselves, a little below what Telegram's FAQ names (30/s; 1/s a chat; 20/min a group).

    `…_gap`: least seconds between two edits of one message.
    """

    overall: CallRate = CallRate(1 / 25, 25)
    private: CallRate = CallRate(1.0, 3)
    group: CallRate = CallRate(4.0, 5)
    group_progress: CallRate = CallRate(6.6, 3)
    private_edit_gap: float = 1.5
    group_edit_gap: float = 4.0

    def get_edit_gap(self, chat: int, length: int) -> float:
        """Least seconds between two edits of a message of `length` characters."""
        if chat > 0:
            return max(self.private_edit_gap, length / 2000)
        return self.group_edit_gap


@dataclass(slots=True)
class TokenBucket:
    """Calls that may be made; kept as the moment at which all that were made will have been paid back."""

    rate: CallRate
    full_at: float = 0.0

    def get_wait_seconds(self, now: float, reserve: int = 0) -> float:
        """Seconds until a call may be made that leaves room for `keep` others."""
        room = (self.rate.burst - 1 - reserve) * self.rate.interval_seconds
        return max(0.0, round(self.full_at - now - room, 6))

    def spend(self, now: float, calls: float = 1.0) -> None:
        """Count a call (or several, or one given back: negative)."""
        self.full_at = max(self.full_at, now) + calls * self.rate.interval_seconds


@dataclass(slots=True)
class _ChatBudget:
    calls: TokenBucket
    progress: TokenBucket | None
    blocked_until: float = 0.0

    def is_idle(self, now: float) -> bool:
        return (
            max(self.calls.full_at, self.blocked_until, self.progress.full_at if self.progress else 0.0)
            <= now
        )


@dataclass(slots=True)
class RateBudget:
    """All calls to Telegram. `show` marks calls that may as well not be made: signs of life, texts in
    progress.
    """

    limits: RateLimits
    _overall: TokenBucket = field(init=False)
    _chats: dict[int, _ChatBudget] = field(default_factory=dict)
    _last_flood: tuple[int, float] | None = None
    _slow_until: float = 0.0
    _sweep_at: int = _CHATS_BEFORE_SWEEP

    def __post_init__(self) -> None:
        self._overall = TokenBucket(self.limits.overall)

    def __len__(self) -> int:
        """Chats that are remembered."""
        return len(self._chats)

    def get_chat_wait_seconds(self, chat: int, now: float, *, is_progress: bool = False) -> float:
        """Seconds until this chat may be called as far as it alone is concerned."""
        known = self._chats.get(chat)
        if known is None:
            return 0.0
        waits = [
            known.blocked_until - now,
            known.calls.get_wait_seconds(now, reserve=1 if is_progress else 0),
        ]
        if is_progress and known.progress is not None:
            waits.append(known.progress.get_wait_seconds(now))
        return max(0.0, *waits)

    def get_overall_wait_seconds(self, now: float, *, is_progress: bool = False) -> float:
        """Seconds until any chat may be called."""
        return self._overall.get_wait_seconds(now, reserve=_RESERVED_CALLS if is_progress else 0)

    def spend(self, chat: int, now: float, *, is_progress: bool = False) -> None:
        """Count a call that is about to be made."""
        known = self._chats.get(chat) or self._add_chat(chat, now)
        known.calls.spend(now)
        if is_progress and known.progress is not None:
            known.progress.spend(now)
        self._overall.spend(now, 2.0 if now < self._slow_until else 1.0)

    def refund(self, chat: int, now: float) -> None:
        """A call was counted and then not made."""
        if chat in self._chats:
            self._chats[chat].calls.spend(now, -1.0)
            self._overall.spend(now, -1.0)

    def back_off(self, chat: int, seconds: float, now: float) -> None:
        """Telegram refused a call to this chat for that long; two chats at once slow all calls for a while."""
        known = self._chats.get(chat) or self._add_chat(chat, now)
        known.blocked_until = max(known.blocked_until, now + seconds)
        if (
            self._last_flood
            and self._last_flood[0] != chat
            and now - self._last_flood[1] <= _SAME_FLOOD_SECONDS
        ):
            self._slow_until = now + _SLOW_SECONDS
        self._last_flood = (chat, now)

    def _add_chat(self, chat: int, now: float) -> _ChatBudget:
        if len(self._chats) >= self._sweep_at:
            self._chats = {key: known for key, known in self._chats.items() if not known.is_idle(now)}
            self._sweep_at = max(_CHATS_BEFORE_SWEEP, 2 * len(self._chats))
        limits = self.limits
        shows = None if chat > 0 else TokenBucket(limits.group_progress)
        self._chats[chat] = _ChatBudget(TokenBucket(limits.private if chat > 0 else limits.group), shows)
        return self._chats[chat]
