"""Limits how often something may happen for each key; kept in memory only, so a restart clears it."""

from collections import OrderedDict, deque
from collections.abc import Hashable


class RateLimiter:
    """At most `max_calls` within `window_seconds` for each key; remembers the `max_keys` used last."""

    def __init__(self, max_calls: int, window_seconds: float, max_keys: int = 2000) -> None:
        self._max_calls = max_calls
        self._window_seconds = window_seconds
        self._max_keys = max_keys
        self._call_times: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def try_acquire(self, key: Hashable, now: float) -> bool:
        """Count a call for the key and return True; False if the key has none left (`now` in seconds)."""
        call_times = self._call_times.setdefault(key, deque())
        self._call_times.move_to_end(key)
        if len(self._call_times) > self._max_keys:
            self._call_times.popitem(last=False)
        while call_times and call_times[0] <= now - self._window_seconds:
            call_times.popleft()
        if len(call_times) >= self._max_calls:
            return False
        call_times.append(now)
        return True
