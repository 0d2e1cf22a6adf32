"""Texts from outside are harmless where they are shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.usage.plain_text import escape_for_spreadsheet, escape_for_terminal


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("gemma-4", "gemma-4"),
        ("größer 你好", "größer 你好"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud83d", "\\ud83d"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_a_terminal_finds_nothing_to_obey(text: str, escaped: str):
    assert escape_for_terminal(text) == escaped


@given(st.text())
def test_plain_text_is_one_line_without_control_signs(text: str):
    escaped = escape_for_terminal(text)
    assert len(escaped.splitlines()) <= 1
    assert not any(unicodedata.category(sign) in {"Cc", "Cf", "Cs"} for sign in escaped)


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_spreadsheet_finds_no_formula(sign: str):
    assert escape_for_spreadsheet(f"{sign}1+1").startswith("'")
    assert escape_for_spreadsheet(f"1{sign}1")[0] == "1"
