"""Overlapping spans are cut into exclusive ones; time without a span is in none."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.db.tables import accounts
from bot.usage.intervals import (
    INTERVAL_DESCRIPTIONS,
    INTERVAL_ORDER,
    IntervalKind,
    Span,
    column_name,
    parse_spans,
    serialize_spans,
    sum_by_kind,
    to_exclusive_spans,
)

PRECEDENCE: tuple[IntervalKind, ...] = (
    *("failed calls", "server queue", "further canvases", "first canvas", "preflight", "starting", "tools"),
    *("seat wait", "back-off", "Telegram", "down"),
    *("approval wait", "lane wait", "intake", "own"),
)
"""Which counts where they overlap."""

times = st.floats(min_value=0, max_value=100, allow_nan=False)
spans = st.lists(st.builds(Span, st.sampled_from(INTERVAL_ORDER), times, times), max_size=12)


def test_every_kind_is_explained_and_has_its_column():
    assert set(INTERVAL_DESCRIPTIONS) == set(INTERVAL_ORDER) == set(PRECEDENCE)
    assert {column_name(kind) for kind in INTERVAL_ORDER} == {column.name for column in accounts.c} - {
        "turn",
        "settled_at",
        "whole",
    }


@given(times, times, spans, times)
def test_at_any_moment_the_first_kind_at_work_counts_and_none_where_none_is(
    first: float, second: float, spans: list[Span], moment: float
):
    begin, end = sorted((first, second))
    kinds = [span.kind for span in to_exclusive_spans(begin, end, spans) if span.begin <= moment < span.end]
    at_work = [
        kind
        for kind in PRECEDENCE
        if any(span.kind == kind and span.begin <= moment < span.end for span in spans)
    ]
    assert kinds == (at_work[:1] if begin <= moment < end else [])


@given(times, times, spans)
def test_pieces_follow_each_other_and_none_is_negative(first: float, second: float, spans: list[Span]):
    begin, end = sorted((first, second))
    exclusive_spans = to_exclusive_spans(begin, end, spans)
    assert all(begin <= span.begin < span.end <= end for span in exclusive_spans)
    assert all(earlier.end <= later.begin for earlier, later in pairwise(exclusive_spans))
    assert all(
        earlier.kind != later.kind or earlier.end < later.begin
        for earlier, later in pairwise(exclusive_spans)
    )


@given(times, times, spans, spans)
def test_what_was_cut_before_may_be_cut_again_with_more(
    first: float, second: float, some: list[Span], more: list[Span]
):
    begin, end = sorted((first, second))
    assert to_exclusive_spans(
        begin, end, [*to_exclusive_spans(0.0, 100.0, some), *more]
    ) == to_exclusive_spans(begin, end, [*some, *more])


@given(spans)
def test_spans_are_stored_and_read_as_they_are(spans: list[Span]):
    assert parse_spans(serialize_spans(spans)) == tuple(spans)


def test_nothing_stored_is_no_span():
    assert parse_spans(None) == ()


def test_seconds_are_summed_by_kind_and_every_kind_is_present():
    seconds = sum_by_kind([Span("own", 1, 2), Span("tools", 2, 4), Span("own", 4, 4.5)])
    assert {kind: value for kind, value in seconds.items() if value} == {"own": 1.5, "tools": 2}
    assert tuple(seconds) == INTERVAL_ORDER


@given(st.lists(st.tuples(st.sampled_from(INTERVAL_ORDER), times), min_size=2, max_size=30))
def test_a_chain_of_marks_has_no_gap_even_if_the_clock_is_set_back(marks: list[tuple[IntervalKind, float]]):
    chain = [Span(kind, begin, end) for (kind, begin), (_, end) in pairwise(marks)]
    begin = marks[0][1]
    end = max(marks[0][1], marks[-1][1])
    covered = sum(sum_by_kind(to_exclusive_spans(begin, end, chain)).values())
    assert covered == pytest.approx(end - begin, abs=1e-6)
