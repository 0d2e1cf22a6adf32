"""What a running turn would show next, judged without Telegram."""

import pytest

from bot.domain import Lane, Part
from bot.telegram.delivery.progress import SERVED, Change, Open, Showing, Sign, Standing, TakeBack, Wait
from bot.telegram.delivery.rate_budget import Limits


@pytest.fixture
def showing() -> Showing:
    return Showing(Lane(7), 1, silent=False, limits=Limits())


def stand(showing: Showing, text: str, at: float = 0.0, *, line: bool = False) -> Standing:
    standing = Standing(1, 5, Part(text), at, line)
    showing.standing.append(standing)
    return standing


def test_nothing_is_shown_before_the_turn_begins(showing: Showing):
    assert showing.next(100.0) is None


def test_a_sign_of_life_comes_after_300_ms_and_is_renewed(showing: Showing):
    showing.begin(100.0)
    showing.begin(200.0)
    assert showing.next(100.0) == Wait(100.0 + 0.3)
    assert showing.next(100.4) == Sign()
    showing.signed(100.5, draft=True)
    assert showing.next(101.0) == Wait(120.5)
    showing.signed(120.5, draft=False)
    assert showing.next(121.0) == Wait(125.0)
    assert showing.next(100.0 + 1801) is None


@pytest.mark.parametrize(("chat", "dense"), [(7, 12), (-7, 2)])
def test_typing_becomes_sparse(chat: int, dense: int):
    showing = Showing(Lane(chat), 1, silent=False, limits=Limits())
    showing.begin(0.0)
    pauses = []
    for _ in range(dense + 2):
        showing.signed(100.0, draft=False)
        step = showing.next(100.0)
        assert isinstance(step, Wait)
        pauses.append(step.until - 100)
    assert pauses == [4.5] * dense + [15.0] * 2


def test_a_text_takes_the_place_of_the_sign(showing: Showing):
    showing.begin(0.0)
    showing.text = "A whole block.\n\n"
    step = showing.next(0.1)
    assert isinstance(step, Open)
    assert (step.number, step.part.text, step.is_line) == (0, "A whole block.", False)
    assert [button.data for row in step.part.buttons for button in row] == ["stop:1"]
    assert showing.next(0.1) == step


def test_edits_of_a_message_keep_their_distance(showing: Showing):
    standing = stand(showing, "Old", at=10.0)
    showing.text = "New text.\n\n"
    assert showing.next(11.0) == Wait(11.5)
    step = showing.next(11.5)
    assert isinstance(step, Change)
    assert step.standing is standing
    standing.part = step.part
    assert showing.next(20.0) is None
    assert showing.stands(1) == step.part
    assert showing.stands(2) is None


def test_a_message_nobody_knows_is_not_edited(showing: Showing):
    showing.standing.append(Standing(1, None))
    showing.text = "New text.\n\n"
    assert showing.next(11.5) is None


def test_a_line_is_taken_back_but_a_text_is_not(showing: Showing):
    line = stand(showing, "Loading.", at=10.0, line=True)
    assert showing.next(11.0) == Wait(11.5)
    assert showing.next(12.0) == TakeBack(line)
    line.is_line = False
    assert showing.next(12.0) is None
    line.is_line, line.message_id = True, None
    assert showing.next(12.0) is None


def test_nothing_is_shown_while_it_is_held(showing: Showing):
    showing.text = "A whole block.\n\n"
    showing.hold(50.0)
    assert showing.next(49.0) == Wait(50.0)
    assert isinstance(showing.next(50.0), Open)


def test_a_silent_turn_shows_silently():
    showing = Showing(Lane(7), 1, silent=True, limits=Limits(), text="A whole block.\n\n")
    step = showing.next(0.0)
    assert isinstance(step, Open)
    assert step.part.silent


