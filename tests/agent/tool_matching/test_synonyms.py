"""What a tool does, and other words for what it does it with."""

import pytest

from bot.agent.tool_matching.stems import stem
from bot.agent.tool_matching.synonyms import (
    LIKE_ACTION,
    OTHER_ACTION,
    SAME_ACTION,
    compare_actions,
    find_actions,
    load_synonyms,
    parse_synonyms,
)


def test_the_first_word_for_an_action_tells_what_is_done() -> None:
    assert find_actions(["please", "retrieve", "and", "delete"]) == {"read"}
    assert find_actions(["post"]) == {"create", "send"}
    assert find_actions(["weather"]) == frozenset()


def test_a_tool_that_does_what_is_wanted_counts_more_than_one_that_does_something_else() -> None:
    search, delete = frozenset({"search"}), frozenset({"delete"})
    assert compare_actions(search, search) == SAME_ACTION
    assert compare_actions(search, frozenset({"read"})) == LIKE_ACTION
    assert compare_actions(search, delete) == OTHER_ACTION
    assert compare_actions(search, frozenset()) == compare_actions(frozenset(), delete) == 1.0


def test_words_for_the_same_thing_know_each_other() -> None:
    alike = load_synonyms().alike_stems
    assert stem("reblog") in alike[stem("boost")]
    assert stem("boost") in alike[stem("reblog")]
    assert stem("boost") not in alike[stem("boost")]


@pytest.mark.parametrize("text", ["post toot\n", "actions:\npost toot\n", "alike:\nread: get\n"])
def test_a_line_of_neither_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither"):
        parse_synonyms(text)
