"""Signs of life in the simulated Bot API, through the real client: drafts, typing."""

import pytest
from telegram import Bot

from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import fetch_updates, refusal_reason

pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use 'Bot:"),
    pytest.mark.filterwarnings("ignore:.*`retry_after` will be"),
]


async def test_a_draft_is_shown_for_thirty_seconds_or_until_a_message(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("hi")
    assert await bot.send_message_draft(1, 5, "", api_kwargs={"can_stop": True})
    draft = ann.chat.draft
    assert draft is not None
    assert (draft.draft_id, draft.text, draft.can_stop) == (5, "", True)
    api.clock.advance(31)
    assert ann.chat.draft is None
    await bot.send_message_draft(1, 5, "thinking")
    await bot.send_message(1, "done")
    assert ann.chat.draft is None


async def test_drafts_are_for_private_chats_and_need_an_id(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("hi")
    group = api.add_group(-100200, "Team", owner=ann)
    assert await refusal_reason(bot.send_message_draft(group.id, 5, "")) == "Textdraft_peer_invalid"
    assert await refusal_reason(bot.send_message_draft(1, 0, "")) == "Draft_id must be non-zero"
    assert await refusal_reason(bot.send_message_draft(1, 1, "x" * 4097)) == "Message_too_long"


async def test_stop_on_a_draft_is_an_update(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("hi")
    with pytest.raises(LookupError):
        ann.stop_draft()
    await bot.send_message_draft(1, 5, "", api_kwargs={"can_stop": True})
    ann.stop_draft()
    assert ann.chat.draft is None
    assert (await fetch_updates(bot))[-1]["stopped_message_generation"] == {
        "chat": ann.chat.raw,
        "draft_id": 5,
    }
    await bot.send_message_draft(1, 6, "", api_kwargs={"can_stop": True, "keep_on_stop": True})
    ann.stop_draft()
    assert ann.chat.draft is not None


async def test_typing_lasts_five_seconds_or_until_a_message(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("hi")
    await bot.send_chat_action(1, "typing")
    assert ann.chat.chat_action == "typing"
    api.clock.advance(6)
    assert ann.chat.chat_action == ""
    await bot.send_chat_action(1, "typing")
    await bot.send_message(1, "x")
    assert ann.chat.chat_action == ""
    assert await refusal_reason(bot.send_chat_action(1, "dancing")) == "Wrong parameter action in request"
