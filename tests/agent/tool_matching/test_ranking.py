"""Ranking of many tools by some words."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.tool_matching.features import extract_features
from bot.agent.tool_matching.index import build_index
from bot.agent.tool_matching.ranking import rank_tools
from tests.support.many_tools import make_many_tools

TOOL_INDEX = build_index(make_many_tools())


def rank_names(text: str, limit: int = 5) -> list[str]:
    return [name for name, _ in rank_tools(extract_features(text), TOOL_INDEX, limit)]


def test_a_complete_name_ranks_before_parts_of_it() -> None:
    assert rank_names("archive the pallet", 1) == ["archive_pallet"]
    assert {name.split("_")[1] for name in rank_names("forklift", 10)} == {"forklift"}


def test_words_that_begin_alike_or_are_related_are_found_too() -> None:
    assert rank_names("approval of refunding", 1) == ["approve_refund"]
    assert rank_names("remove a voucher", 1) == ["delete_voucher"]


def test_words_that_no_tool_has_find_nothing() -> None:
    assert rank_names("quux frobnicate") == []
    assert rank_tools(extract_features("anything"), build_index([]), 5) == []


def test_bare_words_count_though_they_are_not_recognized_as_english() -> None:
    assert not extract_features("exporting complaints").is_english
    assert rank_names("exporting complaints", 1) == ["export_complaint"]


def test_equal_scores_are_ordered_by_name() -> None:
    names = rank_names("archive", 20)
    assert names == sorted(names)


@settings(max_examples=40)
@given(st.text(max_size=60), st.integers(0, 8))
def test_for_any_text_the_best_come_first_and_all_scores_are_positive(text: str, limit: int) -> None:
    ranked = rank_tools(extract_features(text), TOOL_INDEX, limit)
    assert len(ranked) <= limit
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
    assert all(score > 0 for _, score in ranked)
