"""The question before a call runs shows all of it, in as many messages as it takes, nothing hidden."""

import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.approval_policy import ANY_ARGUMENTS
from bot.agent.approval_prompt import (
    ApprovalPrompt,
    describe_binding,
    escape_invisible,
    render_question,
    serialize_arguments,
)
from bot.translations.translator import ENGLISH

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def make_prompt(
    arguments: object, binding: str | None = ANY_ARGUMENTS, *, is_for_admins: bool = False
) -> ApprovalPrompt:
    return ApprovalPrompt(
        "send_mail", json.dumps(arguments), "Ann", 7, "This tool always asks first.", binding, is_for_admins
    )


def read_arguments(prompt: ApprovalPrompt) -> str:
    parts = render_question(ENGLISH, prompt, 3)
    pieces = []
    for part in parts:
        [entity] = part.entities
        units = part.text.encode("utf-16-le")
        start = 2 * entity["offset"]
        pieces.append(units[start : start + 2 * entity["length"]].decode("utf-16-le"))
    return "".join(pieces)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4))
def test_what_is_shown_is_what_would_run(arguments: dict[str, object]):
    assert json.loads(read_arguments(make_prompt(arguments))) == arguments
    assert json.loads(serialize_arguments(arguments)) == arguments


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60))
def test_no_character_in_it_is_invisible_or_changes_the_text_direction(text: str):
    for char in read_arguments(make_prompt({"a": text})):
        assert char in "\n " or (
            char.isprintable() and unicodedata.category(char) not in {"Cf", "Cc", "Zl", "Zp"}
        )


@pytest.mark.parametrize(
    ("char", "escape"),
    [
        *(
            ("\u202e", "\\u202e"),
            ("\u200b", "\\u200b"),
            ("\u2066", "\\u2066"),
            ("\x7f", "\\u007f"),
            ("\xa0", "\\u00a0"),
        ),
        *(
            ("\u3164", "\\u3164"),
            ("\U000e0041", "\\udb40\\udc41"),
            ("\ufe0f", "\\ufe0f"),
            ("\ud800", "\\ud800"),
        ),
        *(("\u2028", "\\u2028"), ("\u115f", "\\u115f"), ("\ufeff", "\\ufeff"), ("\u034f", "\\u034f")),
    ],
)
def test_an_invisible_character_is_shown_as_an_escape(char: str, escape: str):
    assert escape_invisible(f"a{char}b") == f"a{escape}b"
    assert escape in read_arguments(make_prompt({"to": char}))


def test_long_arguments_take_several_messages_and_the_last_has_the_buttons():
    long = {"text": "straße 🎈 " * 900, "list": list(range(500))}
    parts = render_question(ENGLISH, make_prompt(long, "example.com"), 3)
    assert len(parts) > 3
    assert all(len(part.text.encode("utf-16-le")) // 2 <= 4096 for part in parts)
    assert json.loads(read_arguments(make_prompt(long, "example.com"))) == long
    assert [bool(part.buttons) for part in parts] == [False] * (len(parts) - 1) + [True]
    assert [part.silent for part in parts] == [False] + [True] * (len(parts) - 1)
    assert [button.data for button in parts[-1].buttons[0]] == [
        "allow:once:3",
        "allow:here:3",
        "allow:denied:3",
    ]
    assert parts[-1].text.endswith(
        "“Allow here” allows this for 24 hours in this chat, for example.com. "
        "I still ask after other text from outside."
    )


def test_a_question_names_the_requester_the_reason_and_who_decides():
    (part,) = render_question(ENGLISH, make_prompt({}, None), 3)
    assert part.text == "May I run send_mail?\nAnn (7) asked for it. This tool always asks first.\nWith:\n{}"
    prompt = replace(
        make_prompt({}, None, is_for_admins=True),
        words=f"Tell Bob\n\u202eplease {'🎈' * 200}",
        description="Send a mail.",
        minutes=15,
    )
    (part,) = render_question(ENGLISH, prompt, 3)
    assert part.text == (
        "May I run send_mail?\n"
        f"Ann (7) wrote: “Tell Bob \\u202eplease {'🎈' * 143}…” What the tool says it does: “Send a mail.” "
        "This tool always asks first. An admin decides, within 15 minutes.\n"
        "With:\n{}"
    )
    assert [button.label for button in part.buttons[0]] == ["Allow once", "Deny"]


def test_a_binding_is_described_in_words():
    assert describe_binding(ENGLISH, ANY_ARGUMENTS) == "with any values"
    assert describe_binding(ENGLISH, "a" * 64) == "with exactly these values"
    assert describe_binding(ENGLISH, "example.com:8080") == "for example.com:8080"
