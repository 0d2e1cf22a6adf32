"""Spans that overlap are cut into pieces that do not; what no span covers is in no piece."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.db.tables import accounts
from bot.usage.intervals import EXPLAINED, ORDER, Kind, Span, column, divided, read, summed, written

FIRST: tuple[Kind, ...] = (
    *("further canvases", "first canvas", "tools", "Telegram", "down"),
    *("approval wait", "seat wait", "back-off", "lane wait", "intake", "own"),
)
"""Which counts where they overlap."""

moments = st.floats(min_value=0, max_value=100, allow_nan=False)
spans = st.lists(st.builds(Span, st.sampled_from(ORDER), moments, moments), max_size=12)


def test_every_kind_is_explained_and_has_its_column():
    assert set(EXPLAINED) == set(ORDER) == set(FIRST)
    assert {column(kind) for kind in ORDER} == {one.name for one in accounts.c} - {
        "turn",
        "settled_at",
        "whole",
    }


@given(moments, moments, spans, moments)
def test_at_any_moment_the_first_kind_at_work_counts_and_none_where_none_is(
    one: float, other: float, found: list[Span], at: float
):
    begin, end = sorted((one, other))
    here = [piece.kind for piece in divided(begin, end, found) if piece.begin <= at < piece.end]
    at_work = [
        kind for kind in FIRST if any(span.kind == kind and span.begin <= at < span.end for span in found)
    ]
    assert here == (at_work[:1] if begin <= at < end else [])


@given(moments, moments, spans)
def test_pieces_follow_each_other_and_none_is_negative(one: float, other: float, found: list[Span]):
    begin, end = sorted((one, other))
    pieces = divided(begin, end, found)
    assert all(begin <= piece.begin < piece.end <= end for piece in pieces)
    assert all(left.end <= right.begin for left, right in pairwise(pieces))
    assert all(left.kind != right.kind or left.end < right.begin for left, right in pairwise(pieces))


@given(moments, moments, spans, spans)
def test_what_was_cut_before_may_be_cut_again_with_more(
    one: float, other: float, some: list[Span], more: list[Span]
):
    begin, end = sorted((one, other))
    assert divided(begin, end, [*divided(0.0, 100.0, some), *more]) == divided(begin, end, [*some, *more])


@given(spans)
def test_spans_are_stored_and_read_as_they_are(found: list[Span]):
    assert read(written(found)) == tuple(found)


def test_nothing_stored_is_no_span():
    assert read(None) == ()


def test_seconds_are_summed_by_kind_and_every_kind_is_told():
    seconds = summed([Span("own", 1, 2), Span("tools", 2, 4), Span("own", 4, 4.5)])
    assert {kind: value for kind, value in seconds.items() if value} == {"own": 1.5, "tools": 2}
    assert tuple(seconds) == ORDER


@given(st.lists(st.tuples(st.sampled_from(ORDER), moments), min_size=2, max_size=30))
def test_a_chain_of_marks_has_no_gap_even_if_the_clock_is_set_back(marks: list[tuple[Kind, float]]):
    chain = [Span(kind, begin, end) for (kind, begin), (_, end) in pairwise(marks)]
    begin, end = marks[0][1], max(marks[0][1], marks[-1][1])
    covered = sum(summed(divided(begin, end, chain)).values())
    assert covered == pytest.approx(end - begin, abs=1e-6)
