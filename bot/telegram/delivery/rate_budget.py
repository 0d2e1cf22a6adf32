"""How often Telegram may be called: overall, in one chat, and for what a running turn shows.

Pure: the time is passed in (seconds of any steady clock). What shows progress leaves room for what must
arrive.
"""

from dataclasses import dataclass, field

_SLOW_SECONDS = 30.0
_TOGETHER_SECONDS = 5.0
_KEPT_OVERALL = 5
_CHATS_BEFORE_SWEEP = 256


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` calls at once, then one every `interval` seconds."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What we allow ourselves, a little below what Telegram's FAQ names (30/s; 1/s a chat; 20/min a group).

    `…_gap`: least seconds between two edits of one message.
    """

    overall: Rate = Rate(1 / 25, 25)
    private: Rate = Rate(1.0, 3)
    group: Rate = Rate(4.0, 5)
    group_shows: Rate = Rate(6.6, 3)
    private_gap: float = 1.5
    group_gap: float = 4.0

    def gap(self, chat: int, length: int) -> float:
        """Least seconds between two edits of a message of `length` characters."""
        if chat > 0:
            return max(self.private_gap, length / 2000)
        return self.group_gap


@dataclass(slots=True)
class Bucket:
    """Calls that may be made; kept as the moment at which all that were made will have been paid back."""

    rate: Rate
    full_at: float = 0.0

    def wait(self, now: float, keep: int = 0) -> float:
        """Seconds until a call may be made that leaves room for `keep` others."""
        room = (self.rate.burst - 1 - keep) * self.rate.interval
        return max(0.0, round(self.full_at - now - room, 6))

    def spend(self, now: float, calls: float = 1.0) -> None:
        """Count a call (or several, or one given back: negative)."""
        self.full_at = max(self.full_at, now) + calls * self.rate.interval


@dataclass(slots=True)
class _Chat:
    calls: Bucket
    shows: Bucket | None
    cold_until: float = 0.0

    def is_rested(self, now: float) -> bool:
        return max(self.calls.full_at, self.cold_until, self.shows.full_at if self.shows else 0.0) <= now


@dataclass(slots=True)
class Budget:
    """All calls to Telegram. `show` marks calls that may as well not be made: signs of life, texts in
    progress.
    """

    limits: Limits
    _overall: Bucket = field(init=False)
    _chats: dict[int, _Chat] = field(default_factory=dict)
    _flood: tuple[int, float] | None = None
    _slow_until: float = 0.0
    _sweep_at: int = _CHATS_BEFORE_SWEEP

    def __post_init__(self) -> None:
        self._overall = Bucket(self.limits.overall)

    def __len__(self) -> int:
        """Chats that are remembered."""
        return len(self._chats)

    def wait_in_chat(self, chat: int, now: float, *, show: bool = False) -> float:
        """Seconds until this chat may be called as far as it alone is concerned."""
        known = self._chats.get(chat)
        if known is None:
            return 0.0
        waits = [known.cold_until - now, known.calls.wait(now, keep=1 if show else 0)]
        if show and known.shows is not None:
            waits.append(known.shows.wait(now))
        return max(0.0, *waits)

    def wait_overall(self, now: float, *, show: bool = False) -> float:
        """Seconds until any chat may be called."""
        return self._overall.wait(now, keep=_KEPT_OVERALL if show else 0)

    def spend(self, chat: int, now: float, *, show: bool = False) -> None:
        """Count a call that is about to be made."""
        known = self._chats.get(chat) or self._remember(chat, now)
        known.calls.spend(now)
        if show and known.shows is not None:
            known.shows.spend(now)
        self._overall.spend(now, 2.0 if now < self._slow_until else 1.0)

    def give_back(self, chat: int, now: float) -> None:
        """A call was counted and then not made."""
        if chat in self._chats:
            self._chats[chat].calls.spend(now, -1.0)
            self._overall.spend(now, -1.0)

    def cool(self, chat: int, seconds: float, now: float) -> None:
        """Telegram refused a call to this chat for that long; two chats at once slow all calls for a while."""
        known = self._chats.get(chat) or self._remember(chat, now)
        known.cold_until = max(known.cold_until, now + seconds)
        if self._flood and self._flood[0] != chat and now - self._flood[1] <= _TOGETHER_SECONDS:
            self._slow_until = now + _SLOW_SECONDS
        self._flood = (chat, now)

    def _remember(self, chat: int, now: float) -> _Chat:
        if len(self._chats) >= self._sweep_at:
            self._chats = {key: known for key, known in self._chats.items() if not known.is_rested(now)}
            self._sweep_at = max(_CHATS_BEFORE_SWEEP, 2 * len(self._chats))
        limits = self.limits
        shows = None if chat > 0 else Bucket(limits.group_shows)
        self._chats[chat] = _Chat(Bucket(limits.private if chat > 0 else limits.group), shows)
        return self._chats[chat]
