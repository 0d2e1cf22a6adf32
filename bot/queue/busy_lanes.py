"""The lanes in which the worker runs something, for who has to know whether a message waits."""

from bot.domain import Lane


class BusyLanes:
    """Lanes by their keys, each with the first item of what runs there."""

    def __init__(self) -> None:
        self._first_items: dict[str, int] = {}

    def has(self, lane: Lane) -> bool:
        """Whether something runs in this lane."""
        return lane.key in self._first_items

    def add(self, lane: Lane, item: int) -> None:
        """Note that what begins with this item runs in a lane."""
        self._first_items[lane.key] = item

    def remove(self, lane: Lane, item: int) -> None:
        """Note that it has ended; the next one may have begun already."""
        if self._first_items.get(lane.key) == item:
            del self._first_items[lane.key]