def test_a_place_in_line_is_told_in_the_draft_as_soon_as_it_changes(showing: Showing):
    showing.begin(100.0)
    showing.signed(100.3, draft=True)
    showing.queue("2 before you.", 0.0)
    assert showing.next(100.4) == Wait(100.3 + 1.5)
    assert showing.next(102.5) == Sign("2 before you.")
    showing.signed(102.5, draft=True, says="2 before you.")
    assert showing.next(110.0) == Wait(122.5)
    showing.queue("You are next.", 0.0)
    assert showing.next(110.0) == Sign("You are next.")
    showing.signed(110.0, draft=True, says="You are next.")
    showing.queue(None, 112.0)
    assert showing.next(112.0) == Wait(112.3)
    assert showing.next(112.3) == Sign("")
    showing.signed(112.0, draft=True)
    assert showing.next(113.0) == Wait(132.0)


def test_a_draft_of_unknown_outcome_is_drawn_again_soon(showing: Showing):
    showing.begin(100.0)
    showing.queue("2 before you.", 0.0)
    showing.signed(102.0, draft=True, says=None)
    assert showing.next(102.0) == Wait(103.5)
    assert showing.next(103.5) == Sign("2 before you.")


def test_a_place_in_line_is_told_for_as_long_as_one_waits(showing: Showing):
    showing.begin(0.0)
    showing.queue("2 before you.", 0.0)
    assert showing.next(5000.0) == Sign("2 before you.")
    showing.signed(5000.0, draft=True, says="2 before you.")
    assert showing.next(5030.0) == Sign("2 before you.")
    showing.queue(None, 5029.0)
    assert showing.next(5030.0) == Sign("")
    showing.signed(5030.0, draft=True)
    assert showing.next(5060.0) is None


def test_a_message_in_between_makes_the_draft_be_drawn_again(showing: Showing):
    showing.begin(100.0)
    showing.interrupted()
    assert showing.next(100.0) == Wait(100.3)
    showing.signed(100.3, draft=True)
    showing.interrupted()
    assert showing.next(101.0) == Sign("")
    showing.queue("2 before you.", 0.0)
    showing.signed(103.0, draft=True, says="2 before you.")
    showing.interrupted()
    assert showing.next(105.0) == Sign("2 before you.")


@pytest.mark.parametrize("chat", [7, -7])
def test_without_drafts_a_place_in_line_is_a_message_that_the_answer_takes_over(chat: int):
    showing = Showing(Lane(chat), 1, silent=False, limits=Limits())
    showing.begin(100.0)
    showing.signed(100.3, draft=False)
    showing.queue("2 before you.", 0.0)
    step = showing.next(102.0)
    assert isinstance(step, Open)
    assert (step.part.text, step.is_line) == ("2 before you.", True)
    standing = Standing(1, 5, step.part, 102.0, is_line=True)
    showing.standing.append(standing)
    showing.queue("You are next.", 0.0)
    step = showing.next(110.0)
    assert isinstance(step, Change)
    assert step.part.text == "You are next."
    showing.queue(None, 109.0)
    step = showing.next(110.0)
    assert isinstance(step, Change)
    assert step.part.text == SERVED
    showing.text, showing.line = "A whole block.\n\n", None
    step = showing.next(120.0)
    assert isinstance(step, Change)
    assert (step.standing, step.part.text) == (standing, "A whole block.")


def test_a_place_in_line_below_a_text_goes_when_it_is_served(showing: Showing):
    showing.text = "I look it up.\n\n"
    first = showing.next(0.0)
    assert isinstance(first, Open)
    showing.standing.append(Standing(1, 5, first.part))
    showing.queue("2 before you.", 0.0)
    step = showing.next(10.0)
    assert isinstance(step, Change)
    assert step.part.text == "I look it up.\n\n2 before you."
    showing.queue(None, 10.0)
    assert showing.next(10.3) is None


def test_a_line_is_left_only_by_a_turn_that_ended_without_a_text(showing: Showing):
    line = stand(showing, "2 before you.", line=True)
    told = [showing.left]
    showing.is_over = True
    told.append(showing.left)
    for row in (2, 1):
        showing.settled(row)
        told.append(showing.left)
    assert told == [None, line, line, None]
