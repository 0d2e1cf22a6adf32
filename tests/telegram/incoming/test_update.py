"""Names of people are plain text, so that they carry no instructions and cannot look like nothing."""

import unicodedata

import pytest
from hypothesis import given as for_each
from hypothesis import strategies as st

from bot.telegram.incoming.update import to_display_name, to_plain_name

FILLERS = ("\u3164", "\uffa0", "\u115f", "\u1160", "\u2800", "\u200b", "\u00ad", "\u17b4")


@pytest.mark.parametrize("filler", FILLERS)
def test_a_name_that_shows_nothing_is_none(filler: str):
    assert to_plain_name(filler * 3, 32) == ""
    assert "8" in to_display_name(filler, 8)
    assert to_plain_name(f"Ann{filler}B", 32) in {"Ann B", "AnnB"}


def test_a_name_in_letters_of_another_width_or_shape_is_read_as_it_looks():
    assert to_plain_name("Ａｄｍｉｎ 𝐀𝐧𝐧", 32) == "Admin Ann"


@for_each(st.text(max_size=40))
def test_a_plain_name_has_letters_and_digits_only(name: str):
    plain = to_plain_name(name, 32)
    assert len(plain) <= 32
    assert all(unicodedata.category(letter)[0] in "LMN" or letter in "'’- " for letter in plain)
    assert not set(plain) & set(FILLERS)
