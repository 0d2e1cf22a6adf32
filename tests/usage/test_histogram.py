"""Percentiles from buckets are as near to the true ones as promised."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.usage.histogram import (
    BUCKET_GROWTH,
    MAX_RELATIVE_ERROR,
    MIN_SECONDS,
    bucket_midpoint,
    bucket_number,
    exact_percentile,
    percentile,
)

durations = st.floats(min_value=MIN_SECONDS, max_value=1e7)


@given(durations)
def test_a_bucket_stands_for_what_is_in_it_within_the_stated_error(seconds: float):
    number = bucket_number(seconds)
    assert number is not None
    assert bucket_midpoint(number) == pytest.approx(seconds, rel=MAX_RELATIVE_ERROR * 1.001)


def test_the_error_is_two_and_a_half_percent():
    assert f"{MAX_RELATIVE_ERROR:.1%}" == "2.5%"
    assert pytest.approx(BUCKET_GROWTH) == (1 + MAX_RELATIVE_ERROR) ** 2


@given(st.floats(min_value=0, max_value=MIN_SECONDS, exclude_max=True))
def test_next_to_nothing_has_no_bucket(seconds: float):
    assert bucket_number(seconds) is None


@given(st.lists(durations, min_size=1, max_size=50), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_of_buckets_is_within_the_error_of_the_exact_one(durations: list[float], share: float):
    counts: dict[int, int] = {}
    for seconds in durations:
        number = bucket_number(seconds)
        assert number is not None
        counts[number] = counts.get(number, 0) + 1
    exact = exact_percentile(sorted(durations), share)
    assert math.isclose(percentile(counts, share), exact, rel_tol=MAX_RELATIVE_ERROR * 1.001)


def test_an_exact_percentile_is_one_that_was_measured():
    assert exact_percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert exact_percentile([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0
    assert exact_percentile([7.0], 0.5) == 7.0
