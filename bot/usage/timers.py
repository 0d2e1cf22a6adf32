"""Measures what turns are at while they are at it: spans by the wall clock, held in memory until they are
stored.

Owns which turns are being measured. A turn is one task after another (taken, played, delivered), so each
hands the measuring on at the moment it ends; what goes on beside them is measured on tracks of its own.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bot.domain import InboxItem, Lane
from bot.usage.intervals import IntervalKind, Span, parse_spans

NO_LANE = Lane(0)


class Timeline:
    """What one task is at, one thing at a time; `hear` is told of each piece once it is over."""

    def __init__(
        self,
        on_span: Callable[[Span], object],
        base_kind: IntervalKind | None = None,
        since: float | None = None,
    ) -> None:
        """`base` is what it is at when nothing else is said, from `since` on; None: at nothing that counts."""
        self._on_span = on_span
        self._base_kind = base_kind
        self._override: IntervalKind | None = None
        self._kind: IntervalKind | None = base_kind
        self._since = time.time() if since is None else since

    def set_base(self, kind: IntervalKind | None) -> None:
        """When nothing else is said it is at this from now on."""
        self._base_kind = kind
        self._update()

    @contextmanager
    def measure(self, kind: IntervalKind) -> Iterator[Callable[[IntervalKind], None]]:
        """It is at this while the block runs, or at what the function that is given is told meanwhile."""
        before = self._override
        self._override = kind
        self._update()
        try:
            yield self._switch
        finally:
            self._override = before
            self._update()

    def open_span(self, now: float) -> Span | None:
        """The piece that is not over."""
        if self._kind is None:
            return None
        return Span(self._kind, self._since, now)

    def _switch(self, kind: IntervalKind) -> None:
        self._override = kind
        self._update()

    def _update(self) -> None:
        kind = self._override or self._base_kind
        if kind == self._kind:
            return
        now = time.time()
        if self._kind is not None:
            self._on_span(Span(self._kind, self._since, now))
        self._kind = kind
        self._since = now


class TurnTimer:
    """Of one turn, named by its first inbox item. `over`: it has ended, and is the sender's once it is handed
    on.

    `stored` are the spans an earlier process has measured, `since` is when our own work on it began.
    """

    def __init__(
        self,
        item: int = 0,
        lane: Lane = NO_LANE,
        *,
        since: float | None = None,
        stored_spans: tuple[Span, ...] = (),
        has_ended: bool = False,
    ) -> None:
        self.item = item
        self.lane = lane
        self.has_ended = has_ended
        self._spans = [*stored_spans]
        self._parallel: list[Timeline] = []
        self._timeline = Timeline(self._spans.append, "own", since)
        self.measure = self._timeline.measure

    @contextmanager
    def measure_parallel(self, kind: IntervalKind) -> Iterator[None]:
        """Something goes on beside the turn's own task while the block runs."""
        track = Timeline(self._spans.append, kind)
        self._parallel.append(track)
        try:
            yield
        finally:
            self._parallel.remove(track)
            track.set_base(None)

    def add_span(self, span: Span) -> None:
        """This was measured elsewhere."""
        self._spans.append(span)

    def hand_over(self) -> None:
        """The turn's own task has nothing more to do; the sender is at it."""
        self._timeline.set_base(None)

    def wait_in_lane(self) -> None:
        """It waits for a message of a person in its lane."""
        self._timeline.set_base("lane wait")

    def resume(self) -> None:
        """It is at work again."""
        self._timeline.set_base("own")

    def spans(self, now: float) -> list[Span]:
        """All that was measured; what is not over counts up to `now`."""
        pieces = [track.open_span(now) for track in (self._timeline, *self._parallel)]
        return [*self._spans, *(piece for piece in pieces if piece is not None)]


class TurnTimers:
    """All turns being measured by this process, which began at `began_at` (epoch seconds)."""

    def __init__(self, began_at: float | None = None) -> None:
        self.began_at = time.time() if began_at is None else began_at
        self._by_item: dict[int, TurnTimer] = {}
        self._by_lane: dict[Lane, list[TurnTimer]] = {}
        self._deliveries: dict[Lane, Timeline] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def __iter__(self) -> Iterator[TurnTimer]:
        return iter([*self._by_item.values()])

    def find(self, item: int) -> TurnTimer | None:
        """The watch of the turn that began with this item."""
        return self._by_item.get(item)

    def open(self, item: InboxItem, lane: Lane) -> TurnTimer:
        """The watch of a turn whose first item was just taken, for the first time or after a wait for a
        person, or is handled again after a restart.
        """
        if found := self.find(item.id):
            found.resume()
            return found
        goes_on = item.attempt > 1 and item.stored_spans is None
        if goes_on:
            since = max(item.received_at, self.began_at)
        else:
            since = item.taken_at
        return self.add(TurnTimer(item.id, lane, since=since, stored_spans=parse_spans(item.stored_spans)))

    def add(self, timer: TurnTimer) -> TurnTimer:
        """Hear for this watch what is done to deliver its messages, and have it stored."""
        self._by_item[timer.item] = timer
        self._by_lane.setdefault(timer.lane, []).append(timer)
        self._changed.set()
        return timer

    def end(self, item: int, lane: Lane, stored_spans: str | None) -> None:
        """A turn that nobody was at has ended; what was measured of it is stored, and its account can be
        made.
        """
        watch = self.find(item) or self.add(TurnTimer(item, lane, stored_spans=parse_spans(stored_spans)))
        watch.has_ended = True

    def forget(self, item: int) -> None:
        """It is no turn, or its account is stored."""
        if watch := self._by_item.pop(item, None):
            here = self._by_lane[watch.lane]
            here.remove(watch)
            if not here:
                del self._by_lane[watch.lane]

    def delivery_timeline(self, lane: Lane) -> Timeline:
        """What is done to deliver a lane's messages; it counts for all turns of the lane."""
        return self._deliveries.setdefault(lane, Timeline(partial(self._add_delivery_span, lane)))

    def hand_over(self, lane: Lane) -> None:
        """Something waits to be delivered in this lane; its turns that are over are the sender's from now on."""
        self.delivery_timeline(lane).set_base("own")
        for watch in self._by_lane.get(lane, ()):
            if watch.has_ended:
                watch.hand_over()

    def end_delivery(self, lane: Lane) -> None:
        """Nothing is delivered in this lane any more."""
        if track := self._deliveries.pop(lane, None):
            track.set_base(None)

    def spans(self, timer: TurnTimer, now: float) -> list[Span]:
        """All that was measured of a turn; what is not over counts up to `now`."""
        track = self._deliveries.get(timer.lane)
        piece = track.open_span(now) if track else None
        return [*timer.spans(now), *([piece] if piece else ())]

    async def wait_until_measuring(self) -> None:
        """Until a turn is measured, or nothing will be."""
        while not self._by_item and not self._closed:
            self._changed.clear()
            await self._changed.wait()

    def close(self) -> None:
        """Nobody is to wait for anything to be measured any more."""
        self._closed = True
        self._changed.set()

    def _add_delivery_span(self, lane: Lane, span: Span) -> None:
        for watch in self._by_lane.get(lane, ()):
            watch.add_span(span)
