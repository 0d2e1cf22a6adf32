"""A watch loses no moment, other things are measured beside it, and it can be read at any time."""

import asyncio
from dataclasses import dataclass, field

import pytest

from bot.domain import InboxItem, Lane
from bot.usage import timers as room
from bot.usage.intervals import Span
from bot.usage.timers import Timeline, TurnTimer, TurnTimers

LANE = Lane(7)


@dataclass
class FakeClock:
    """Says what it is told to, a second later each time."""

    now: float = 0.0

    def time(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    monkeypatch.setattr(room, "time", made)
    return made


@dataclass
class SpanCollector:
    spans: list[Span] = field(default_factory=list)

    def __call__(self, span: Span) -> None:
        self.spans.append(span)


def make_item(
    id: int = 1, *, attempt: int = 1, received_at: float = 10.0, taken_at: float = 12.0
) -> InboxItem:
    return InboxItem(id, "update", "text", LANE, 7, {}, attempt, False, received_at, taken_at)


def test_a_track_is_at_one_thing_at_a_time_and_loses_no_moment():
    heard = SpanCollector()
    track = Timeline(heard, "own", 0.0)
    with track.measure("seat wait") as at:
        at("first canvas")
        with track.measure("back-off"):
            pass
    track.set_base(None)
    assert heard.spans == [
        Span("own", 0.0, 1.0),
        Span("seat wait", 1.0, 2.0),
        Span("first canvas", 2.0, 3.0),
        Span("back-off", 3.0, 4.0),
        Span("first canvas", 4.0, 5.0),
        Span("own", 5.0, 6.0),
    ]


def test_a_track_at_rest_measures_nothing_and_says_what_it_is_at():
    heard = SpanCollector()
    track = Timeline(heard)
    assert track.open_span(9.0) is None
    track.set_base("own")
    assert track.open_span(9.0) == Span("own", 2.0, 9.0)
    track.set_base("own")
    track.set_base(None)
    assert heard.spans == [Span("own", 2.0, 3.0)]


def test_what_a_track_is_told_during_something_counts_after_it():
    heard = SpanCollector()
    track = Timeline(heard)
    with track.measure("Telegram"):
        track.set_base("own")
    assert [piece.kind for piece in heard.spans] == ["Telegram"]
    assert track.open_span(9.0) == Span("own", 3.0, 9.0)


def test_a_watch_can_be_read_while_everything_is_under_way():
    watch = TurnTimer(1, LANE, since=0.5, stored_spans=(Span("tools", 0.0, 0.2),))
    with watch.measure("seat wait"), watch.measure_parallel("Telegram"), watch.measure_parallel("tools"):
        spans = watch.spans(20.0)
    assert spans == [
        Span("tools", 0.0, 0.2),
        Span("own", 0.5, 1.0),
        Span("seat wait", 1.0, 20.0),
        Span("Telegram", 2.0, 20.0),
        Span("tools", 3.0, 20.0),
    ]
    watch.add_span(Span("further canvases", 6.0, 6.5))
    watch.hand_over()
    assert [span.kind for span in watch.spans(30.0)] == [
        *("tools", "own", "tools", "Telegram", "seat wait", "further canvases", "own")
    ]


def test_a_turn_is_ours_since_it_was_taken_and_after_a_restart_since_the_process_began():
    watches = TurnTimers(100.0)
    assert watches.open(make_item(1), LANE).spans(13.0) == [Span("own", 12.0, 13.0)]
    assert watches.open(make_item(2, attempt=2, taken_at=140.0), LANE).spans(150.0) == [
        Span("own", 100.0, 150.0)
    ]
    assert watches.open(make_item(1, attempt=3), LANE) is watches.find(1)
    assert [one.item for one in watches] == [1, 2]


def test_delivering_counts_for_all_turns_of_its_lane_and_for_no_other():
    watches = TurnTimers()
    here, there = watches.open(make_item(1), LANE), watches.open(make_item(2), Lane(8))
    with watches.delivery_timeline(LANE).measure("Telegram"):
        assert watches.spans(here, 9.0)[-1] == Span("Telegram", 3.0, 9.0)
        assert watches.spans(there, 9.0) == [Span("own", 12.0, 9.0)]
    assert here.spans(9.0)[0] == Span("Telegram", 3.0, 4.0)
    watches.end_delivery(LANE)
    watches.end_delivery(LANE)
    assert watches.spans(here, 9.0) == here.spans(9.0)


def test_a_turn_that_is_over_is_handed_on_to_the_sender():
    watches = TurnTimers()
    over, running = watches.open(make_item(1), LANE), watches.open(make_item(2), LANE)
    over.has_ended = True
    watches.hand_over(LANE)
    assert [span.kind for span in watches.spans(over, 99.0)] == ["own", "own"]
    handed, delivering = watches.spans(over, 99.0)
    assert delivering.begin < handed.end < delivering.end == 99.0
    assert watches.spans(running, 99.0)[0] == Span("own", 12.0, 99.0)


def test_what_is_forgotten_is_measured_no_more():
    watches = TurnTimers()
    watches.open(make_item(1), LANE)
    watches.open(make_item(2), LANE)
    watches.forget(1)
    watches.forget(1)
    assert [one.item for one in watches] == [2]
    watches.forget(2)
    assert [*watches] == []


async def test_who_waits_for_something_to_be_measured_is_told():
    watches = TurnTimers()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(watches.wait_until_measuring())
        await asyncio.sleep(0)
        assert not waiting.done()
        watches.open(make_item(1), LANE)
    await watches.wait_until_measuring()
    watches.forget(1)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watches.wait_until_measuring())
        await asyncio.sleep(0)
        watches.close()
