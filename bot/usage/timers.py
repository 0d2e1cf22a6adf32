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
from bot.usage.intervals import Kind, Span, read

NOWHERE = Lane(0)


class Track:
    """What one task is at, one thing at a time; `hear` is told of each piece once it is over."""

    def __init__(
        self, hear: Callable[[Span], object], base: Kind | None = None, since: float | None = None
    ) -> None:
        """`base` is what it is at when nothing else is said, from `since` on; None: at nothing that counts."""
        self._hear = hear
        self._base = base
        self._over: Kind | None = None
        self._kind: Kind | None = base
        self._since = time.time() if since is None else since

    def rest(self, base: Kind | None) -> None:
        """When nothing else is said it is at this from now on."""
        self._base = base
        self._turn()

    @contextmanager
    def at(self, kind: Kind) -> Iterator[Callable[[Kind], None]]:
        """It is at this while the block runs, or at what the function that is given is told meanwhile."""
        before = self._over
        self._over = kind
        self._turn()
        try:
            yield self._shift
        finally:
            self._over = before
            self._turn()

    def open(self, now: float) -> Span | None:
        """The piece that is not over."""
        if self._kind is None:
            return None
        return Span(self._kind, self._since, now)

    def _shift(self, kind: Kind) -> None:
        self._over = kind
        self._turn()

    def _turn(self) -> None:
        kind = self._over or self._base
        if kind == self._kind:
            return
        now = time.time()
        if self._kind is not None:
            self._hear(Span(self._kind, self._since, now))
        self._kind = kind
        self._since = now


class Watch:
    """Of one turn, named by its first inbox item. `over`: it has ended, and is the sender's once it is handed
    on.

    `stored` are the spans an earlier process has measured, `since` is when our own work on it began.
    """

    def __init__(
        self,
        item: int = 0,
        lane: Lane = NOWHERE,
        *,
        since: float | None = None,
        stored: tuple[Span, ...] = (),
        over: bool = False,
    ) -> None:
        self.item = item
        self.lane = lane
        self.over = over
        self._spans = [*stored]
        self._tracks: list[Track] = []
        self._turn = Track(self._spans.append, "own", since)
        self.at = self._turn.at

    @contextmanager
    def beside(self, kind: Kind) -> Iterator[None]:
        """Something goes on beside the turn's own task while the block runs."""
        track = Track(self._spans.append, kind)
        self._tracks.append(track)
        try:
            yield
        finally:
            self._tracks.remove(track)
            track.rest(None)

    def add(self, span: Span) -> None:
        """This was measured elsewhere."""
        self._spans.append(span)

    def hand_on(self) -> None:
        """The turn's own task has nothing more to do; the sender is at it."""
        self._turn.rest(None)

    def give_way(self) -> None:
        """It waits for a message of a person in its lane."""
        self._turn.rest("lane wait")

    def go_on(self) -> None:
        """It is at work again."""
        self._turn.rest("own")

    def spans(self, now: float) -> list[Span]:
        """All that was measured; what is not over counts up to `now`."""
        pieces = [track.open(now) for track in (self._turn, *self._tracks)]
        return [*self._spans, *(piece for piece in pieces if piece is not None)]


class Watches:
    """All turns being measured by this process, which began at `began_at` (epoch seconds)."""

    def __init__(self, began_at: float | None = None) -> None:
        self.began_at = time.time() if began_at is None else began_at
        self._by_item: dict[int, Watch] = {}
        self._by_lane: dict[Lane, list[Watch]] = {}
        self._deliveries: dict[Lane, Track] = {}
        self._stirred = asyncio.Event()
        self._closed = False

    def __iter__(self) -> Iterator[Watch]:
        return iter([*self._by_item.values()])

    def find(self, item: int) -> Watch | None:
        """The watch of the turn that began with this item."""
        return self._by_item.get(item)

    def open(self, item: InboxItem, lane: Lane) -> Watch:
        """The watch of a turn whose first item was just taken, for the first time or after a wait for a
        person, or is handled again after a restart.
        """
        if found := self.find(item.id):
            found.go_on()
            return found
        goes_on = item.attempt > 1 and item.measured is None
        if goes_on:
            since = max(item.received_at, self.began_at)
        else:
            since = item.taken_at
        return self.keep(Watch(item.id, lane, since=since, stored=read(item.measured)))

    def keep(self, watch: Watch) -> Watch:
        """Hear for this watch what is done to deliver its messages, and have it stored."""
        self._by_item[watch.item] = watch
        self._by_lane.setdefault(watch.lane, []).append(watch)
        self._stirred.set()
        return watch

    def end(self, item: int, lane: Lane, measured: str | None) -> None:
        """A turn that nobody was at has ended; what was measured of it is stored, and its account can be
        made.
        """
        watch = self.find(item) or self.keep(Watch(item, lane, stored=read(measured)))
        watch.over = True

    def forget(self, item: int) -> None:
        """It is no turn, or its account is stored."""
        if watch := self._by_item.pop(item, None):
            here = self._by_lane[watch.lane]
            here.remove(watch)
            if not here:
                del self._by_lane[watch.lane]

    def delivery(self, lane: Lane) -> Track:
        """What is done to deliver a lane's messages; it counts for all turns of the lane."""
        return self._deliveries.setdefault(lane, Track(partial(self._heard, lane)))

    def hand_on(self, lane: Lane) -> None:
        """Something waits to be delivered in this lane; its turns that are over are the sender's from now on."""
        self.delivery(lane).rest("own")
        for watch in self._by_lane.get(lane, ()):
            if watch.over:
                watch.hand_on()

    def leave(self, lane: Lane) -> None:
        """Nothing is delivered in this lane any more."""
        if track := self._deliveries.pop(lane, None):
            track.rest(None)

    def spans(self, watch: Watch, now: float) -> list[Span]:
        """All that was measured of a turn; what is not over counts up to `now`."""
        track = self._deliveries.get(watch.lane)
        piece = track.open(now) if track else None
        return [*watch.spans(now), *([piece] if piece else ())]

    async def stirred(self) -> None:
        """Until a turn is measured, or nothing will be."""
        while not self._by_item and not self._closed:
            self._stirred.clear()
            await self._stirred.wait()

    def close(self) -> None:
        """Nobody is to wait for anything to be measured any more."""
        self._closed = True
        self._stirred.set()

    def _heard(self, lane: Lane, span: Span) -> None:
        for watch in self._by_lane.get(lane, ()):
            watch.add(span)
