"""Messages and chats in the simulated Bot API, through the real client."""

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity
from telegram.error import Forbidden

from tests.support.attachment_files import make_image
from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import refusal_reason

pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use 'Bot:"),
    pytest.mark.filterwarnings("ignore:.*`retry_after` will be"),
]


async def test_a_message_sent_is_seen_and_returned(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    question = ann.send("hi")
    keyboard = InlineKeyboardMarkup(
        [[InlineKeyboardButton("Go", callback_data="go"), InlineKeyboardButton("Web", url="example.com")]]
    )
    message = await bot.send_message(
        1,
        " hello 😀 there \n",
        entities=[MessageEntity("bold", 10, 7)],
        reply_markup=keyboard,
        reply_to_message_id=question.message_id,
        disable_notification=True,
        link_preview_options=LinkPreviewOptions(is_disabled=True),
    )
    assert message.text == "hello 😀 there"
    assert message.parse_entities() == {message.entities[0]: "there"}
    assert message.reply_to_message is not None
    assert message.reply_to_message.message_id == question.message_id
    (bot_message,) = ann.chat.bot_messages
    assert (bot_message.text, bot_message.silent, bot_message.message_id) == (
        "hello 😀 there",
        True,
        message.message_id,
    )
    assert bot_message.entities == [{"type": "bold", "offset": 9, "length": 5}]
    assert [(b["text"], b.get("url")) for b in bot_message.buttons] == [
        ("Go", None),
        ("Web", "http://example.com/"),
    ]
    assert [m.text for m in ann.chat.messages] == ["hi", "hello 😀 there"]


async def test_text_is_limited_in_utf16_units(bot: Bot, api: ScriptedBotApi):
    api.person(1).send("hi")
    message = await bot.send_message(1, "😀" * 2048)
    assert await refusal_reason(bot.send_message(1, "😀" * 2048 + "x")) == "Message is too long"
    assert (
        await refusal_reason(bot.edit_message_text("x" * 4097, 1, message.message_id)) == "Message_too_long"
    )
    assert await refusal_reason(bot.send_message(1, "x" * 40_000)) == "Text is too long"
    assert await refusal_reason(bot.send_message(1, "")) == "Message text is empty"
    assert await refusal_reason(bot.send_message(1, " \u200b\n")) == "Text must be non-empty"
    assert await refusal_reason(bot.send_message(1, "*a*", parse_mode="HTML")) == (
        "Parse_mode is not simulated; send entities"
    )
    assert await refusal_reason(bot.send_message(1, "*a*", parse_mode="odd")) == "Unsupported parse_mode"
    assert len(api.person(1).chat.bot_messages) == 1


async def test_entities_that_are_no_json_are_none(bot: Bot, api: ScriptedBotApi):
    api.person(1).send("hi")
    arguments = {"chat_id": 1, "text": "x", "entities": "{"}
    assert "entities" not in await bot.do_api_request("sendMessage", api_kwargs=arguments)


async def test_a_bot_can_only_write_where_it_is_known_and_welcome(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1, username="ann")
    assert await refusal_reason(bot.send_message(1, "hi")) == "Chat not found"
    assert await refusal_reason(bot.send_message(99, "hi")) == "Chat not found"
    assert await refusal_reason(bot.send_message("", "hi")) == "Chat_id is empty"
    ann.send("hi")
    message = await bot.send_message("@ann", "hi")
    ann.block()
    for call in (
        bot.send_message(1, "hi"),
        bot.edit_message_text("ho", 1, message.message_id),
        bot.send_chat_action(1, "typing"),
        bot.send_message_draft(1, 1, ""),
    ):
        with pytest.raises(Forbidden, match="bot was blocked by the user"):
            await call
    ann.unblock()
    await bot.send_message(1, "hi")


async def test_replies_and_topics_must_exist(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    topic = ann.create_topic("Plans")
    sent = ann.send("hi", thread=topic)
    assert (
        await refusal_reason(bot.send_message(1, "x", reply_to_message_id=55))
        == "Message to be replied not found"
    )
    arguments = {"chat_id": 1, "text": "x", "reply_parameters": {"message_id": [1]}}
    assert (
        await refusal_reason(bot.do_api_request("sendMessage", api_kwargs=arguments))
        == "Message to be replied not found"
    )
    message = await bot.send_message(1, "x", reply_to_message_id=55, allow_sending_without_reply=True)
    assert message.reply_to_message is None
    assert await refusal_reason(bot.send_message(1, "x", message_thread_id=99)) == "Message thread not found"
    message = await bot.send_message(
        1, "x", message_thread_id=topic.thread_id, reply_to_message_id=sent.message_id
    )
    assert (message.message_thread_id, message.is_topic_message) == (topic.thread_id, True)
    quoting = {"message_id": sent.message_id, "quote": "hi"}
    answer = await bot.do_api_request(
        "sendMessage", api_kwargs={"chat_id": 1, "text": "x", "reply_parameters": quoting}
    )
    assert answer["quote"]["text"] == "hi"


async def test_an_edit_replaces_text_and_keyboard_and_keeps_the_past(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("hi")
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Stop", callback_data="stop")]])
    message = await bot.send_message(1, "one", reply_markup=keyboard)
    await bot.edit_message_text("two", 1, message.message_id, reply_markup=keyboard)
    assert "not modified" in await refusal_reason(
        bot.edit_message_text("two ", 1, message.message_id, reply_markup=keyboard)
    )
    edited = await bot.edit_message_reply_markup(1, message.message_id)
    assert not isinstance(edited, bool)
    assert edited.edit_date is not None
    assert "not modified" in await refusal_reason(bot.edit_message_reply_markup(1, message.message_id))
    (bot_message,) = ann.chat.bot_messages
    assert (bot_message.text, bot_message.reply_markup) == ("two", None)
    assert [past["text"] for past in bot_message.edits] == ["one", "two"]


async def test_only_own_text_messages_that_are_there_can_be_edited(bot: Bot, api: ScriptedBotApi):
    question = api.person(1).send("hi")
    photo = await bot.send_photo(1, make_image(), caption="look")
    assert await refusal_reason(bot.edit_message_text("x", 1, 4711)) == "Message to edit not found"
    assert await refusal_reason(bot.edit_message_text("x", 1, 0)) == "Message identifier is not specified"
    assert (
        await refusal_reason(bot.edit_message_text("x", 1, question.message_id)) == "Message can't be edited"
    )
    assert await refusal_reason(bot.edit_message_text("x", 1, photo.message_id)) == (
        "There is no text in the message to edit"
    )


async def test_messages_can_be_deleted_for_two_days(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    question = ann.send("hi")
    message = await bot.send_message(1, "x")
    await bot.delete_message(1, message.message_id)
    await bot.delete_message(1, question.message_id)
    assert ann.chat.messages == []
    assert [gone.text for gone in ann.chat.deleted_messages] == ["hi", "x"]
    assert await refusal_reason(bot.delete_message(1, message.message_id)) == "Message to delete not found"
    old = await bot.send_message(1, "y")
    api.clock.advance(49 * 3600)
    assert (
        await refusal_reason(bot.delete_message(1, old.message_id)) == "Message can't be deleted for everyone"
    )


@pytest.mark.parametrize("name", ["link_preview_options", "reply_parameters"])
async def test_options_must_be_objects(bot: Bot, api: ScriptedBotApi, name: str):
    api.person(1).send("hi")
    for value, word in (("{", "parse"), ("[1]", "expected")):
        call = bot.do_api_request("sendMessage", api_kwargs={"chat_id": 1, "text": "x", name: value})
        assert word in await refusal_reason(call)


async def test_commands_are_kept_by_scope(bot: Bot, api: ScriptedBotApi):
    assert api.commands == []
    await bot.set_my_commands([("start", "Begin"), ("stop", "End")])
    assert [command["command"] for command in api.commands] == ["start", "stop"]
    assert await refusal_reason(bot.set_my_commands([("Start", "Begin")])) == "Bot_command_invalid"
    assert await refusal_reason(bot.set_my_commands([("start", "")])) == "Bot_command_description_invalid"
    assert await refusal_reason(bot.set_my_commands([("start", "x")] * 101)) == "Bot_commands_too_much"
    for value in ("{", '{"command": "start"}'):
        assert "commands" in await refusal_reason(
            bot.do_api_request("setMyCommands", api_kwargs={"commands": value})
        )


def test_a_client_cuts_what_is_too_long_for_one_message(api: ScriptedBotApi):
    ann = api.person(1)
    text = "ab😀" * 3000
    parts = ann.paste(text)
    assert "".join(part.message["text"] for part in parts) == text
    assert [len(part.message["text"].encode("utf-16-le")) // 2 for part in parts] == [4096, 4096, 3808]
    for wrong in ("", "x" * 4097):
        with pytest.raises(ValueError, match="4096"):
            ann.send(wrong)
