"""The simulator's flood limits, counted on a clock of the test's own."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from bot.sim.telegram.flood_limits import FloodGate, FloodLimits, FloodRate


@dataclass
class ManualTime:
    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds


def test_a_private_chat_takes_a_burst_and_then_one_a_second():
    time = ManualTime()
    gate = FloodGate(FloodLimits(), time.now)
    assert [gate.wait_for_message(1) for _ in range(5)] == [0, 0, 0, 0, 3]
    assert gate.wait_for_message(2) == 0
    time.seconds += 3
    assert gate.wait_for_message(1) == 0


def test_a_group_takes_twenty_a_minute():
    time = ManualTime()
    gate = FloodGate(FloodLimits(overall=None), time.now)
    assert [gate.wait_for_message(-5) for _ in range(21)] == [0] * 20 + [3]
    time.seconds += 60
    assert [gate.wait_for_message(-5) for _ in range(21)][:20] == [0] * 20


def test_all_chats_together_take_thirty_a_second():
    time = ManualTime()
    gate = FloodGate(FloodLimits(), time.now)
    assert [gate.wait_for_message(chat) for chat in range(1, 32)] == [0] * 30 + [3]
    assert gate.wait_for_message(99) > 0


def test_drafts_are_counted_apart():
    gate = FloodGate(FloodLimits(drafts=FloodRate(1, 1, 2)), ManualTime().now)
    assert [gate.wait_for_draft(1) for _ in range(3)] == [0, 0, 3]
    assert gate.wait_for_message(1) == 0


def test_each_disregard_of_a_penalty_doubles_it():
    gate = FloodGate(FloodLimits(private=FloodRate(1, 1, 1), max_penalty_seconds=20), ManualTime().now)
    assert [gate.wait_for_message(1) for _ in range(6)] == [0, 3, 6, 12, 20, 20]


def test_penalties_are_forgotten_after_a_calm_while():
    time = ManualTime()
    gate = FloodGate(FloodLimits(private=FloodRate(1, 1, 1)), time.now)
    assert [gate.wait_for_message(1) for _ in range(3)] == [0, 3, 6]
    time.seconds += 6 + 61
    assert [gate.wait_for_message(1) for _ in range(2)] == [0, 3]


def test_without_limits_nothing_is_held_back():
    gate = FloodGate(FloodLimits.unlimited(), ManualTime().now)
    assert {gate.wait_for_message(1) + gate.wait_for_draft(1) for _ in range(1000)} == {0}


@given(st.lists(st.floats(0, 10), max_size=40))
def test_whoever_waits_as_long_as_told_is_let_through(pauses: list[float]):
    time = ManualTime()
    gate = FloodGate(FloodLimits(), time.now)
    for pause in pauses:
        time.seconds += pause
        if wait := gate.wait_for_message(1):
            time.seconds += wait
            assert gate.wait_for_message(1) == 0
