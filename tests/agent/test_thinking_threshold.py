"""The threshold of heavy work follows what a thought costs, in proportion and within bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.turns.thought_costs import (
    MAX_FACTOR,
    MAX_THRESHOLD,
    MIN_FACTOR,
    MIN_THOUGHTS,
    ThoughtCost,
    adjust_threshold,
    explain_cost,
    measure_thoughts,
)

thresholds = st.floats(0.01, 0.99)
costs = st.builds(ThoughtCost, tokens=st.floats(0, 1e6), canvas_seconds=st.floats(0, 1e6))


def test_the_shipped_threshold_holds_while_too_few_calls_have_thought():
    assert measure_thoughts(MIN_THOUGHTS - 1, 9000, 99, 99.0) is None
    assert measure_thoughts(MIN_THOUGHTS, 9000, 0, 0.0) is None
    assert adjust_threshold(0.5, None) == 0.5


def test_the_cost_of_a_thought_is_its_tokens_at_the_measured_seconds_a_canvas():
    cost = measure_thoughts(20, 12_800, 80, 120.0)
    assert cost == ThoughtCost(640.0, 1.5)
    assert cost.seconds == 3.75


@pytest.mark.parametrize(
    ("tokens", "canvas_seconds", "threshold"),
    [
        (150, 1.6, 0.35),  # as cheap as it counts
        (256, 1.6, 0.4),
        (320, 1.6, 0.5),
        (600, 1.6, 0.65),
        (600, 0.4, 0.35),  # the same thoughts on a card that is four times as fast
        (2000, 3.0, 0.65),
    ],
)
def test_thinking_that_is_cheap_is_used_more_and_slow_thinking_less(
    tokens: float, canvas_seconds: float, threshold: float
):
    assert adjust_threshold(0.5, ThoughtCost(tokens, canvas_seconds)) == pytest.approx(threshold)


@given(thresholds, costs, costs)
def test_the_threshold_grows_with_the_cost_and_stays_within_bounds(
    threshold: float, cost: ThoughtCost, other: ThoughtCost
):
    lower, higher = sorted((cost, other), key=lambda one: one.seconds)
    adjusted = adjust_threshold(threshold, lower)
    assert adjusted <= adjust_threshold(threshold, higher) <= max(threshold, MAX_THRESHOLD)
    assert threshold * MIN_FACTOR <= adjusted <= threshold * MAX_FACTOR


CHEAP = ThoughtCost(120.4, 1.6)
SLOW = ThoughtCost(900.0, 1.6)


@pytest.mark.parametrize(
    ("chance", "cost", "thinking", "explanation"),
    [
        (0.4, CHEAP, True, "thinking is cheap here: about 120 tokens, 0.8 s"),
        (0.6, SLOW, False, "thinking is slow here: about 900 tokens, 5.6 s"),
        (0.4, CHEAP, False, None),  # something else kept it off
        (0.6, SLOW, True, None),  # something else switched it on
        (0.6, CHEAP, True, None),  # heavy enough at any cost
        (0.1, SLOW, False, None),
        (0.4, None, False, None),
    ],
)
def test_the_cost_is_the_reason_where_it_decided(
    chance: float, cost: ThoughtCost | None, thinking: bool, explanation: str | None
):
    assert explain_cost(chance, 0.5, cost, thinking=thinking) == explanation
