"""The seconds of a turn are cut into exclusive intervals that cover it whole; unknown tokens stay unknown."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.db.accounts import CallRow, PartRow, ToolRow, TurnRow
from bot.usage.account import EXPLAINED, ORDER, Span, account, divided, in_words

CALL = CallRow(
    created_at=101.0,
    seat_at=101.5,
    first_block_at=103.0,
    last_block_at=104.0,
    ended_at=104.25,
    outcome="ok",
    again=None,
    input_tokens=1000,
    cached_tokens=250,
    output_tokens=257,
    partial=False,
)
TURN = TurnRow(1, "answered", 100.0, 100.5, 104.5, (CALL,), (), (PartRow(9, 104.5, 105.0, 105.0),))


def seconds(turn: TurnRow) -> dict[str, float]:
    return dict(account(turn).seconds)


def test_a_plain_turn_is_told_kind_by_kind():
    assert seconds(TURN) == {
        "first canvas": 1.5,
        "further canvases": 1.0,
        "Telegram": 0.5,
        "intake": 0.5,
        "seat": 0.5,
        "rest": 1.0,
    }
    assert account(TURN).whole == 5.0


def test_what_came_with_a_message_took_time_before_the_first_call():
    taken = seconds(replace(TURN, gathered_at=100.75))
    assert (taken["files"], taken["rest"]) == (0.25, 0.75)


def test_every_kind_is_explained():
    assert set(EXPLAINED) == set(ORDER)


def test_a_tool_counts_until_it_ends_and_one_that_never_ended_until_the_answer():
    calls = (CALL, replace(CALL, created_at=107.0, seat_at=107.0, first_block_at=108.0, last_block_at=108.0))
    tools = (ToolRow("clock", "{}", "ok", "…", 104.5, 106.0), ToolRow("clock", "{}", None, None, 104.5, None))
    turn = replace(TURN, calls=calls, tools=tools, ended_at=109.0, parts=(PartRow(9, 109.0, 110.0, 110.0),))
    assert seconds(turn)["tools"] == (107.0 - 104.5) + (110.0 - 108.0)


def test_a_call_that_was_cut_kept_the_model_busy_until_its_end():
    cut = replace(CALL, outcome="cancelled", last_block_at=103.0, ended_at=104.5)
    assert seconds(replace(TURN, calls=(cut,)))["further canvases"] == 1.5


def test_a_call_without_a_block_is_all_first_canvas_and_one_without_a_seat_all_waiting():
    blank = replace(CALL, outcome="failed", first_block_at=None, last_block_at=None)
    assert seconds(replace(TURN, calls=(blank,)))["first canvas"] == 104.25 - 101.5
    unseated = replace(blank, seat_at=None)
    assert seconds(replace(TURN, calls=(unseated,)))["seat"] == 104.25 - 101.0


def test_a_call_that_still_ran_lasts_until_the_end():
    running = replace(CALL, ended_at=None, last_block_at=None, outcome=None)
    assert seconds(replace(TURN, calls=(running,)))["further canvases"] == 2.0


def test_the_pause_after_a_failed_call_is_back_off():
    failed = replace(CALL, outcome="failed", ended_at=101.0, seat_at=None, first_block_at=None, last_block_at=None)
    again = replace(CALL, created_at=103.0, seat_at=103.0, first_block_at=103.5, again="away")
    assert seconds(replace(TURN, calls=(replace(failed, created_at=100.5), again)))["back-off"] == 2.0


def test_streaming_counts_as_telegram_only_while_the_model_rests():
    part = PartRow(9, made_at=103.5, sent_at=104.25, done_at=106.0)
    assert seconds(replace(TURN, parts=(part,)))["Telegram"] == 0.25 + 1.5


def test_a_message_that_was_given_up_ends_nothing():
    turn = replace(TURN, parts=(PartRow(None, 104.5, None, None),))
    assert account(turn).whole == 4.5
    assert "Telegram" not in seconds(turn)


def test_a_clock_that_was_set_back_makes_no_negative_seconds():
    turn = replace(TURN, received_at=200.0)
    assert account(turn).whole == 0
    assert account(turn).seconds == ()


moments = st.floats(min_value=0, max_value=100, allow_nan=False)
spans = st.lists(st.builds(Span, st.sampled_from(ORDER[:-1]), moments, moments), max_size=12)


@given(moments, moments, spans)
def test_the_pieces_follow_each_other_without_a_gap_and_cover_the_whole(one: float, other: float, found: list[Span]):
    begin, end = sorted((one, other))
    pieces = divided(begin, end, found)
    assert [piece.begin for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert all(piece.begin < piece.end for piece in pieces)
    assert all(left.kind != right.kind for left, right in pairwise(pieces))
    assert sum(piece.end - piece.begin for piece in pieces) == pytest.approx(end - begin)
    if pieces:
        assert (pieces[0].begin, pieces[-1].end) == (begin, end)


@given(moments, moments, spans, moments)
def test_at_any_moment_the_first_kind_at_work_counts(one: float, other: float, found: list[Span], at: float):
    begin, end = sorted((one, other))
    here = [piece.kind for piece in divided(begin, end, found) if piece.begin <= at < piece.end]
    at_work = [kind for kind in ORDER if any(span.kind == kind and span.begin <= at < span.end for span in found)]
    assert here == ([at_work[0] if at_work else "rest"] if begin <= at < end else [])


def test_tokens_are_told_in_one_line():
    assert in_words(account(TURN)) == "1 model call · 1,000 tokens in (25 % cached) · 257 out · ~2 canvases (estimated)"
    short = replace(CALL, output_tokens=5)
    assert in_words(account(replace(TURN, calls=(short, CALL)))).endswith("· 262 out · ~3 canvases (estimated)")
    assert in_words(account(replace(TURN, calls=(short,)))).endswith("· 5 out · ~1 canvas (estimated)")


def test_what_the_server_did_not_count_is_unknown():
    silent = replace(CALL, input_tokens=None, cached_tokens=None, output_tokens=None)
    told = in_words(account(replace(TURN, calls=(silent,))))
    assert told == "1 model call · unknown tokens in (cached share unknown) · unknown out · canvases unknown"
    half = in_words(account(replace(TURN, calls=(silent, replace(CALL, partial=True)))))
    assert half == (
        "2 model calls · at least 1,000 tokens in (cached share unknown) · at least 257 out · ~2 canvases (estimated)"
    )


def test_a_call_that_was_cut_read_its_whole_prompt_but_may_have_written_more():
    told = in_words(account(replace(TURN, calls=(replace(CALL, partial=True),))))
    assert told == "1 model call · 1,000 tokens in (25 % cached) · at least 257 out · ~2 canvases (estimated)"


def test_a_turn_without_a_call_says_so():
    assert in_words(account(replace(TURN, calls=()))) == "no model call"
