"""What the model writes to ask a person: the question, and below it the choices."""

import pytest

from tools.base import ToolError
from tools.builtin.ask import MAX_CHOICE_CHARS, MAX_QUESTION_CHARS, PersonQuestion, parse_question


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Which one?", PersonQuestion("Which one?")),
        ("\n Which\tone? \n\n- a b \n* c\r\n-5 °C\n", PersonQuestion("Which one?", ("a b", "c", "-5 °C"))),
        ("?" * MAX_QUESTION_CHARS, PersonQuestion("?" * MAX_QUESTION_CHARS)),
        ("Which?\n1. a\n2. b", PersonQuestion("Which?", ("1. a", "2. b"))),
        ("Pay\u202e?\nyes\u200b\nno", PersonQuestion("Pay?", ("yes", "no"))),
    ],
)
def test_a_question_stands_above_its_choices(text: str, question: PersonQuestion):
    assert parse_question(text) == question


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "\u200b",
        "Which?\na",
        "Which?\na\nA",
        "Which?\na\n\u200b",
        "Which?\na\nb\nc\nd\ne\nf",
        "?" * (MAX_QUESTION_CHARS + 1),
        f"Which?\na\n{'b' * (MAX_CHOICE_CHARS + 1)}",
    ],
)
def test_what_cannot_be_asked_says_how_to_ask(text: str):
    with pytest.raises(ToolError, match="2 to 5 different ones"):
        parse_question(text)
