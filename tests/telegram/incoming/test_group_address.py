"""Which messages of a group are meant for the assistant."""

from typing import Any

import pytest

from bot.telegram.incoming.group_address import (
    GroupIdentity,
    cut_leading_mention,
    find_address,
    find_group_sender,
    find_speaker_name,
    name_quoted_author,
)

GROUP = -1001
BOT = 42
IDENTITY = GroupIdentity(BOT, "Canvas_bot", frozenset({"ask", "new", "stop"}), name="Canvas")
ANN = {"id": 5, "is_bot": False, "first_name": "Ann"}


def build(text: str | None = "hello", **fields: Any) -> dict[str, Any]:
    chat = {"id": GROUP, "type": "supergroup"}
    return {"message_id": 9, "date": 1, "chat": chat, "from": ANN, "text": text, **fields}


def entity(kind: str, text: str, part: str, **fields: Any) -> dict[str, Any]:
    offset = len(text[: text.index(part)].encode("utf-16-le")) // 2
    return {"type": kind, "offset": offset, "length": len(part.encode("utf-16-le")) // 2, **fields}


def mention(text: str, part: str) -> dict[str, Any]:
    return build(text, entities=[entity("mention", text, part)])


def command(text: str) -> dict[str, Any]:
    return build(text, entities=[entity("bot_command", text, text.split()[0])])


BOT_MESSAGE = {"message_id": 7, "from": {"id": BOT, "is_bot": True}}
ADDRESSED = [
    ("reply", build(reply_to_message=BOT_MESSAGE)),
    # In a group without topics the thread's number is that of its first message.
    ("reply", build(reply_to_message=BOT_MESSAGE, message_thread_id=7)),
    ("reply", build(reply_to_message=BOT_MESSAGE, message_thread_id=3, is_topic_message=True)),
    ("mention", mention("👩‍🚀 hey @canvas_BOT, when?", "@canvas_BOT")),
    ("mention", build("hey you", entities=[entity("text_mention", "hey you", "you", user={"id": BOT})])),
    (
        "mention",
        build(None)
        | {"caption": "@canvas_bot what is this?"}
        | {"caption_entities": [entity("mention", "@canvas_bot what is this?", "@canvas_bot")]},
    ),
    ("command", command("/stop")),
    ("command", command("/STOP@canvas_bot now")),
    ("name", build("CANVAS, what do you think?")),
    (
        "mention",
        mention("@canvas_bot hi", "@canvas_bot")
        | {"from": {"id": 1087968824, "is_bot": True}}
        | {"sender_chat": {"id": GROUP}},
    ),
]


@pytest.mark.parametrize(("kind", "message"), ADDRESSED)
def test_it_is_addressed(kind: str, message: dict[str, Any]):
    assert find_address(message, IDENTITY) == kind


NOT_ADDRESSED = [
    build(),
    build("the canvases are here"),
    build("mail @canvas_bot"),  # a text alone, without Telegram's entity
    mention("@canvas_bot2 hi", "@canvas_bot2"),
    mention("@canvas_bot2 hi @canvas_bot", "@canvas_bot2"),
    command("/stop@other_bot"),
    command("/weather"),
    command("/weather") | {"reply_to_message": BOT_MESSAGE},
    build("x", entities=[{"type": "bot_command", "offset": 0, "length": 1}]),
    build(reply_to_message=BOT_MESSAGE | {"from": {"id": 6}}),
    build(reply_to_message=BOT_MESSAGE | {"forum_topic_created": {"name": "Trips"}}, is_topic_message=True),
    build(reply_to_message=BOT_MESSAGE, message_thread_id=7, is_topic_message=True),
    mention("@canvas_bot hi", "@canvas_bot") | {"from": {"id": 77, "is_bot": True}},
    mention("@canvas_bot hi", "@canvas_bot") | {"is_automatic_forward": True},
    mention("@canvas_bot hi", "@canvas_bot") | {"sender_chat": {"id": -100777}},
    command("/stop") | {"forward_origin": {"type": "user"}},
    {"message_id": 9, "chat": {"id": GROUP}, "from": ANN, "new_chat_title": "Canvas"},
]


@pytest.mark.parametrize("message", NOT_ADDRESSED)
def test_it_is_meant_for_others(message: dict[str, Any]):
    assert find_address(message, IDENTITY) is None


BROKEN: list[dict[str, Any]] = [
    {},
    {"chat": 5, "from": []},
    build(entities="x"),
    build(entities=[None, {"type": "mention"}, {"type": "mention", "offset": "0", "length": 2}]),
    build(entities=[{"type": "mention", "offset": 10**9, "length": -5}]),
    build("\ud800", entities=[{"type": "mention", "offset": 0, "length": 1}]),
    build(reply_to_message=7),
    build() | {"from": {"id": "5"}},
]


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_message_is_meant_for_nobody(message: dict[str, Any]):
    assert find_address(message, IDENTITY) is None


def test_an_anonymous_administrator_counts_as_the_group():
    anonymous = {"from": {"id": 1087968824, "is_bot": True}, "sender_chat": {"id": GROUP}}
    assert find_group_sender(build() | anonymous) == GROUP
    assert find_group_sender(build()) == ANN["id"]


MENTIONS = [
    (mention("@canvas_BOT, when do we meet?", "@canvas_BOT"), "when do we meet?"),
    (mention("@canvas_bot\nhi @canvas_bot", "@canvas_bot"), "hi @canvas_bot"),
    (mention("hey @canvas_bot, when?", "@canvas_bot"), "hey @canvas_bot, when?"),
    (mention("@canvas_bot", "@canvas_bot"), "@canvas_bot"),
    (mention("@other_bot hi", "@other_bot"), "@other_bot hi"),
    (build("👩‍🚀: hi", entities=[entity("text_mention", "👩‍🚀: hi", "👩‍🚀", user={"id": BOT})]), "hi"),
]


@pytest.mark.parametrize(("message", "text"), MENTIONS)
def test_the_mention_that_a_message_begins_with_is_cut(message: dict[str, Any], text: str):
    assert cut_leading_mention(message, IDENTITY)["text"] == text


def test_a_leading_mention_is_cut_from_a_caption():
    caption = "@canvas_bot what is this?"
    photo = {"caption": caption, "caption_entities": [entity("mention", caption, "@canvas_bot")]}
    assert cut_leading_mention(photo, IDENTITY)["caption"] == "what is this?"


SPEAKERS = [
    ({"first_name": "Ann", "last_name": "Lee"}, "Ann Lee"),
    ({"first_name": "\u202eAnn]\n[data: ", "last_name": None}, "Ann data"),
    ({"first_name": "\x00*_`", "username": "ann_lee"}, "ann lee"),
    ({"first_name": "Z" + "\u0334" * 90}, "Z" + "\u0334" * 39),
    ({"first_name": "🙂"}, "Somebody"),
    ({}, "Somebody"),
]


@pytest.mark.parametrize(("sender", "name"), SPEAKERS)
def test_a_speaker_is_named_in_letters_and_digits(sender: dict[str, Any], name: str):
    assert find_speaker_name(build() | {"from": sender}) == name


def test_an_anonymous_administrator_is_named_as_the_group():
    assert find_speaker_name(build(sender_chat={"id": GROUP, "title": "Family"})) == "Family"


def test_only_the_assistants_own_message_is_quoted_as_its_own():
    own = build(reply_to_message=BOT_MESSAGE)
    assert name_quoted_author(own, IDENTITY) == own
    other_bot = build(reply_to_message={"from": {"id": 77, "is_bot": True, "first_name": "Weather"}})
    author = name_quoted_author(other_bot, IDENTITY)["reply_to_message"]["from"]
    assert author == {"is_bot": False, "first_name": "Weather"}
    assert name_quoted_author(build(), IDENTITY) == build()


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_message_is_read_all_the_same(message: dict[str, Any]):
    cut_leading_mention(message, IDENTITY)
    name_quoted_author(message, IDENTITY)
    assert find_speaker_name(message) in {"Ann", "Somebody"}
