"""How often something may happen: so many times within so many seconds, for each key. Forgotten at a restart."""

from collections import OrderedDict, deque
from collections.abc import Hashable


class RateLimiter:
    """At most `times` within `seconds` a key; remembers the `keys` seen last."""

    def __init__(self, max_calls: int, window_seconds: float, max_keys: int = 2000) -> None:
        self._max_calls = max_calls
        self._window_seconds = window_seconds
        self._max_keys = max_keys
        self._call_times: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def try_acquire(self, key: Hashable, now: float) -> bool:
        """Take one of the key's times; False if there is none left for now (`now` in seconds)."""
        taken = self._call_times.setdefault(key, deque())
        self._call_times.move_to_end(key)
        if len(self._call_times) > self._max_keys:
            self._call_times.popitem(last=False)
        while taken and taken[0] <= now - self._window_seconds:
            taken.popleft()
        if len(taken) >= self._max_calls:
            return False
        taken.append(now)
        return True
