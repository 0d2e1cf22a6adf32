"""Telegram is never called more often than the limits allow; progress never delays what must arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.telegram.delivery.rate_budget import RateBudget, RateLimits

CHATS = st.sampled_from([1, 2, 3, -1, -2])
CALLS = st.lists(st.tuples(st.floats(0, 5), CHATS, st.booleans()), max_size=200)


def make_calls(calls: list[tuple[float, int, bool]], *, patient: bool) -> list[tuple[float, int, bool]]:
    """Make calls of (pause before, chat, is_progress); return (moment, chat, is_progress) of those made.

    Progress that must wait is left out.
    """
    budget = RateBudget(RateLimits())
    now = 1000.0
    done = []
    for pause, chat, is_progress in calls:
        now += pause
        wait = max(
            budget.get_chat_wait_seconds(chat, now, is_progress=is_progress),
            budget.get_overall_wait_seconds(now, is_progress=is_progress),
        )
        if wait and (is_progress or not patient):
            continue
        now += wait
        assert (
            max(
                budget.get_chat_wait_seconds(chat, now, is_progress=is_progress),
                budget.get_overall_wait_seconds(now, is_progress=is_progress),
            )
            < 1e-6
        )
        budget.spend(chat, now, is_progress=is_progress)
        done.append((now, chat, is_progress))
    return done


def count_max_within(moments: list[float], seconds: float) -> int:
    return max(
        (sum(begin <= moment < begin + seconds - 1e-6 for moment in moments) for begin in moments), default=0
    )


@given(CALLS, st.booleans())
def test_no_window_holds_more_calls_than_telegram_allows(calls: list[tuple[float, int, bool]], patient: bool):
    done = make_calls(calls, patient=patient)
    assert count_max_within([moment for moment, _, _ in done], 1) <= 50
    for chat in (1, 2, 3, -1, -2):
        moments = [moment for moment, called_chat, _ in done if called_chat == chat]
        progress_moments = [moment for moment, called_chat, shows in done if called_chat == chat and shows]
        if chat < 0:
            assert count_max_within(moments, 60) <= 20
            assert count_max_within(moments, 1) <= 5
            assert count_max_within(progress_moments, 60) <= 12
        else:
            assert count_max_within(moments, 60) <= 63
            assert count_max_within(moments, 1) <= 4


@given(CALLS)
def test_progress_alone_never_delays_what_must_arrive(calls: list[tuple[float, int, bool]]):
    budget = RateBudget(RateLimits())
    now = 1000.0
    for pause, chat, _ in calls:
        now += pause
        if not budget.get_chat_wait_seconds(
            chat, now, is_progress=True
        ) and not budget.get_overall_wait_seconds(now, is_progress=True):
            budget.spend(chat, now, is_progress=True)
        assert budget.get_chat_wait_seconds(chat, now) < 1e-6
        assert budget.get_overall_wait_seconds(now) == 0


def test_a_burst_is_let_through_and_the_next_call_waits_a_second():
    budget = RateBudget(RateLimits())
    for _ in range(3):
        assert budget.get_chat_wait_seconds(7, 100.0) == 0
        budget.spend(7, 100.0)
    assert budget.get_chat_wait_seconds(7, 100.0) == pytest.approx(1)
    assert budget.get_chat_wait_seconds(8, 100.0) == 0
    budget.refund(7, 100.0)
    assert budget.get_chat_wait_seconds(7, 100.0) == 0


def test_only_a_chat_that_backs_off_is_left_alone():
    budget = RateBudget(RateLimits())
    budget.back_off(7, 30, 100.0)
    budget.back_off(7, 5, 101.0)
    assert budget.get_chat_wait_seconds(7, 102.0) == pytest.approx(28)
    assert budget.get_chat_wait_seconds(7, 130.0) == 0
    assert budget.get_chat_wait_seconds(8, 102.0) == 0


def test_two_chats_refused_together_slow_all_calls_for_a_while():
    def count_calls_after(*floods: tuple[int, float]) -> int:
        budget = RateBudget(RateLimits())
        for chat, flood_at in floods:
            budget.back_off(chat, 1, flood_at)
        calls = 0
        while not budget.get_overall_wait_seconds(110.0):
            budget.spend(1000 + calls, 110.0)
            calls += 1
        return calls

    assert count_calls_after((7, 105.0), (7, 106.0)) == 25
    assert count_calls_after((7, 100.0), (8, 106.0)) == 25
    assert count_calls_after((7, 105.0), (8, 106.0)) == 13


def test_a_longer_text_is_edited_less_often_and_a_group_less_still():
    limits = RateLimits()
    assert limits.get_edit_gap(7, 100) == 1.5
    assert limits.get_edit_gap(7, 4000) == 2.0
    assert limits.get_edit_gap(-7, 100) == 4.0


def test_idle_chats_are_forgotten():
    budget = RateBudget(RateLimits())
    for chat in range(1, 5000):
        budget.spend(chat, float(chat))
    assert len(budget) < 600
    budget.refund(1, 5000.0)
    assert budget.get_chat_wait_seconds(1, 5000.0) == 0


@pytest.mark.parametrize("replicas", [2, 3, 7, 40])
def test_replicas_together_call_no_more_often_than_one_and_each_shows_progress(replicas: int):
    budgets = [RateBudget(RateLimits()) for _ in range(replicas)]
    moments = []
    for budget in budgets:
        budget.divide_overall(replicas)
        assert budget.get_overall_wait_seconds(1000.0, is_progress=True) == 0.0
        now = 1000.0
        for chat in range(1, 200):
            now += budget.get_overall_wait_seconds(now)
            budget.spend(chat, now)
            moments.append(now)
    sent = [moment for moment in moments if moment < 1004.0]
    assert len(sent) <= max(25, replicas) + 4 * 25 + replicas
    budgets[0].divide_overall(1)
    assert budgets[0].get_overall_wait_seconds(now + 60.0, is_progress=True) == 0.0
