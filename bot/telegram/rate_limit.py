"""How often something may happen: so many times within so many seconds, for each key. Forgotten at a restart."""

from collections import OrderedDict, deque
from collections.abc import Hashable


class Allowance:
    """At most `times` within `seconds` a key; remembers the `keys` seen last."""

    def __init__(self, times: int, seconds: float, keys: int = 2000) -> None:
        self._times = times
        self._seconds = seconds
        self._keys = keys
        self._taken: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Take one of the key's times; False if there is none left for now (`now` in seconds)."""
        taken = self._taken.setdefault(key, deque())
        self._taken.move_to_end(key)
        if len(self._taken) > self._keys:
            self._taken.popitem(last=False)
        while taken and taken[0] <= now - self._seconds:
            taken.popleft()
        if len(taken) >= self._times:
            return False
        taken.append(now)
        return True
