"""Which of many tools some words are about."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.tool_matching import features as wording
from bot.agent.tool_matching.index import build_index
from bot.agent.tool_matching.ranking import rank_tools
from tests.support.many_tools import make_many_tools

TOOL_INDEX = build_index(make_many_tools())


def rank_names(text: str, limit: int = 5) -> list[str]:
    return [name for name, _ in rank_tools(wording.extract_features(text), TOOL_INDEX, limit)]


def test_the_whole_name_comes_before_parts_of_it() -> None:
    assert rank_names("archive the pallet", 1) == ["archive_pallet"]
    assert {name.split("_")[1] for name in rank_names("forklift", 10)} == {"forklift"}


def test_words_that_begin_alike_or_mean_something_near_are_found_behind_the_very_word() -> None:
    assert rank_names("approval of refunding", 1) == ["approve_refund"]
    assert rank_names("remove a voucher", 1) == ["delete_voucher"]


def test_words_that_no_tool_has_find_nothing() -> None:
    assert rank_names("quux frobnicate") == []
    assert rank_tools(wording.extract_features("anything"), build_index([]), 5) == []


def test_bare_words_count_though_they_are_not_read_as_english() -> None:
    assert not wording.extract_features("exporting complaints").is_english
    assert rank_names("exporting complaints", 1) == ["export_complaint"]


def test_of_equals_the_name_decides() -> None:
    found = rank_names("archive", 20)
    assert found == sorted(found)


@settings(max_examples=40)
@given(st.text(max_size=60), st.integers(0, 8))
def test_whatever_is_asked_the_best_come_first_and_all_are_worth_something(text: str, most: int) -> None:
    found = rank_tools(wording.extract_features(text), TOOL_INDEX, most)
    assert len(found) <= most
    assert [worth for _, worth in found] == sorted((worth for _, worth in found), reverse=True)
    assert all(worth > 0 for _, worth in found)
