"""The arithmetic of measuring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.bench.harness.statistics import median, percentile
from tests.bench.harness.figures import (
    Figure,
    FigureLimit,
    FigureRow,
    FigureValue,
    LoadReport,
    count_overlap,
    limit_to,
    limit_to_memory_loop,
    merge_runs,
    order_rounds,
    require_answer,
    require_at_least,
)

SECONDS = st.floats(0, 1e6)


def row(ours: FigureValue, limit: FigureLimit | None, memory: FigureValue = None) -> FigureRow:
    return FigureRow("key", "label", "ms", {"ours": ours, "memory": memory}, limit)


def test_a_percentile_lies_between_its_neighbours():
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert percentile(range(101), 0.95) == 95
    assert percentile([7.0], 0.95) == 7
    assert percentile([], 0.5) is None
    assert median([5.0, 1.0, 3.0]) == 3


@given(st.lists(SECONDS, min_size=1), st.floats(0, 1))
def test_a_percentile_is_never_outside_of_what_was_measured(values: list[float], fraction: float):
    value = percentile(values, fraction)
    assert value is not None
    assert min(values) <= value <= max(values) * (1 + 1e-12)


def test_calls_that_touch_do_not_overlap():
    assert count_overlap([(0, 1), (1, 2)]) == 1
    assert count_overlap([(0, 3), (1, 2), (1.5, 4), (3, 5)]) == 3
    assert count_overlap([]) == 0


@given(st.lists(st.tuples(SECONDS, SECONDS).map(lambda pair: (min(pair), max(pair))), max_size=30))
def test_the_most_at_once_is_found_where_a_call_begins(spans: list[tuple[float, float]]):
    real = [(begin, end) for begin, end in spans if begin < end]
    expected = max((sum(b <= begin < e for b, e in real) for begin, _ in real), default=0)
    assert count_overlap(real) == expected


def test_rounds_go_forwards_and_backwards():
    assert order_rounds(("bare", "ours"), 3) == [("bare", "ours"), ("ours", "bare"), ("bare", "ours")]


@pytest.mark.parametrize(
    ("ours", "limit", "verdict"),
    [
        (1.5, limit_to(1.5), "ok"),
        (1.51, limit_to(1.5), "missed"),
        (20.0, limit_to_memory_loop(2), "ok"),
        (20.1, limit_to_memory_loop(2), "missed"),
        (40.0, require_at_least(40), "ok"),
        (39.9, require_at_least(40), "missed"),
        (True, require_answer(value=True), "ok"),
        (False, require_answer(value=True), "missed"),
        (True, require_answer(value=False), "missed"),
        (None, limit_to(1), ""),
        (None, limit_to_memory_loop(1), ""),
        (1.0, None, ""),
    ],
)
def test_a_verdict_follows_from_figure_and_limit(ours: FigureValue, limit: FigureLimit | None, verdict: str):
    assert Figure((row(ours, limit, memory=10.0),)).verdict == verdict


def test_a_ratio_needs_two_numbers():
    assert row(30.0, None, memory=10.0).ratio == 3
    assert row(30.0, None).ratio is None
    assert row(30.0, None, memory=0.0).ratio is None
    assert row(True, None, memory=False).ratio is None


def test_runs_are_merged_and_a_ratio_is_taken_within_each():
    limit = limit_to_memory_loop(2)
    runs = [row(30.0, limit, memory=10.0), row(90.0, limit, memory=60.0), row(40.0, limit, memory=25.0)]
    (figure,) = merge_runs(runs)
    spread = figure.get_spread("ours")
    assert spread is not None
    assert (spread.lowest, spread.median, spread.highest) == (30, 40, 90)
    assert figure.ratio is not None
    assert (figure.ratio.lowest, figure.ratio.median, figure.ratio.highest) == (1.5, 1.6, 3.0)
    assert figure.verdict == "ok"
    assert figure.get_value("bare") is None


def test_of_several_answers_the_wrong_one_is_shown():
    right = require_answer(value=True)
    (figure,) = merge_runs([row(True, right), row(False, right), row(True, right)])
    assert (figure.get_value("ours"), figure.verdict) == (False, "missed")


def test_a_report_passes_unless_a_limit_is_missed():
    kept = merge_runs([row(1.0, limit_to(1))])
    assert LoadReport(
        (*kept, *merge_runs([row(9.0, None)]), *merge_runs([row(None, limit_to(1))]))
    ).has_passed
    assert not LoadReport((*kept, *merge_runs([row(2.0, limit_to(1))]))).has_passed
