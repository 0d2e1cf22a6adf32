"""Telegram is never called more often than the limits allow, and what must arrive is never held up by what
need not.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.telegram.delivery.rate_budget import Budget, Limits

CHATS = st.sampled_from([1, 2, 3, -1, -2])
CALLS = st.lists(st.tuples(st.floats(0, 5), CHATS, st.booleans()), max_size=200)


def made(calls: list[tuple[float, int, bool]], *, patient: bool) -> list[tuple[float, int, bool]]:
    """The moments at which these calls (pause before, chat, show) are made; a show that must wait is left
    out.
    """
    budget, now, done = Budget(Limits()), 1000.0, []
    for pause, chat, show in calls:
        now += pause
        wait = max(budget.wait_in_chat(chat, now, show=show), budget.wait_overall(now, show=show))
        if wait and (show or not patient):
            continue
        now += wait
        assert max(budget.wait_in_chat(chat, now, show=show), budget.wait_overall(now, show=show)) < 1e-6
        budget.spend(chat, now, show=show)
        done.append((now, chat, show))
    return done


def most_within(moments: list[float], seconds: float) -> int:
    return max(
        (sum(begin <= one < begin + seconds - 1e-6 for one in moments) for begin in moments), default=0
    )


@given(CALLS, st.booleans())
def test_no_window_holds_more_calls_than_telegram_allows(calls: list[tuple[float, int, bool]], patient: bool):
    done = made(calls, patient=patient)
    assert most_within([at for at, _, _ in done], 1) <= 50
    for chat in (1, 2, 3, -1, -2):
        here = [(at, show) for at, where, show in done if where == chat]
        assert most_within([at for at, _ in here], 60) <= (20 if chat < 0 else 63)
        assert most_within([at for at, _ in here], 1) <= (5 if chat < 0 else 4)
        if chat < 0:
            assert most_within([at for at, show in here if show], 60) <= 12


@given(CALLS)
def test_shows_alone_never_hold_up_what_must_arrive(calls: list[tuple[float, int, bool]]):
    budget, now = Budget(Limits()), 1000.0
    for pause, chat, _ in calls:
        now += pause
        if not budget.wait_in_chat(chat, now, show=True) and not budget.wait_overall(now, show=True):
            budget.spend(chat, now, show=True)
        assert budget.wait_in_chat(chat, now) < 1e-6
        assert budget.wait_overall(now) == 0


def test_a_burst_is_let_through_and_the_next_call_waits_a_second():
    budget = Budget(Limits())
    for _ in range(3):
        assert budget.wait_in_chat(7, 100.0) == 0
        budget.spend(7, 100.0)
    assert budget.wait_in_chat(7, 100.0) == pytest.approx(1)
    assert budget.wait_in_chat(8, 100.0) == 0
    budget.give_back(7, 100.0)
    assert budget.wait_in_chat(7, 100.0) == 0


def test_a_chat_that_cools_is_left_alone_and_no_other_is():
    budget = Budget(Limits())
    budget.cool(7, 30, 100.0)
    budget.cool(7, 5, 101.0)
    assert budget.wait_in_chat(7, 102.0) == pytest.approx(28)
    assert budget.wait_in_chat(7, 130.0) == 0
    assert budget.wait_in_chat(8, 102.0) == 0


def test_two_chats_refused_together_slow_all_calls_for_a_while():
    def spent(*floods: tuple[int, float]) -> int:
        budget = Budget(Limits())
        for chat, at in floods:
            budget.cool(chat, 1, at)
        calls = 0
        while not budget.wait_overall(110.0):
            budget.spend(1000 + calls, 110.0)
            calls += 1
        return calls

    assert spent((7, 105.0), (7, 106.0)) == 25
    assert spent((7, 100.0), (8, 106.0)) == 25
    assert spent((7, 105.0), (8, 106.0)) == 13


def test_a_longer_text_is_edited_less_often_and_a_group_less_still():
    limits = Limits()
    assert limits.gap(7, 100) == 1.5
    assert limits.gap(7, 4000) == 2.0
    assert limits.gap(-7, 100) == 4.0


def test_rested_chats_are_forgotten():
    budget = Budget(Limits())
    for chat in range(1, 5000):
        budget.spend(chat, float(chat))
    assert len(budget) < 600
    budget.give_back(1, 5000.0)
    assert budget.wait_in_chat(1, 5000.0) == 0
