"""Measures turns while they run: spans by the wall clock, kept in memory until they are stored.

Owns which turns are measured. A turn is one task after another (taken, executed, delivered), so each passes
the measurement on when it ends; what runs in parallel is measured on timelines of its own.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from bot.domain import InboxItem, Lane
from bot.usage.intervals import IntervalKind, Span, parse_spans

NO_LANE = Lane(0)


class Timeline:
    """What one task does, one kind of work at a time; `on_span` gets each span when it is over."""

    def __init__(
        self,
        on_span: Callable[[Span], object],
        base_kind: IntervalKind | None = None,
        since: float | None = None,
    ) -> None:
        """`base_kind` is measured from `since` on, except inside `measure`; None: nothing is."""
        self._on_span = on_span
        self._base_kind = base_kind
        self._override: IntervalKind | None = None
        self._kind: IntervalKind | None = base_kind
        self._since = time.time() if since is None else since

    def set_base(self, kind: IntervalKind | None) -> None:
        """Measure this from now on, except inside `measure`; None: nothing."""
        self._base_kind = kind
        self._update()

    @contextmanager
    def measure(self, kind: IntervalKind) -> Iterator[Callable[[IntervalKind], None]]:
        """Measure this while the block runs; the function it gets switches to another kind."""
        previous = self._override
        self._override = kind
        self._update()
        try:
            yield self._switch
        finally:
            self._override = previous
            self._update()

    def open_span(self, now: float) -> Span | None:
        """The span that is not over, as if it ended now."""
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
    """The timer of one turn, named by its first inbox item.

    `since` is when our own work on it began, `stored_spans` are what an earlier process measured. After
    `has_ended` it belongs to the sender as soon as it is handed over. `block_times`: when text of a reply
    came, another canvas each time.
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
        self.block_times: list[float] = []
        self._spans = [*stored_spans]
        self._parallel: list[Timeline] = []
        self._timeline = Timeline(self._spans.append, "own", since)
        self.measure = self._timeline.measure

    @contextmanager
    def measure_parallel(self, kind: IntervalKind) -> Iterator[None]:
        """Measure something in parallel to the turn's own task while the block runs."""
        timeline = Timeline(self._spans.append, kind)
        self._parallel.append(timeline)
        try:
            yield
        finally:
            self._parallel.remove(timeline)
            timeline.set_base(None)

    def add_span(self, span: Span) -> None:
        """Add what was measured elsewhere."""
        self._spans.append(span)

    def hand_over(self) -> None:
        """The turn's own task is done; the sender measures the delivery."""
        self._timeline.set_base(None)

    def wait_in_lane(self) -> None:
        """The turn waits for a user's message in its lane."""
        self._timeline.set_base("lane wait")

    def resume(self) -> None:
        """The turn is being worked on again."""
        self._timeline.set_base("own")

    def spans(self, now: float) -> list[Span]:
        """All that was measured; what is not over counts up to `now`."""
        open_spans = [timeline.open_span(now) for timeline in (self._timeline, *self._parallel)]
        return [*self._spans, *(span for span in open_spans if span is not None)]


class TurnTimers:
    """All turns that this process measures; it started at `began_at` (epoch seconds, None: now)."""

    def __init__(self, began_at: float | None = None) -> None:
        self.began_at = time.time() if began_at is None else began_at
        self._by_item: dict[int, TurnTimer] = {}
        self._by_lane: dict[Lane, list[TurnTimer]] = {}
        self._deliveries: dict[Lane, Timeline] = {}
        self._taken_over_at: dict[int, float] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def __iter__(self) -> Iterator[TurnTimer]:
        return iter([*self._by_item.values()])

    def take_over(self, shares: Iterable[int], *, now: float) -> None:
        """From now on this process works for the chats of these shares, for which another one did."""
        self._taken_over_at.update(dict.fromkeys(shares, now))

    def abandon(self, shares: Collection[int]) -> None:
        """Measure nothing more for the chats of these shares, which another process has."""
        for lane in [lane for lane in self._deliveries if lane.share in shares]:
            del self._deliveries[lane]
        for timer in self:
            if timer.lane.share in shares:
                self.forget(timer.item)

    def get_begin(self, lane: Lane) -> float:
        """When this process began to work for a lane (epoch seconds)."""
        return self._taken_over_at.get(lane.share, self.began_at)

    def find(self, item: int) -> TurnTimer | None:
        """The timer of the turn that began with this item."""
        return self._by_item.get(item)

    def open(self, item: InboxItem, lane: Lane) -> TurnTimer:
        """The timer of a turn whose first item was just taken.

        It is taken for the first time, after a wait for a person, or again after a restart.
        """
        timer = self.find(item.id)
        if timer is not None:
            timer.resume()
            return timer
        since = item.taken_at
        if item.attempt > 1 and item.stored_spans is None:
            since = max(item.received_at, self.get_begin(lane))
        return self.add(TurnTimer(item.id, lane, since=since, stored_spans=parse_spans(item.stored_spans)))

    def add(self, timer: TurnTimer) -> TurnTimer:
        """Measure the delivery of this turn's messages, too, and let the timer be stored."""
        self._by_item[timer.item] = timer
        self._by_lane.setdefault(timer.lane, []).append(timer)
        self._changed.set()
        return timer

    def end(self, item: int, lane: Lane, stored_spans: str | None) -> None:
        """A turn has ended that no task worked on; with the stored spans its breakdown can be built."""
        timer = self.find(item) or self.add(TurnTimer(item, lane, stored_spans=parse_spans(stored_spans)))
        timer.has_ended = True

    def forget(self, item: int) -> None:
        """Drop the timer of an item that is no turn, or whose breakdown is stored."""
        timer = self._by_item.pop(item, None)
        if timer is None:
            return
        lane_timers = self._by_lane[timer.lane]
        lane_timers.remove(timer)
        if not lane_timers:
            del self._by_lane[timer.lane]

    def delivery_timeline(self, lane: Lane) -> Timeline:
        """The timeline of the delivery of a lane's messages; it counts for all turns of the lane."""
        return self._deliveries.setdefault(lane, Timeline(partial(self._add_delivery_span, lane)))

    def hand_over(self, lane: Lane) -> None:
        """A message waits to be delivered in this lane; its ended turns belong to the sender from now on."""
        self.delivery_timeline(lane).set_base("own")
        for timer in self._by_lane.get(lane, ()):
            if timer.has_ended:
                timer.hand_over()

    def end_delivery(self, lane: Lane) -> None:
        """Nothing is delivered in this lane any more."""
        timeline = self._deliveries.pop(lane, None)
        if timeline is not None:
            timeline.set_base(None)

    def spans(self, timer: TurnTimer, now: float) -> list[Span]:
        """All that was measured of a turn; what is not over counts up to `now`."""
        spans = timer.spans(now)
        delivery = self._deliveries.get(timer.lane)
        open_span = delivery and delivery.open_span(now)
        if open_span:
            spans.append(open_span)
        return spans

    async def wait_until_measuring(self) -> None:
        """Wait until a turn is measured, or the timers are closed."""
        while not self._by_item and not self._closed:
            self._changed.clear()
            await self._changed.wait()

    def close(self) -> None:
        """Nothing more will be measured; nobody needs to wait for it."""
        self._closed = True
        self._changed.set()

    def _add_delivery_span(self, lane: Lane, span: Span) -> None:
        for timer in self._by_lane.get(lane, ()):
            timer.add_span(span)
