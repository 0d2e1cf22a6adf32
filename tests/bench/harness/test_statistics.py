"""The arithmetic of measuring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.bench.harness.statistics import (
    Limit,
    Report,
    Row,
    Value,
    at_most,
    median,
    most_at_once,
    percentile,
    rounds,
    times,
    wanted,
)

SECONDS = st.floats(0, 1e6)


def row(ours: Value, limit: Limit | None, memory: Value = None) -> Row:
    return Row("key", "label", "ms", {"ours": ours, "memory": memory}, limit)


def test_a_percentile_lies_between_its_neighbours():
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert percentile(range(101), 0.95) == 95
    assert percentile([7.0], 0.95) == 7
    assert percentile([], 0.5) is None
    assert median([5.0, 1.0, 3.0]) == 3


@given(st.lists(SECONDS, min_size=1), st.floats(0, 1))
def test_a_percentile_is_never_outside_of_what_was_measured(values: list[float], share: float):
    found = percentile(values, share)
    assert found is not None
    assert min(values) <= found <= max(values) * (1 + 1e-12)


def test_calls_that_touch_do_not_overlap():
    assert most_at_once([(0, 1), (1, 2)]) == 1
    assert most_at_once([(0, 3), (1, 2), (1.5, 4), (3, 5)]) == 3
    assert most_at_once([]) == 0


@given(st.lists(st.tuples(SECONDS, SECONDS).map(lambda pair: (min(pair), max(pair))), max_size=30))
def test_the_most_at_once_is_found_where_a_call_begins(spans: list[tuple[float, float]]):
    real = [(begin, end) for begin, end in spans if begin < end]
    expected = max((sum(b <= begin < e for b, e in real) for begin, _ in real), default=0)
    assert most_at_once(real) == expected


def test_rounds_go_there_and_back_again():
    assert rounds(("bare", "ours"), 3) == [("bare", "ours"), ("ours", "bare"), ("bare", "ours")]


@pytest.mark.parametrize(
    ("ours", "limit", "verdict"),
    [
        (1.5, at_most(1.5), "ok"),
        (1.51, at_most(1.5), "over"),
        (20.0, times(2, 10.0), "ok"),
        (20.1, times(2, 10.0), "over"),
        (25.0, times(2, 10.0, 5), "ok"),
        (25.1, times(2, 10.0, 5), "over"),
        (True, wanted(value=True), "ok"),
        (False, wanted(value=True), "over"),
        (True, wanted(value=False), "over"),
        (None, at_most(1), ""),
        (1.0, None, ""),
        (1.0, times(2, None), ""),
    ],
)
def test_a_verdict_follows_from_figure_and_limit(ours: Value, limit: Limit | None, verdict: str):
    assert row(ours, limit).verdict == verdict


def test_a_ratio_needs_two_numbers():
    assert row(30.0, None, memory=10.0).ratio == 3
    assert row(30.0, None).ratio is None
    assert row(30.0, None, memory=0.0).ratio is None
    assert row(True, None, memory=False).ratio is None


def test_a_report_holds_unless_a_limit_is_missed():
    assert Report((row(1.0, at_most(1)), row(9.0, None), row(None, at_most(1)))).holds
    assert not Report((row(1.0, at_most(1)), row(2.0, at_most(1)))).holds
