"""What a running turn would show next, computed without Telegram."""

import pytest

from bot.domain import Lane, Part
from bot.telegram.delivery.progress import (
    YOUR_TURN,
    DeleteMessage,
    EditMessage,
    MessageState,
    ProgressStep,
    SendMessage,
    SendTyping,
    TurnProgress,
    WaitUntil,
)
from bot.telegram.delivery.rate_budget import RateLimits
from bot.telegram.delivery.renderer import render_snapshot


@pytest.fixture
def progress() -> TurnProgress:
    return TurnProgress(Lane(7), 1, silent=False, limits=RateLimits())


def get_next_step(progress: TurnProgress, now: float) -> ProgressStep | None:
    """The next step of a sender that renders what has changed."""
    if (snapshot := progress.find_unrendered()) is not None:
        progress.set_pieces(snapshot, render_snapshot(snapshot, progress.block_cache))
    return progress.get_next_step(now)


def add_message(
    progress: TurnProgress, text: str, called_at: float = 0.0, *, is_status: bool = False
) -> MessageState:
    standing = MessageState(1, 5, Part(text), called_at, is_status)
    progress.messages.append(standing)
    return standing


def test_nothing_is_shown_before_the_turn_begins(progress: TurnProgress):
    assert get_next_step(progress, 100.0) is None


def test_a_sign_of_life_comes_after_300_ms_and_is_renewed(progress: TurnProgress):
    progress.begin(100.0)
    progress.begin(200.0)
    assert get_next_step(progress, 100.0) == WaitUntil(100.0 + 0.3)
    assert get_next_step(progress, 100.4) == SendTyping()
    progress.record_typing(100.5, is_draft=True)
    assert get_next_step(progress, 101.0) == WaitUntil(120.5)
    progress.record_typing(120.5, is_draft=False)
    assert get_next_step(progress, 121.0) == WaitUntil(125.0)
    assert get_next_step(progress, 100.0 + 1801) is None


@pytest.mark.parametrize(("chat", "dense"), [(7, 12), (-7, 2)])
def test_typing_becomes_sparse(chat: int, dense: int):
    progress = TurnProgress(Lane(chat), 1, silent=False, limits=RateLimits())
    progress.begin(0.0)
    pauses = []
    for _ in range(dense + 2):
        progress.record_typing(100.0, is_draft=False)
        step = get_next_step(progress, 100.0)
        assert isinstance(step, WaitUntil)
        pauses.append(step.until - 100)
    assert pauses == [4.5] * dense + [15.0] * 2


def test_a_text_replaces_the_typing_sign(progress: TurnProgress):
    progress.begin(0.0)
    progress.text = "A whole block.\n\n"
    step = get_next_step(progress, 0.1)
    assert isinstance(step, SendMessage)
    assert (step.number, step.part.text, step.is_status) == (0, "A whole block.", False)
    assert [button.data for row in step.part.buttons for button in row] == ["stop:1"]
    assert get_next_step(progress, 0.1) == step


def test_edits_of_a_message_keep_their_distance(progress: TurnProgress):
    standing = add_message(progress, "Old", called_at=10.0)
    progress.text = "New text.\n\n"
    assert get_next_step(progress, 11.0) == WaitUntil(11.5)
    step = get_next_step(progress, 11.5)
    assert isinstance(step, EditMessage)
    assert step.message is standing
    standing.part = step.part
    assert get_next_step(progress, 20.0) is None
    assert progress.get_shown_part(1) == step.part
    assert progress.get_shown_part(2) is None


def test_a_message_with_unknown_id_is_not_edited(progress: TurnProgress):
    progress.messages.append(MessageState(1, None))
    progress.text = "New text.\n\n"
    assert get_next_step(progress, 11.5) is None


