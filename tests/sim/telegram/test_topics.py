"""Forum topics in the simulated Bot API, through the real client."""

import pytest
from telegram import Bot

from tests.support.group_chat import open_group
from tests.support.telegram.server import ScriptedBotApi, ScriptedGroup, ScriptedPerson
from tests.support.telegram_client import fetch_updates, refusal_reason

pytestmark = [pytest.mark.filterwarnings("ignore:Please use 'Bot:")]


@pytest.fixture
def ann(api: ScriptedBotApi) -> ScriptedPerson:
    return api.person(1, "Ann")


@pytest.fixture
def forum(api: ScriptedBotApi, ann: ScriptedPerson) -> ScriptedGroup:
    return api.add_group(-1001000000300, "Forum", owner=ann, is_forum=True)


async def test_what_replies_to_nothing_in_a_topic_points_at_its_beginning(
    bot: Bot, ann: ScriptedPerson, forum: ScriptedGroup
):
    topic = ann.create_topic("Plans", thread=forum)
    begun = (await fetch_updates(bot))[-1]["message"]
    assert begun["message_id"] == begun["message_thread_id"] == topic.thread_id
    assert begun["forum_topic_created"]["name"] == "Plans"
    question = ann.send("/ask when?", thread=topic).message
    assert question["is_topic_message"]
    assert question["reply_to_message"]["message_id"] == question["message_thread_id"] == topic.thread_id
    assert "forum_topic_created" in question["reply_to_message"]
    answer = await bot.send_message(forum.id, "Soon", message_thread_id=topic.thread_id)
    assert answer.is_topic_message
    assert answer.reply_to_message is not None
    assert answer.reply_to_message.forum_topic_created is not None
    reply = ann.send("really?", reply_to=answer.message_id, thread=topic).message
    assert reply["reply_to_message"]["message_id"] == answer.message_id


async def test_the_general_topic_has_no_thread_id_but_for_typing(
    bot: Bot, ann: ScriptedPerson, forum: ScriptedGroup
):
    general = ann.send("/help", thread=forum).message
    assert not {"message_thread_id", "is_topic_message", "reply_to_message"} & general.keys()
    assert await refusal_reason(bot.send_message(forum.id, "x", message_thread_id=1)) == (
        "Message thread not found"
    )
    assert (await bot.send_message(forum.id, "x")).message_thread_id is None
    assert await bot.send_chat_action(forum.id, "typing", message_thread_id=1)
    assert await refusal_reason(bot.send_chat_action(forum.id, "typing", message_thread_id=99)) == (
        "Message thread not found"
    )


async def test_a_closed_topic_is_for_administrators(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, forum: ScriptedGroup
):
    ben = api.person(2, "Ben")
    forum.change_member(ben.user, "member")
    topic = ann.create_topic("Plans", thread=forum)
    first = await bot.send_message(forum.id, "x", message_thread_id=topic.thread_id)
    forum.close_topic(topic)
    closed = bot.send_message(forum.id, "y", message_thread_id=topic.thread_id)
    assert await refusal_reason(closed) == "Topic_closed"
    await bot.edit_message_text("z", forum.id, first.message_id)
    with pytest.raises(ValueError, match="closed"):
        ben.send("hi", thread=topic)
    await bot.send_message(forum.id, "in General")
    forum.change_member(api.bot, "administrator")
    await bot.send_message(forum.id, "y", message_thread_id=topic.thread_id)
    forum.change_member(api.bot, "member")
    forum.reopen_topic(topic)
    await bot.send_message(forum.id, "y", message_thread_id=topic.thread_id)
    forum.close_topic(forum)
    assert await refusal_reason(bot.send_message(forum.id, "in General")) == "Topic_closed"
    forum.reopen_topic(forum)
    await bot.send_message(forum.id, "in General")


async def test_a_deleted_topic_is_not_found_and_takes_its_messages_along(
    bot: Bot, ann: ScriptedPerson, forum: ScriptedGroup
):
    topic = ann.create_topic("Plans", thread=forum)
    answer = await bot.send_message(forum.id, "x", message_thread_id=topic.thread_id)
    forum.delete_topic(topic)
    gone = bot.send_message(forum.id, "y", message_thread_id=topic.thread_id)
    assert await refusal_reason(gone) == "Message thread not found"
    assert "not found" in await refusal_reason(bot.edit_message_text("z", forum.id, answer.message_id))


async def test_each_topic_shows_what_was_written_in_it(bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson):
    team = open_group(api, ann, is_forum=True, hears_everything=True)
    topic = team.ben.create_topic("Plans", thread=team.group)
    assert team.cleo.send("heard without a mention", thread=topic).update_id
    await bot.send_message(team.group.id, "in Plans", message_thread_id=topic.thread_id)
    await bot.send_message(team.group.id, "in General")
    assert await team.wait_for_texts(1, topic) == ["in Plans"]
    assert team.texts() == ["in General"]
