"""The window of a conversation: what it holds fits, it moves in big steps, and old results leave before turns
do.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.history import (
    BYTES_A_TOKEN,
    NO_IMAGE,
    RESULT,
    TOKENS_A_MESSAGE,
    TurnSize,
    Window,
    estimate,
    fit,
    held,
    ratio,
    shortened,
)
from bot.domain import Image, Message, ToolCall

SIZES = st.lists(
    st.integers(1, 400).flatmap(lambda n: st.builds(TurnSize, st.just(n), st.integers(1, n))), max_size=60
)


def turns(*wholes: int) -> list[TurnSize]:
    return [TurnSize(whole, whole) for whole in wholes]


def test_all_turns_go_in_while_they_fit():
    assert fit(turns(100, 100, 100), Window(), 300) == Window(0, 0)


def test_one_big_cut_is_made_and_then_none_for_a_while():
    sizes, window, moves = turns(*[100] * 30), Window(), []
    for count in range(1, 31):
        window = fit(sizes[:count], window, 1000)
        moves.append(window.first)
    assert moves[:11] == [0] * 10 + [9]
    assert len(set(moves)) == 4


def test_old_results_are_shortened_before_a_turn_leaves():
    sizes = [TurnSize(400, 50), TurnSize(400, 50), TurnSize(300, 60)]
    assert fit(sizes, Window(), 1000) == Window(0, 2)
    assert held(sizes, Window(0, 2)) == 400


def test_shortening_that_makes_little_room_is_followed_by_the_big_cut():
    sizes = [TurnSize(400, 350), TurnSize(400, 350), TurnSize(200, 200)]
    assert fit(sizes, Window(), 900) == Window(2, 2)


def test_the_newest_turn_stays_in_short_where_it_does_not_fit_whole():
    assert fit([TurnSize(50, 50), TurnSize(2000, 300)], Window(), 1000) == Window(1, 2)


def test_where_nothing_fits_nothing_is_held():
    assert fit(turns(100, 100), Window(), 0) == Window(2, 2)
    assert fit(turns(100, 100), Window(), -5) == Window(2, 2)
    assert fit([], Window(), 0) == Window()


@settings(deadline=None)
@given(SIZES, st.integers(-100, 3000))
def test_what_is_held_fits_and_the_front_only_moves_on(sizes: list[TurnSize], room: int):
    window = Window()
    for count in range(len(sizes) + 1):
        moved = fit(sizes[:count], window, room)
        assert held(sizes[:count], moved) <= max(0, room)
        assert (moved.first, moved.whole) >= (window.first, window.whole)
        assert fit(sizes[:count], moved, room) == moved
        window = moved


def test_the_estimate_counts_text_calls_images_and_the_frame_of_a_message():
    picture = Image("image/jpeg", b"...")
    assert estimate([]) == 0
    assert estimate([Message("user", "a" * 400)]) == 105
    assert estimate([Message("user", "a" * 400, images=(picture, picture))]) == 105 + 2 * 280
    assert estimate([Message("assistant", calls=(ToolCall("id", "clock", '{"zone": "UTC"}'),))]) == 10
    assert estimate([Message("user", "слово" * 80)]) == 205
    assert estimate([Message("user", "\ud83d")]) == 5


def test_the_ratio_is_what_was_counted_of_what_was_estimated_within_reason():
    assert ratio(1000, 1300) == 1.3
    assert ratio(1000, None) == ratio(None, 1000) == ratio(0, 5) == 1.0
    assert (ratio(1, 1000), ratio(1000, 1)) == (4.0, 0.25)


@given(st.text(max_size=2000))
def test_a_shortened_result_says_how_much_is_left_out(text: str):
    (short,) = shortened([Message("tool", text, call_id="c")])
    if len(text) <= RESULT:
        assert short == Message("tool", text, call_id="c")
    else:
        assert short.text == f"{text[:RESULT]}\n[… {len(text) - RESULT} characters left out]"


def test_a_result_with_a_picture_is_shortened_as_well():
    drew = Message("tool", "x" * 999, call_id="c", images=(Image("image/png", b"1"),))
    [short] = shortened([drew])
    assert short.images == ()
    assert short.text.startswith(NO_IMAGE)
    assert len(short.text) < RESULT + 40


def test_a_shortened_turn_keeps_its_words_and_calls_and_says_where_images_were():
    picture = Image("image/jpeg", b"...")
    asked = Message("user", "what is this?", images=(picture, picture))
    call = Message("assistant", calls=(ToolCall("c", "look", "{}"),))
    answer = Message("assistant", "word " * 400)
    short = shortened([asked, call, answer])
    assert short == [replace(asked, images=(), text=f"{NO_IMAGE}\n{NO_IMAGE}\nwhat is this?"), call, answer]
    assert estimate(short) < estimate([asked, call, answer])
    assert (BYTES_A_TOKEN, TOKENS_A_MESSAGE) == (4, 5)
