"""Guest messages as they are stored: whose question it is, and where the bot does not answer as a guest."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bot.chat.commands.registry import COMMANDS
from bot.chat.group_directory import GroupDirectory
from bot.db.people.groups import Group, GroupState
from bot.domain import Lane
from bot.telegram.chat_numbers import ChatNumbers
from bot.telegram.incoming.envelope import read_envelope
from tests.support.groups import BOT_ID, BOT_USERNAME, address, build_group_chat

GROUP = -1001000000001
ANN = {"id": 7, "is_bot": False, "first_name": "Ann"}


def build_directory(*, guest_mode: bool = True) -> GroupDirectory:
    names = [command.name for command in COMMANDS]
    return GroupDirectory(BOT_ID, BOT_USERNAME, names, ChatNumbers(), guest_mode=guest_mode)


def build_update(**changes: Any) -> dict[str, Any]:
    """A guest query of Ann's."""
    chat = build_group_chat(GROUP, "Elsewhere")
    message = address("why?", message_id=3, date=1, chat=chat, guest_query_id="8000000001", **{"from": ANN})
    return {"update_id": 5, "guest_message": message | changes}


def test_a_guest_query_is_taken_at_once_with_its_id():
    stored = read_envelope(build_update(), 1.0, build_directory())
    assert stored is not None
    assert (stored.shape, stored.lane, stored.sender, stored.is_for_others) == ("guest", None, 7, False)
    assert json.loads(stored.body)["message"]["guest_query_id"] == "8000000001"


@pytest.mark.parametrize(
    "changes",
    [
        {"from": {"id": 8, "is_bot": True, "first_name": "Bot"}},
        {"sender_chat": {"id": -100123, "type": "channel", "title": "News"}},
        {"chat": {}},
        {"chat": None},
    ],
    ids=["a bot", "a channel", "no chat", "null"],
)
def test_what_nobody_asks_is_not_stored(changes: dict[str, Any]):
    stored = read_envelope(build_update(**changes), 1.0, build_directory())
    assert stored is not None
    assert stored.is_for_others


@pytest.mark.parametrize(("state", "is_taken"), [("in", False), ("asked", False), ("left", True)])
def test_where_the_bot_is_a_member_the_rules_of_the_group_hold(state: GroupState, is_taken: bool):
    directory = build_directory()
    group = Group(GROUP, "Elsewhere", "in", 1.0)
    directory.remember(replace(group, state=state))
    assert directory.takes_guest_queries(GROUP) == is_taken
    assert not build_directory(guest_mode=False).takes_guest_queries(GROUP)


def test_lanes_of_guests_are_apart_from_each_other_and_from_topics():
    lanes = [
        Lane.for_guest(7, GROUP),
        Lane.for_guest(7, -123),
        Lane.for_guest(7, 123),
        Lane.for_guest(8, 123),
    ]
    assert len({lane.key for lane in lanes}) == 4
    for lane in lanes:
        assert Lane.parse(lane.key) == lane
        assert (lane.is_guest, lane.is_group, lane.paced_chat < 0) == (True, False, True)
    assert not Lane(7, 3).is_guest
