"""The turns that run in this process, at most one a lane, by which each is stopped or woken."""

import time
from typing import Protocol

from bot.domain import Lane
from bot.turns.handle import TurnHandle

# Seconds that the tools of a scheduled task may take to end before a person's message interrupts them.
SIDE_EFFECT_GRACE_SECONDS = 5.0


class TurnsElsewhere(Protocol):
    """The turns of lanes that other replicas have."""

    def stop(self, lane: Lane, before: int | None) -> None:
        """Have the lane's turn stopped where it runs, if it began before the item `before`."""
        ...

    def wake(self, lane: Lane) -> None:
        """Have the pause ended, where the lane's turn runs, before it retries."""
        ...


class RunningTurns:
    """Stops and wakes turns by their lanes; `elsewhere` does for those that do not run here."""

    def __init__(self, elsewhere: TurnsElsewhere | None = None) -> None:
        self._elsewhere = elsewhere
        self._handles: dict[str, TurnHandle] = {}

    def add(self, lane: Lane, handle: TurnHandle) -> None:
        """Note the handle of a turn that begins in a lane."""
        self._handles[lane.key] = handle

    def remove(self, lane: Lane) -> None:
        """Forget the handle of a turn that is over."""
        self._handles.pop(lane.key, None)

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """Stop the lane's turn, if it began before the item `before`; False if nothing is stopped here."""
        if self._elsewhere is not None and lane.key not in self._handles:
            self._elsewhere.stop(lane, before)
        return self.stop_here(lane, before)

    def stop_edited(self, lane: Lane, before: int) -> bool:
        """Stop the lane's turn as `stop` does, because the message that it answers was edited."""
        return self.stop_here(lane, before, is_edited=True)

    def stop_here(self, lane: Lane, before: int | None = None, *, is_edited: bool = False) -> bool:
        """Stop the lane's turn as `stop` does, if it runs in this process."""
        handle = self._handles.get(lane.key)
        if handle is None or (before is not None and handle.newest_item >= before):
            return False
        handle.stop(is_edited=is_edited)
        return True

    def can_yield(self, lane: Lane) -> bool:
        """Whether the lane's turn may give way now: calls that must not run twice get a grace period."""
        handle = self._handles.get(lane.key)
        if handle is None or handle.side_effects_since is None:
            return True
        return time.monotonic() - handle.side_effects_since >= SIDE_EFFECT_GRACE_SECONDS

    def wake(self, lane: Lane) -> None:
        """End the pause before the lane's turn retries: what it may do has changed."""
        if self._elsewhere is not None and lane.key not in self._handles:
            self._elsewhere.wake(lane)
        self.wake_here(lane)

    def wake_here(self, lane: Lane) -> None:
        """End that pause if the turn runs in this process."""
        handle = self._handles.get(lane.key)
        if handle is not None:
            handle.wake()