def test_nothing_is_sent_below_a_message_that_may_be_missing(progress: TurnProgress):
    """At the end the person is asked about it, where it is missing and not below what follows it."""
    progress.text = "word " * 1600
    step = get_next_step(progress, 11.5)
    assert isinstance(step, SendMessage)
    progress.messages.append(MessageState(1, None))
    assert get_next_step(progress, 11.5) is None
    progress.messages[0] = MessageState(1, 5, step.part)
    following = get_next_step(progress, 11.5)
    assert isinstance(following, SendMessage)
    assert following.number == 1


def test_a_status_line_is_deleted_but_a_text_is_not(progress: TurnProgress):
    line = add_message(progress, "Loading.", called_at=10.0, is_status=True)
    assert get_next_step(progress, 11.0) == WaitUntil(11.5)
    assert get_next_step(progress, 12.0) == DeleteMessage(line)
    line.is_status = False
    assert get_next_step(progress, 12.0) is None
    line.is_status = True
    line.message_id = None
    assert get_next_step(progress, 12.0) is None


def test_nothing_is_shown_while_it_is_held(progress: TurnProgress):
    progress.text = "A whole block.\n\n"
    progress.hold(50.0)
    assert get_next_step(progress, 49.0) == WaitUntil(50.0)
    assert isinstance(get_next_step(progress, 50.0), SendMessage)


def test_a_silent_turn_shows_silently():
    progress = TurnProgress(Lane(7), 1, silent=True, limits=RateLimits(), text="A whole block.\n\n")
    step = get_next_step(progress, 0.0)
    assert isinstance(step, SendMessage)
    assert step.part.silent


def test_a_place_in_line_is_shown_in_the_draft_as_soon_as_it_changes(progress: TurnProgress):
    progress.begin(100.0)
    progress.record_typing(100.3, is_draft=True)
    progress.set_queue_status("2 before you.", 0.0)
    assert get_next_step(progress, 100.4) == WaitUntil(100.3 + 1.5)
    assert get_next_step(progress, 102.5) == SendTyping("2 before you.")
    progress.record_typing(102.5, is_draft=True, draft_text="2 before you.")
    assert get_next_step(progress, 110.0) == WaitUntil(122.5)
    progress.set_queue_status("You are next.", 0.0)
    assert get_next_step(progress, 110.0) == SendTyping("You are next.")
    progress.record_typing(110.0, is_draft=True, draft_text="You are next.")
    progress.set_queue_status(None, 112.0)
    assert get_next_step(progress, 112.0) == WaitUntil(112.3)
    assert get_next_step(progress, 112.3) == SendTyping("")
    progress.record_typing(112.0, is_draft=True)
    assert get_next_step(progress, 113.0) == WaitUntil(132.0)


def test_a_draft_of_unknown_outcome_is_drawn_again_soon(progress: TurnProgress):
    progress.begin(100.0)
    progress.set_queue_status("2 before you.", 0.0)
    progress.record_typing(102.0, is_draft=True, draft_text=None)
    assert get_next_step(progress, 102.0) == WaitUntil(103.5)
    assert get_next_step(progress, 103.5) == SendTyping("2 before you.")


def test_a_place_in_line_is_shown_for_as_long_as_one_waits(progress: TurnProgress):
    progress.begin(0.0)
    progress.set_queue_status("2 before you.", 0.0)
    assert get_next_step(progress, 5000.0) == SendTyping("2 before you.")
    progress.record_typing(5000.0, is_draft=True, draft_text="2 before you.")
    assert get_next_step(progress, 5030.0) == SendTyping("2 before you.")
    progress.set_queue_status(None, 5029.0)
    assert get_next_step(progress, 5030.0) == SendTyping("")
    progress.record_typing(5030.0, is_draft=True)
    assert get_next_step(progress, 5060.0) is None


def test_a_message_in_between_makes_the_draft_be_drawn_again(progress: TurnProgress):
    progress.begin(100.0)
    progress.forget_draft()
    assert get_next_step(progress, 100.0) == WaitUntil(100.3)
    progress.record_typing(100.3, is_draft=True)
    progress.forget_draft()
    assert get_next_step(progress, 101.0) == SendTyping("")
    progress.set_queue_status("2 before you.", 0.0)
    progress.record_typing(103.0, is_draft=True, draft_text="2 before you.")
    progress.forget_draft()
    assert get_next_step(progress, 105.0) == SendTyping("2 before you.")


