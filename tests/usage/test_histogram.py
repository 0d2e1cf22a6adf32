"""Percentiles out of buckets are as near to the true ones as is said."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.usage.histogram import ERROR, GROWTH, LEAST, bucket, exactly, middle, percentile

durations = st.floats(min_value=LEAST, max_value=1e7)


@given(durations)
def test_a_bucket_stands_for_what_is_in_it_within_the_stated_error(seconds: float):
    number = bucket(seconds)
    assert number is not None
    assert middle(number) == pytest.approx(seconds, rel=ERROR * 1.001)


def test_the_error_is_two_and_a_half_percent():
    assert f"{ERROR:.1%}" == "2.5%"
    assert pytest.approx(GROWTH) == (1 + ERROR) ** 2


@given(st.floats(min_value=0, max_value=LEAST, exclude_max=True))
def test_next_to_nothing_has_no_bucket(seconds: float):
    assert bucket(seconds) is None


@given(st.lists(durations, min_size=1, max_size=50), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_of_buckets_is_within_the_error_of_the_exact_one(found: list[float], share: float):
    counts: dict[int, int] = {}
    for seconds in found:
        number = bucket(seconds)
        assert number is not None
        counts[number] = counts.get(number, 0) + 1
    exact = exactly(sorted(found), share)
    assert math.isclose(percentile(counts, share), exact, rel_tol=ERROR * 1.001)


def test_an_exact_percentile_is_one_that_was_measured():
    assert exactly([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert exactly([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0
    assert exactly([7.0], 0.5) == 7.0
