from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.history import TurnSize, choose, estimate
from bot.domain import Message, ToolCall

SIZES = st.lists(st.integers(1, 400).flatmap(lambda whole: st.builds(TurnSize, st.integers(1, whole), st.just(whole))))


def turns(*wholes: int) -> list[TurnSize]:
    return [TurnSize(whole // 2, whole) for whole in wholes]


def test_all_turns_go_in_while_they_fit():
    assert choose(turns(100, 100, 100), newest=50, budget=1000, fixed=600) == 0


def test_one_big_cut_is_made_and_then_none_for_a_while():
    sizes = turns(*[100] * 30)
    firsts = [choose(sizes[:count], newest=50, budget=1000, fixed=0) for count in range(31)]
    assert firsts[:10] == [0] * 10
    assert firsts[10] == 8
    assert len(set(firsts)) == 4


def test_a_message_larger_than_the_budget_goes_alone():
    assert choose(turns(100, 100), newest=2000, budget=1000, fixed=0) == 2


def test_a_fixed_part_larger_than_the_budget_leaves_no_history():
    assert choose(turns(10, 10), newest=10, budget=100, fixed=200) == 2


def test_nothing_said_yet_is_nothing_to_choose():
    assert choose([], newest=10, budget=100, fixed=0) == 0


@settings(deadline=None)
@given(SIZES, st.integers(1, 400), st.integers(0, 1500), st.integers(0, 500))
def test_the_prompt_stays_in_the_budget_and_its_front_never_moves_back(sizes, newest, budget, fixed):
    first = choose(sizes, newest, budget, fixed)
    assert first == len(sizes) or fixed + newest + sum(turn.whole for turn in sizes[first:]) <= budget
    before = choose(sizes[:-1], sizes[-1].opening, budget, fixed) if sizes else 0
    assert before <= first
    assert choose(sizes, newest, budget, fixed) == first


def test_the_estimate_counts_text_calls_and_the_frame_of_a_message():
    assert estimate([]) == 0
    assert estimate([Message("user", "a" * 400)]) == 105
    assert estimate([Message("assistant", calls=(ToolCall("id", "clock", '{"zone": "UTC"}'),))]) == 10
    assert estimate([Message("user", "слово" * 80)]) == 205
    assert estimate([Message("user", "\ud83d")]) == 5