def test_in_a_group_nobody_reads_of_a_place_in_line_or_what_a_tool_does():
    progress = TurnProgress(Lane(-7), 1, silent=False, limits=RateLimits())
    progress.begin(100.0)
    progress.record_typing(100.3, is_draft=False)
    progress.set_queue_status("2 before you.", 101.0)
    assert get_next_step(progress, 102.0) == WaitUntil(104.8)
    progress.set_queue_status(None, 103.0)
    progress.draft_status = "Half of it is read."
    assert get_next_step(progress, 105.0) == SendTyping()
    progress.text = "A whole block.\n\n"
    step = get_next_step(progress, 106.0)
    assert isinstance(step, SendMessage)
    assert step.part.text == "A whole block."


def test_without_drafts_a_place_in_line_is_a_message_that_the_answer_takes_over(progress: TurnProgress):
    progress.begin(100.0)
    progress.record_typing(100.3, is_draft=False)
    progress.set_queue_status("2 before you.", 0.0)
    step = get_next_step(progress, 102.0)
    assert isinstance(step, SendMessage)
    assert (step.part.text, step.is_status) == ("2 before you.", True)
    standing = MessageState(1, 5, step.part, 102.0, is_status=True)
    progress.messages.append(standing)
    progress.set_queue_status("You are next.", 0.0)
    step = get_next_step(progress, 110.0)
    assert isinstance(step, EditMessage)
    assert step.part.text == "You are next."
    progress.set_queue_status(None, 109.0)
    step = get_next_step(progress, 110.0)
    assert isinstance(step, EditMessage)
    assert step.part.text == YOUR_TURN
    progress.text = "A whole block.\n\n"
    progress.status = None
    step = get_next_step(progress, 120.0)
    assert isinstance(step, EditMessage)
    assert (step.message, step.part.text) == (standing, "A whole block.")


def test_a_place_in_line_below_a_text_goes_when_it_is_served(progress: TurnProgress):
    progress.text = "I look it up.\n\n"
    first = get_next_step(progress, 0.0)
    assert isinstance(first, SendMessage)
    progress.messages.append(MessageState(1, 5, first.part))
    progress.set_queue_status("2 before you.", 0.0)
    step = get_next_step(progress, 10.0)
    assert isinstance(step, EditMessage)
    assert step.part.text == "I look it up.\n\n2 before you."
    progress.set_queue_status(None, 10.0)
    assert get_next_step(progress, 10.3) is None


def test_a_line_is_left_only_by_a_turn_that_ended_without_a_text(progress: TurnProgress):
    line = add_message(progress, "2 before you.", is_status=True)
    leftovers = [progress.leftover_status]
    progress.is_over = True
    leftovers.append(progress.leftover_status)
    for row in (2, 1):
        progress.mark_final(row)
        leftovers.append(progress.leftover_status)
    assert leftovers == [None, line, line, None]


def test_a_text_is_no_edit_of_a_line_that_stood_long(progress: TurnProgress):
    line = add_message(progress, "The model is not answering.", called_at=100.0, is_status=True)
    line.sent_at = 100.0
    progress.text = "A whole block.\n\n"
    assert isinstance(get_next_step(progress, 119.0), EditMessage)
    assert get_next_step(progress, 121.0) == DeleteMessage(line)
    progress.messages.remove(line)
    assert isinstance(get_next_step(progress, 121.0), SendMessage)


def test_a_line_that_stood_long_may_change_as_long_as_there_is_no_text(progress: TurnProgress):
    add_message(progress, "The model is not answering.", called_at=100.0, is_status=True).sent_at = 100.0
    progress.status = "The model is loading."
    assert isinstance(get_next_step(progress, 200.0), EditMessage)
