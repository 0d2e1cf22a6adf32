"""Words and options behind /tools add and configure, as people type them on phones."""

import pytest

from bot.chat.commands.option_words import split_options
from bot.errors import ChangeRefused


@pytest.mark.parametrize("dash", ["--", "—", "\N{EN DASH}"])
def test_an_option_without_a_value_stands_anywhere(dash):
    assert split_options(f"mcp URL {dash}personal {dash}header 'A: b'", ("header",), ("personal",)) == (
        ["mcp", "URL"],
        [("personal", ""), ("header", "A: b")],
    )


def test_words_in_quotes_are_no_option():
    text = "mcp URL --header 'X-Note: for --personal use'"
    assert split_options(text, ("header",), ("personal",)) == (
        ["mcp", "URL"],
        [("header", "X-Note: for --personal use")],
    )


def test_an_unknown_option_is_refused_with_those_there_are():
    with pytest.raises(ChangeRefused, match="no option --person; choose from --header, --personal"):
        split_options("mcp URL --person", ("header",), ("personal",))
    with pytest.raises(ChangeRefused, match="no option --personal; choose from --header, --personal"):
        split_options("mcp URL --personal=yes", ("header",), ("personal",))
