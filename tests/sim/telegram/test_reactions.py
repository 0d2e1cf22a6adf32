"""Reactions in the simulated Bot API, through the real client: the bot's own, and those of people."""

import pytest
from telegram import Bot, Update

from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import fetch_updates, refusal_reason

KINDS = ["message", "message_reaction"]
pytestmark = [pytest.mark.filterwarnings("ignore:Please use 'Bot:")]


async def test_one_reaction_of_the_known_ones(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    sent = ann.send("hi")
    await bot.set_message_reaction(1, sent.message_id, "👀")
    assert ann.chat.messages[0].reactions == ["👀"]
    await bot.set_message_reaction(1, sent.message_id, [])
    assert ann.chat.messages[0].reactions == []
    assert await refusal_reason(bot.set_message_reaction(1, sent.message_id, "🧊")) == "Reaction_invalid"
    assert (
        await refusal_reason(bot.set_message_reaction(1, sent.message_id, ["👀", "👍"]))
        == "Reactions_too_many"
    )
    assert await refusal_reason(bot.set_message_reaction(1, 4711, "👀")) == "Message to react not found"
    for odd in ({"odd": 1}, {"type": "emoji", "emoji": "🧊"}):
        arguments = {"chat_id": 1, "message_id": sent.message_id, "reaction": [odd]}
        assert (
            await refusal_reason(bot.do_api_request("setMessageReaction", api_kwargs=arguments))
            == "Reaction_invalid"
        )


async def test_a_group_may_forbid_reactions(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    group = api.add_group(-1001, "Team", owner=ann)
    message = await bot.send_message(group.id, "hello")
    group.chat.allowed_reactions = frozenset("👍")
    assert await refusal_reason(bot.set_message_reaction(group.id, message.message_id, "👀")) == (
        "Reaction_invalid"
    )
    await bot.set_message_reaction(group.id, message.message_id, "👍")
    with pytest.raises(ValueError, match="no reaction here"):
        ann.react(message.message_id, "🔥", thread=group)


async def test_reactions_of_people_come_only_where_they_are_asked_for(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("hi")
    message = await bot.send_message(1, "hello")
    ann.react(message.message_id, "👎")
    assert not any("message_reaction" in update for update in await fetch_updates(bot))
    await fetch_updates(bot, -1, allowed_updates=KINDS)
    update_id = ann.react(message.message_id, "👍")
    ann.react(message.message_id, "")
    changed, removed = (Update.de_json(raw, bot) for raw in (await fetch_updates(bot))[-2:])
    assert changed.update_id == update_id
    assert changed.message_reaction is not None
    assert changed.message_reaction.message_id == message.message_id
    assert changed.message_reaction.user is not None
    assert changed.message_reaction.user.id == ann.id
    reactions = changed.message_reaction.to_dict()
    assert [reactions[name][0]["emoji"] for name in ("old_reaction", "new_reaction")] == ["👎", "👍"]
    assert "message_thread_id" not in reactions
    assert removed.message_reaction is not None
    assert removed.message_reaction.new_reaction == ()


async def test_in_a_group_only_an_administrator_hears_of_reactions(bot: Bot, api: ScriptedBotApi):
    ann, ben = api.person(1, "Ann"), api.person(2, "Ben")
    group = api.add_group(-1001, "Team", owner=ann, members=[ben], is_forum=True)
    topic = ann.create_topic("Plans", thread=group)
    message = await bot.send_message(group.id, "hello", message_thread_id=topic.thread_id)
    await fetch_updates(bot, allowed_updates=KINDS)
    assert ben.react(message.message_id, "👍", thread=topic) == 0
    group.change_member(api.bot, "administrator")
    assert ann.react(message.message_id, "👍", thread=topic)
    group.add_anonymous_admin().react(message.message_id, "👎", thread=topic)
    await bot.set_message_reaction(group.id, message.message_id, "👀")
    told = [update["message_reaction"] for update in await fetch_updates(bot) if "message_reaction" in update]
    assert [("user" in change, "actor_chat" in change) for change in told] == [(True, False), (False, True)]
    assert "message_thread_id" not in told[0]
    assert group.chat.bot_messages[0].shown_reactions == ["👀", "👍", "👍", "👎"]
