"""What a running turn would show next, judged without Telegram."""

import pytest

from bot.domain import Lane, Part
from bot.telegram.budget import Limits
from bot.telegram.showing import Change, Open, Showing, Sign, Standing, TakeBack, Wait


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
