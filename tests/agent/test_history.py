"""The history cut: it fits, moves in big steps, and shortens results before it drops turns."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.history import (
    BYTES_PER_TOKEN,
    IMAGE_PLACEHOLDER,
    LONG_TURN_TOKENS,
    MAX_OLD_RESULT_CHARS,
    TOKENS_PER_MESSAGE,
    HistoryCut,
    TurnSize,
    compute_token_ratio,
    estimate_held_tokens,
    estimate_tokens,
    fit_history,
    shorten_turn,
)
from bot.domain import Image, Message, ToolCall

SIZES = st.lists(
    st.integers(1, 400).flatmap(lambda n: st.builds(TurnSize, st.just(n), st.integers(1, n))), max_size=60
)


def make_turns(*sizes: int) -> list[TurnSize]:
    return [TurnSize(size, size) for size in sizes]


def test_all_turns_go_in_while_they_fit():
    assert fit_history(make_turns(100, 100, 100), HistoryCut(), 300) == HistoryCut(0, 0)


def test_after_a_big_cut_there_is_none_for_a_while():
    sizes = make_turns(*[25] * 120)
    cut = HistoryCut()
    moves = []
    for count in range(1, 121):
        cut = fit_history(sizes[:count], cut, 1000)
        moves.append(cut.first_turn)
    assert moves[:41] == [0] * 40 + [31]
    assert len(set(moves)) == 4


def test_the_newest_six_turns_stay_as_far_as_they_take_at_most_half():
    small = make_turns(*[80] * 13)
    assert fit_history(small, HistoryCut(), 1000).first_turn == 7
    large = make_turns(*[110] * 10)
    assert fit_history(large, HistoryCut(), 1000).first_turn == 6


def test_a_long_text_stays_with_all_that_followed_it_where_they_take_at_most_half():
    sizes = make_turns(*[60] * 20, LONG_TURN_TOKENS, *[40] * 9)
    assert fit_history(sizes, HistoryCut(), 2 * (LONG_TURN_TOKENS + 9 * 40)).first_turn == 20
    assert fit_history(sizes, HistoryCut(), 1700).first_turn == 21


def test_old_results_are_shortened_before_a_turn_is_dropped():
    sizes = [TurnSize(400, 50), TurnSize(400, 50), TurnSize(300, 60)]
    assert fit_history(sizes, HistoryCut(), 1000) == HistoryCut(0, 2)
    assert estimate_held_tokens(sizes, HistoryCut(0, 2)) == 400


def test_shortening_that_saves_little_is_followed_by_the_big_cut():
    sizes = [TurnSize(400, 350), TurnSize(400, 350), TurnSize(200, 200)]
    assert fit_history(sizes, HistoryCut(), 900) == HistoryCut(2, 2)


def test_the_newest_turn_is_shortened_if_it_does_not_fit_in_full():
    assert fit_history([TurnSize(50, 50), TurnSize(2000, 300)], HistoryCut(), 1000) == HistoryCut(0, 2)
    assert fit_history([TurnSize(50, 50), TurnSize(2000, 900)], HistoryCut(), 1000) == HistoryCut(1, 2)


def test_if_nothing_fits_the_cut_holds_nothing():
    assert fit_history(make_turns(100, 100), HistoryCut(), 0) == HistoryCut(2, 2)
    assert fit_history(make_turns(100, 100), HistoryCut(), -5) == HistoryCut(2, 2)
    assert fit_history([], HistoryCut(), 0) == HistoryCut()


@settings(deadline=None)
@given(SIZES, st.integers(-100, 3000))
def test_the_held_turns_fit_and_the_front_only_moves_forward(sizes: list[TurnSize], max_tokens: int):
    cut = HistoryCut()
    for count in range(len(sizes) + 1):
        new_cut = fit_history(sizes[:count], cut, max_tokens)
        assert estimate_held_tokens(sizes[:count], new_cut) <= max(0, max_tokens)
        assert (new_cut.first_turn, new_cut.first_full_turn) >= (cut.first_turn, cut.first_full_turn)
        assert fit_history(sizes[:count], new_cut, max_tokens) == new_cut
        cut = new_cut


def test_the_estimate_counts_text_calls_images_and_the_frame_of_a_message():
    picture = Image("image/jpeg", b"...")
    assert estimate_tokens([]) == 0
    assert estimate_tokens([Message("user", "a" * 400)]) == 105
    assert estimate_tokens([Message("user", "a" * 400, images=(picture, picture))]) == 105 + 2 * 280
    assert estimate_tokens([Message("assistant", calls=(ToolCall("id", "clock", '{"zone": "UTC"}'),))]) == 10
    assert estimate_tokens([Message("user", "слово" * 80)]) == 205
    assert estimate_tokens([Message("user", "\ud83d")]) == 5


def test_the_ratio_is_counted_to_estimated_tokens_within_bounds():
    assert compute_token_ratio(1000, 1300) == 1.3
    assert (
        compute_token_ratio(1000, None) == compute_token_ratio(None, 1000) == compute_token_ratio(0, 5) == 1.0
    )
    assert (compute_token_ratio(1, 1000), compute_token_ratio(1000, 1)) == (4.0, 0.25)


@given(st.text(max_size=2000))
def test_a_shortened_result_says_how_much_is_left_out(text: str):
    (short,) = shorten_turn([Message("tool", text, call_id="c")])
    if len(text) <= MAX_OLD_RESULT_CHARS:
        assert short == Message("tool", text, call_id="c")
    else:
        assert (
            short.text
            == f"{text[:MAX_OLD_RESULT_CHARS]}\n[… {len(text) - MAX_OLD_RESULT_CHARS} characters left out]"
        )


def test_a_result_with_a_picture_is_shortened_as_well():
    result = Message("tool", "x" * 999, call_id="c", images=(Image("image/png", b"1"),))
    [short] = shorten_turn([result])
    assert short.images == ()
    assert short.text.startswith(IMAGE_PLACEHOLDER)
    assert len(short.text) < MAX_OLD_RESULT_CHARS + 40


def test_a_shortened_turn_keeps_its_text_and_calls_and_marks_where_images_were():
    picture = Image("image/jpeg", b"...")
    question = Message("user", "what is this?", images=(picture, picture))
    call = Message("assistant", calls=(ToolCall("c", "look", "{}"),))
    answer = Message("assistant", "word " * 400)
    short = shorten_turn([question, call, answer])
    assert short == [
        replace(question, images=(), text=f"{IMAGE_PLACEHOLDER}\n{IMAGE_PLACEHOLDER}\nwhat is this?"),
        call,
        answer,
    ]
    assert estimate_tokens(short) < estimate_tokens([question, call, answer])
    assert (BYTES_PER_TOKEN, TOKENS_PER_MESSAGE) == (4, 5)
