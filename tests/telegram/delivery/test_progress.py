"""What a running turn would show next, judged without Telegram."""

import pytest

from bot.domain import Lane, Part
from bot.telegram.delivery.progress import (
    YOUR_TURN,
    DeleteMessage,
    EditMessage,
    MessageState,
    SendMessage,
    SendTyping,
    TurnProgress,
    WaitUntil,
)
from bot.telegram.delivery.rate_budget import RateLimits


@pytest.fixture
def showing() -> TurnProgress:
    return TurnProgress(Lane(7), 1, silent=False, limits=RateLimits())


def add_message(
    showing: TurnProgress, text: str, at: float = 0.0, *, is_status: bool = False
) -> MessageState:
    standing = MessageState(1, 5, Part(text), at, is_status)
    showing.messages.append(standing)
    return standing


def test_nothing_is_shown_before_the_turn_begins(showing: TurnProgress):
    assert showing.get_next_step(100.0) is None


def test_a_sign_of_life_comes_after_300_ms_and_is_renewed(showing: TurnProgress):
    showing.begin(100.0)
    showing.begin(200.0)
    assert showing.get_next_step(100.0) == WaitUntil(100.0 + 0.3)
    assert showing.get_next_step(100.4) == SendTyping()
    showing.record_typing(100.5, is_draft=True)
    assert showing.get_next_step(101.0) == WaitUntil(120.5)
    showing.record_typing(120.5, is_draft=False)
    assert showing.get_next_step(121.0) == WaitUntil(125.0)
    assert showing.get_next_step(100.0 + 1801) is None


@pytest.mark.parametrize(("chat", "dense"), [(7, 12), (-7, 2)])
def test_typing_becomes_sparse(chat: int, dense: int):
    showing = TurnProgress(Lane(chat), 1, silent=False, limits=RateLimits())
    showing.begin(0.0)
    pauses = []
    for _ in range(dense + 2):
        showing.record_typing(100.0, is_draft=False)
        step = showing.get_next_step(100.0)
        assert isinstance(step, WaitUntil)
        pauses.append(step.until - 100)
    assert pauses == [4.5] * dense + [15.0] * 2


def test_a_text_takes_the_place_of_the_sign(showing: TurnProgress):
    showing.begin(0.0)
    showing.text = "A whole block.\n\n"
    step = showing.get_next_step(0.1)
    assert isinstance(step, SendMessage)
    assert (step.number, step.part.text, step.is_status) == (0, "A whole block.", False)
    assert [button.data for row in step.part.buttons for button in row] == ["stop:1"]
    assert showing.get_next_step(0.1) == step


def test_edits_of_a_message_keep_their_distance(showing: TurnProgress):
    standing = add_message(showing, "Old", at=10.0)
    showing.text = "New text.\n\n"
    assert showing.get_next_step(11.0) == WaitUntil(11.5)
    step = showing.get_next_step(11.5)
    assert isinstance(step, EditMessage)
    assert step.message is standing
    standing.part = step.part
    assert showing.get_next_step(20.0) is None
    assert showing.get_shown_part(1) == step.part
    assert showing.get_shown_part(2) is None


def test_a_message_nobody_knows_is_not_edited(showing: TurnProgress):
    showing.messages.append(MessageState(1, None))
    showing.text = "New text.\n\n"
    assert showing.get_next_step(11.5) is None


def test_a_line_is_taken_back_but_a_text_is_not(showing: TurnProgress):
    line = add_message(showing, "Loading.", at=10.0, is_status=True)
    assert showing.get_next_step(11.0) == WaitUntil(11.5)
    assert showing.get_next_step(12.0) == DeleteMessage(line)
    line.is_status = False
    assert showing.get_next_step(12.0) is None
    line.is_status, line.message_id = True, None
    assert showing.get_next_step(12.0) is None


def test_nothing_is_shown_while_it_is_held(showing: TurnProgress):
    showing.text = "A whole block.\n\n"
    showing.hold(50.0)
    assert showing.get_next_step(49.0) == WaitUntil(50.0)
    assert isinstance(showing.get_next_step(50.0), SendMessage)


def test_a_silent_turn_shows_silently():
    showing = TurnProgress(Lane(7), 1, silent=True, limits=RateLimits(), text="A whole block.\n\n")
    step = showing.get_next_step(0.0)
    assert isinstance(step, SendMessage)
    assert step.part.silent


