"""Ranking of many tools by some words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.tool_matching.features import extract_features, extract_search_features
from bot.agent.tool_matching.index import build_index
from bot.agent.tool_matching.ranking import rank_tools
from tests.support.many_tools import make_many_tools
from tools.base import Tool, ToolContext

TOOL_INDEX = build_index(make_many_tools())
# As real services name their operations: one says nothing but its path, and four send a test notification.
SERVICE_TOOLS = {
    "chat_list_guild_members": "List guild members",
    "chat_get_guild_member": "Get guild member",
    "chat_search_guild_members": "Search guild members",
    "chat_delete_guild_member": "Delete guild member",
    "push_create_message": "Create a message.",
    "push_get_messages": "Return all messages.",
    "push_delete_messages": "Delete all messages.",
    "push_local_login": "Authenticate via local credentials.",
    "books_send_test_notification": "Send a test notification",
    "books_send_default_test_notification": "Send a test notification",
    "movies_post_api_v3_notification_test": "POST /api/v3/notification/test of Movies.",
    "track_post_notifications_test": "Send test notification to current user via Email and SMS",
    "movies_get_api_v3_diskspace": "GET /api/v3/diskspace of Movies.",
    "movies_get_api_v3_movie": "GET /api/v3/movie of Movies.",
    "movies_get_api_v3_movie_lookup": "GET /api/v3/movie/lookup of Movies.",
    "movies_delete_api_v3_movie": "DELETE /api/v3/movie of Movies.",
    "track_get_positions": "Fetches a list of Positions",
    "track_delete_positions": "Deletes all the Positions of a device in the time span specified",
    "dns_config": "Set general DNS parameters",
}


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


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("kick member", "chat_delete_guild_member"),
        ("kick user from server", "chat_delete_guild_member"),
        ("send push notification", "push_create_message"),
        ("free disk space", "movies_get_api_v3_diskspace"),
        ("vehicle location", "track_get_positions"),
    ],
)
def test_the_tool_whose_action_and_thing_fit_is_found_first(words: str, name: str) -> None:
    tools = [
        Tool(name, text, {}, do_nothing, source=name.split("_")[0]) for name, text in SERVICE_TOOLS.items()
    ]
    ranked = rank_tools(extract_search_features(words), build_index([*tools, *make_many_tools()]), 1)
    assert [found for found, _ in ranked] == [name]


async def do_nothing(arguments: object, context: ToolContext) -> None:
    """No tool is run here."""


@settings(max_examples=40)
@given(st.text(max_size=60), st.integers(0, 8))
def test_for_any_text_the_best_come_first_and_all_scores_are_positive(text: str, limit: int) -> None:
    ranked = rank_tools(extract_features(text), TOOL_INDEX, limit)
    assert len(ranked) <= limit
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
    assert all(score > 0 for _, score in ranked)
