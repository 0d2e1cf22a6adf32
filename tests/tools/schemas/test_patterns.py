"""Only patterns that no text can keep busy are matched."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.schemas.patterns import is_safe_pattern

SAFE = [
    r"^[a-z]{2}$",
    r"^[A-Z]{2}\d{2}[A-Z0-9]{1,30}$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^-?\d+\.\d*$",
    r"^https?://.+$",
    r"^\w+@\w+\.[a-z]{2,6}$",
    r"^[^/]+/[^/]+$",
    r"^\+[1-9]\d{1,14}$",
    r"^#[0-9a-fA-F]{6}$",
    "^",
    "^abc",
]
UNSAFE = [
    r"(a+)+$",
    r"^(a|aa)+$",
    r"^a*a*$",
    r"^\d+\d+$",
    r"^a*b*a*$",
    r"^" + "a?" * 30 + "a" * 30,
    r"^a{0,999}a{0,999}$",
    r"^[一-龥]*[一-龥]*$",
    r"^\w*é*$",
    r"a*$",
    r"^.*x.*$",
    r"^\p{L}+$",
    r"^[z-a]$",
    r"^(?=x)x$",
    r"^a\1",
    r"^a{2}{3}$",
    r"^a{9,1}$",
    "^" + "a" * 300,
    7,
    None,
]


@pytest.mark.parametrize("pattern", SAFE)
def test_simple_patterns_are_safe(pattern):
    assert is_safe_pattern(pattern)


@pytest.mark.parametrize("pattern", UNSAFE)
def test_all_others_are_not_safe(pattern):
    assert not is_safe_pattern(pattern)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "[ab]", r"\w", ".", "x"]),
            st.sampled_from(["", "*", "+", "?", "{0,9}", "{2}"]),
        ),
        max_size=12,
    ),
    st.sampled_from(["a", "ab", "ba", "aab"]),
)
def test_a_safe_pattern_is_matched_at_once(atoms, text):
    pattern = "^" + "".join(atom + repeat for atom, repeat in atoms) + "$"
    if is_safe_pattern(pattern):
        re.search(pattern, text * 20_000 + "!")