def test_a_place_in_line_is_told_in_the_draft_as_soon_as_it_changes(showing: TurnProgress):
    showing.begin(100.0)
    showing.record_typing(100.3, is_draft=True)
    showing.set_queue_status("2 before you.", 0.0)
    assert showing.get_next_step(100.4) == WaitUntil(100.3 + 1.5)
    assert showing.get_next_step(102.5) == SendTyping("2 before you.")
    showing.record_typing(102.5, is_draft=True, draft_text="2 before you.")
    assert showing.get_next_step(110.0) == WaitUntil(122.5)
    showing.set_queue_status("You are next.", 0.0)
    assert showing.get_next_step(110.0) == SendTyping("You are next.")
    showing.record_typing(110.0, is_draft=True, draft_text="You are next.")
    showing.set_queue_status(None, 112.0)
    assert showing.get_next_step(112.0) == WaitUntil(112.3)
    assert showing.get_next_step(112.3) == SendTyping("")
    showing.record_typing(112.0, is_draft=True)
    assert showing.get_next_step(113.0) == WaitUntil(132.0)


def test_a_draft_of_unknown_outcome_is_drawn_again_soon(showing: TurnProgress):
    showing.begin(100.0)
    showing.set_queue_status("2 before you.", 0.0)
    showing.record_typing(102.0, is_draft=True, draft_text=None)
    assert showing.get_next_step(102.0) == WaitUntil(103.5)
    assert showing.get_next_step(103.5) == SendTyping("2 before you.")


def test_a_place_in_line_is_told_for_as_long_as_one_waits(showing: TurnProgress):
    showing.begin(0.0)
    showing.set_queue_status("2 before you.", 0.0)
    assert showing.get_next_step(5000.0) == SendTyping("2 before you.")
    showing.record_typing(5000.0, is_draft=True, draft_text="2 before you.")
    assert showing.get_next_step(5030.0) == SendTyping("2 before you.")
    showing.set_queue_status(None, 5029.0)
    assert showing.get_next_step(5030.0) == SendTyping("")
    showing.record_typing(5030.0, is_draft=True)
    assert showing.get_next_step(5060.0) is None


def test_a_message_in_between_makes_the_draft_be_drawn_again(showing: TurnProgress):
    showing.begin(100.0)
    showing.forget_draft()
    assert showing.get_next_step(100.0) == WaitUntil(100.3)
    showing.record_typing(100.3, is_draft=True)
    showing.forget_draft()
    assert showing.get_next_step(101.0) == SendTyping("")
    showing.set_queue_status("2 before you.", 0.0)
    showing.record_typing(103.0, is_draft=True, draft_text="2 before you.")
    showing.forget_draft()
    assert showing.get_next_step(105.0) == SendTyping("2 before you.")


@pytest.mark.parametrize("chat", [7, -7])
def test_without_drafts_a_place_in_line_is_a_message_that_the_answer_takes_over(chat: int):
    showing = TurnProgress(Lane(chat), 1, silent=False, limits=RateLimits())
    showing.begin(100.0)
    showing.record_typing(100.3, is_draft=False)
    showing.set_queue_status("2 before you.", 0.0)
    step = showing.get_next_step(102.0)
    assert isinstance(step, SendMessage)
    assert (step.part.text, step.is_status) == ("2 before you.", True)
    standing = MessageState(1, 5, step.part, 102.0, is_status=True)
    showing.messages.append(standing)
    showing.set_queue_status("You are next.", 0.0)
    step = showing.get_next_step(110.0)
    assert isinstance(step, EditMessage)
    assert step.part.text == "You are next."
    showing.set_queue_status(None, 109.0)
    step = showing.get_next_step(110.0)
    assert isinstance(step, EditMessage)
    assert step.part.text == YOUR_TURN
    showing.text, showing.status = "A whole block.\n\n", None
    step = showing.get_next_step(120.0)
    assert isinstance(step, EditMessage)
    assert (step.message, step.part.text) == (standing, "A whole block.")


def test_a_place_in_line_below_a_text_goes_when_it_is_served(showing: TurnProgress):
    showing.text = "I look it up.\n\n"
    first = showing.get_next_step(0.0)
    assert isinstance(first, SendMessage)
    showing.messages.append(MessageState(1, 5, first.part))
    showing.set_queue_status("2 before you.", 0.0)
    step = showing.get_next_step(10.0)
    assert isinstance(step, EditMessage)
    assert step.part.text == "I look it up.\n\n2 before you."
    showing.set_queue_status(None, 10.0)
    assert showing.get_next_step(10.3) is None


def test_a_line_is_left_only_by_a_turn_that_ended_without_a_text(showing: TurnProgress):
    line = add_message(showing, "2 before you.", is_status=True)
    told = [showing.leftover_status]
    showing.is_over = True
    told.append(showing.leftover_status)
    for row in (2, 1):
        showing.mark_final(row)
        told.append(showing.leftover_status)
    assert told == [None, line, line, None]
