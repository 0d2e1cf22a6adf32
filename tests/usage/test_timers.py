"""A timer loses no moment, parallel work is measured beside it, and it can be read at any time."""

import asyncio
from dataclasses import dataclass, field

import pytest

from bot.domain import InboxItem, Lane
from bot.usage import timers
from bot.usage.intervals import Span
from bot.usage.timers import Timeline, TurnTimer, TurnTimers

LANE = Lane(7)


@dataclass
class FakeClock:
    """A clock that advances a second at each call."""

    now: float = 0.0

    def time(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake_clock = FakeClock()
    monkeypatch.setattr(timers, "time", fake_clock)
    return fake_clock


@dataclass
class SpanCollector:
    spans: list[Span] = field(default_factory=list)

    def __call__(self, span: Span) -> None:
        self.spans.append(span)


def make_item(
    id: int = 1, *, attempt: int = 1, received_at: float = 10.0, taken_at: float = 12.0
) -> InboxItem:
    return InboxItem(id, "update", "text", LANE, 7, {}, attempt, False, received_at, taken_at)


def test_a_timeline_measures_one_kind_at_a_time_and_loses_no_moment():
    collector = SpanCollector()
    timeline = Timeline(collector, "own", 0.0)
    with timeline.measure("seat wait") as switch:
        switch("first canvas")
        with timeline.measure("back-off"):
            pass
    timeline.set_base(None)
    assert collector.spans == [
        Span("own", 0.0, 1.0),
        Span("seat wait", 1.0, 2.0),
        Span("first canvas", 2.0, 3.0),
        Span("back-off", 3.0, 4.0),
        Span("first canvas", 4.0, 5.0),
        Span("own", 5.0, 6.0),
    ]


def test_a_timeline_without_a_base_measures_nothing_and_shows_its_open_span():
    collector = SpanCollector()
    timeline = Timeline(collector)
    assert timeline.open_span(9.0) is None
    timeline.set_base("own")
    assert timeline.open_span(9.0) == Span("own", 2.0, 9.0)
    timeline.set_base("own")
    timeline.set_base(None)
    assert collector.spans == [Span("own", 2.0, 3.0)]


def test_a_base_that_is_set_inside_a_measurement_counts_after_it():
    collector = SpanCollector()
    timeline = Timeline(collector)
    with timeline.measure("Telegram"):
        timeline.set_base("own")
    assert [span.kind for span in collector.spans] == ["Telegram"]
    assert timeline.open_span(9.0) == Span("own", 3.0, 9.0)


def test_a_timer_can_be_read_while_everything_is_running():
    timer = TurnTimer(1, LANE, since=0.5, stored_spans=(Span("tools", 0.0, 0.2),))
    with timer.measure("seat wait"), timer.measure_parallel("Telegram"), timer.measure_parallel("tools"):
        spans = timer.spans(20.0)
    assert spans == [
        Span("tools", 0.0, 0.2),
        Span("own", 0.5, 1.0),
        Span("seat wait", 1.0, 20.0),
        Span("Telegram", 2.0, 20.0),
        Span("tools", 3.0, 20.0),
    ]
    timer.add_span(Span("further canvases", 6.0, 6.5))
    timer.hand_over()
    assert [span.kind for span in timer.spans(30.0)] == [
        *("tools", "own", "tools", "Telegram", "seat wait", "further canvases", "own")
    ]


def test_a_turn_is_ours_since_it_was_taken_and_after_a_restart_since_the_process_began():
    turn_timers = TurnTimers(100.0)
    assert turn_timers.open(make_item(1), LANE).spans(13.0) == [Span("own", 12.0, 13.0)]
    assert turn_timers.open(make_item(2, attempt=2, taken_at=140.0), LANE).spans(150.0) == [
        Span("own", 100.0, 150.0)
    ]
    assert turn_timers.open(make_item(1, attempt=3), LANE) is turn_timers.find(1)
    assert [timer.item for timer in turn_timers] == [1, 2]


def test_delivering_counts_for_all_turns_of_its_lane_and_for_no_other():
    turn_timers = TurnTimers()
    first = turn_timers.open(make_item(1), LANE)
    second = turn_timers.open(make_item(2), Lane(8))
    with turn_timers.delivery_timeline(LANE).measure("Telegram"):
        assert turn_timers.spans(first, 9.0)[-1] == Span("Telegram", 3.0, 9.0)
        assert turn_timers.spans(second, 9.0) == [Span("own", 12.0, 9.0)]
    assert first.spans(9.0)[0] == Span("Telegram", 3.0, 4.0)
    turn_timers.end_delivery(LANE)
    turn_timers.end_delivery(LANE)
    assert turn_timers.spans(first, 9.0) == first.spans(9.0)


def test_a_turn_that_has_ended_is_handed_over_to_the_sender():
    turn_timers = TurnTimers()
    over = turn_timers.open(make_item(1), LANE)
    running = turn_timers.open(make_item(2), LANE)
    over.has_ended = True
    turn_timers.hand_over(LANE)
    assert [span.kind for span in turn_timers.spans(over, 99.0)] == ["own", "own"]
    handed, delivering = turn_timers.spans(over, 99.0)
    assert delivering.begin < handed.end < delivering.end == 99.0
    assert turn_timers.spans(running, 99.0)[0] == Span("own", 12.0, 99.0)


def test_what_is_forgotten_is_measured_no_more():
    turn_timers = TurnTimers()
    turn_timers.open(make_item(1), LANE)
    turn_timers.open(make_item(2), LANE)
    turn_timers.forget(1)
    turn_timers.forget(1)
    assert [timer.item for timer in turn_timers] == [2]
    turn_timers.forget(2)
    assert [*turn_timers] == []


async def test_a_wait_for_a_measured_turn_ends_with_the_first_or_when_closed():
    turn_timers = TurnTimers()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(turn_timers.wait_until_measuring())
        await asyncio.sleep(0)
        assert not waiting.done()
        turn_timers.open(make_item(1), LANE)
    await turn_timers.wait_until_measuring()
    turn_timers.forget(1)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(turn_timers.wait_until_measuring())
        await asyncio.sleep(0)
        turn_timers.close()
