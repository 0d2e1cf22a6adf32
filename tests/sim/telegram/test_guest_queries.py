"""Guest queries in the simulated Bot API, through the real client."""

from typing import Any

import pytest
from telegram import Bot, InlineQueryResultArticle, InputTextMessageContent

from tests.support.telegram.guest_queries import QUERY_SECONDS
from tests.support.telegram.server import ScriptedBotApi, ScriptedGroup, ScriptedPerson
from tests.support.telegram_client import fetch_updates, refusal_reason

GROUP = -1001000000500
EXPIRED = "Query is too old and response timeout expired or query id is invalid"
pytestmark = [pytest.mark.filterwarnings("ignore:Please use 'Bot:")]


@pytest.fixture
def ann(api: ScriptedBotApi) -> ScriptedPerson:
    api.change_bot(supports_guest_queries=True)
    return api.person(1, "Ann")


@pytest.fixture
def group(api: ScriptedBotApi, ann: ScriptedPerson) -> ScriptedGroup:
    return api.add_foreign_group(GROUP, "Elsewhere", owner=ann)


def article(text: str = "…", title: str = "Answer") -> InlineQueryResultArticle:
    return InlineQueryResultArticle("1", title, InputTextMessageContent(text))


async def test_a_guest_answers_once_and_edits_its_answer(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    query = ann.summon(f"@{api.username} why?", thread=group)
    (update,) = await bot.get_updates()
    assert update.update_id == query.update_id
    assert update.message is None
    assert update.guest_message is not None
    assert update.guest_message.guest_query_id == query.query_id
    assert update.guest_message.chat.id == GROUP
    sent = await bot.answer_guest_query(query.query_id, article())
    assert query.answer is not None
    assert query.answer.raw["guest_bot_caller_user"] == ann.user
    assert await bot.edit_message_text("Because.", inline_message_id=sent.inline_message_id) is True
    assert "not modified" in await refusal_reason(
        bot.edit_message_text("Because.", inline_message_id=sent.inline_message_id)
    )
    assert query.answer.text == "Because."
    again = bot.answer_guest_query(query.query_id, article())
    assert (await refusal_reason(again)).lower() == EXPIRED.lower()
    assert await refusal_reason(bot.edit_message_text("x", inline_message_id="none")) == "Message_id_invalid"
    follow_up = ann.summon("and then?", thread=group, reply_to=query.answer)
    assert follow_up.update_id
    assert follow_up.message["reply_to_message"]["text"] == "Because."
    with pytest.raises(ValueError, match="mention"):
        ann.summon("nobody", thread=group)


async def test_a_query_must_be_answered_soon(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    query = ann.summon(f"@{api.username} why?", thread=group)
    api.clock.advance(QUERY_SECONDS + 1)
    for query_id in (query.query_id, "77"):
        late = bot.answer_guest_query(query_id, article())
        assert (await refusal_reason(late)).lower() == EXPIRED.lower()
    assert group.chat.bot_messages == []


async def test_a_guest_can_do_nothing_else_there(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    assert await refusal_reason(bot.send_message(GROUP, "x")) == "Chat not found"
    query = ann.summon(f"@{api.username} why?", thread=group)
    for call in (
        bot.send_message(GROUP, "x"),
        bot.send_chat_action(GROUP, "typing"),
        bot.set_message_reaction(GROUP, query.message["message_id"], "👀"),
        bot.edit_message_text("x", GROUP, 1),
    ):
        assert await refusal_reason(call) == "Peer_id_invalid"


async def test_summons_come_only_to_a_bot_that_has_them_on_and_asks_for_them(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    await fetch_updates(bot, allowed_updates=["message"])
    ann.summon(f"@{api.username} why?", thread=group)
    assert await fetch_updates(bot) == []
    await fetch_updates(bot, allowed_updates=["message", "guest_message"])
    ann.summon(f"@{api.username} why?", thread=group)
    assert len(await fetch_updates(bot)) == 1
    api.change_bot(supports_guest_queries=False)
    assert not (await bot.get_me()).supports_guest_queries
    assert ann.summon(f"@{api.username} why?", thread=group).update_id == 0


async def test_a_member_that_is_summoned_gets_the_message_too(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson
):
    group = api.add_group(GROUP - 1, "Here", owner=ann)
    group.change_member(api.bot, "administrator")
    ann.summon(f"@{api.username} why?", thread=group)
    *_, message, guest = await fetch_updates(bot)
    assert message["message"]["message_id"] == guest["guest_message"]["message_id"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"type": "photo"}, "Result_type_invalid"),
        ({"id": ""}, "Result_id_invalid"),
        ({"title": " "}, "Article_title_empty"),
        ({"input_message_content": None}, "input_message_content"),
        ({"input_message_content": {"message_text": "x" * 4097}}, "Message_too_long"),
        ({"input_message_content": {"message_text": ""}}, "Message text is empty"),
    ],
)
async def test_only_a_titled_article_with_text_is_an_answer(
    bot: Bot,
    api: ScriptedBotApi,
    ann: ScriptedPerson,
    group: ScriptedGroup,
    change: dict[str, Any],
    reason: str,
):
    query = ann.summon(f"@{api.username} why?", thread=group)
    arguments = {"guest_query_id": query.query_id, "result": article().to_dict() | change}
    refused = bot.do_api_request("answerGuestQuery", api_kwargs=arguments)
    assert reason in await refusal_reason(refused)
    assert query.answer is None
