"""Groups in the simulated Bot API, through the real client: members, privacy mode, rights, migration."""

import pytest
from telegram import Bot, ChatMemberAdministrator, ChatMemberOwner, ChatMemberRestricted, Update
from telegram.error import ChatMigrated, Forbidden, RetryAfter

from bot.sim.telegram.server import FloodLimits
from tests.support.attachment_files import make_image
from tests.support.telegram.server import ScriptedBotApi, ScriptedGroup, ScriptedPerson
from tests.support.telegram_client import build_api, fetch_updates, open_bot, refusal_reason

GROUP = -1001000000200
pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use 'Bot:"),
    pytest.mark.filterwarnings("ignore:.*`retry_after` will be"),
]


@pytest.fixture
def ann(api: ScriptedBotApi) -> ScriptedPerson:
    return api.person(1, "Ann")


@pytest.fixture
def ben(api: ScriptedBotApi) -> ScriptedPerson:
    return api.person(2, "Ben")


@pytest.fixture
def group(api: ScriptedBotApi, ann: ScriptedPerson, ben: ScriptedPerson) -> ScriptedGroup:
    return api.add_group(GROUP, "Team", owner=ann, members=[ben])


async def test_the_bot_hears_that_it_was_added_and_by_whom(
    bot: Bot, ann: ScriptedPerson, group: ScriptedGroup
):
    added, service = await fetch_updates(bot)
    change = added["my_chat_member"]
    assert (change["chat"]["id"], change["from"]) == (group.id, ann.user)
    assert change["old_chat_member"]["status"] == "left"
    assert change["new_chat_member"]["status"] == "member"
    assert service["message"]["new_chat_members"][0]["username"] == "canvasgram_sim_bot"


async def test_in_privacy_mode_the_bot_hears_what_is_meant_for_it(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    answer = await bot.send_message(group.id, "hello")
    others = api.add_other_bot(900, "Other", "other_bot")
    group.change_member(others.user, "member")
    heard = [
        ann.send("/help", thread=group),
        ann.send(f"/help@{api.username.upper()} me", thread=group),
        ann.send("you", reply_to=answer.message_id, thread=group),
        ann.send_photo(f"/ask@{api.username}", thread=group),
        group.pin(answer.message_id),
        group.change_title("Crew"),
    ]
    assert all(message.update_id for message in heard)
    others.send("I wrote last", thread=group)
    unheard = [
        ann.send("among ourselves", thread=group),
        ann.send("/help@other_bot", thread=group),
        ann.send("/help", thread=group),
        ann.send(f"what says @{api.username}?", thread=group),
    ]
    assert [message.update_id for message in unheard] == [0, 0, 0, 0]
    await bot.send_message(group.id, "now I did")
    assert ann.send("/help", thread=group).update_id


async def test_a_mention_passes_privacy_mode_where_that_is_chosen():
    api = ScriptedBotApi(mentions_pass_privacy=True)
    ann = api.person(1)
    group = api.add_group(GROUP, "Team", owner=ann)
    text = "🙂 Canvas, hello"
    named = {"type": "text_mention", "offset": 3, "length": 6, "user": api.bot}
    assert ann.send(f"🙂 @{api.username.upper()} hello", thread=group).update_id
    assert ann.send_photo(f"@{api.username}", thread=group).update_id
    assert ann.send_with_entities(text, [named], thread=group).update_id
    assert not ann.send(f"mail me at me@{api.username}.org, @{api.username}2", thread=group).update_id


async def test_mentions_and_commands_are_marked_in_utf16_units(ann: ScriptedPerson, group: ScriptedGroup):
    text = ann.send("🙂 /stop@x and @somebody", thread=group).message
    assert text["entities"] == [
        {"type": "bot_command", "offset": 3, "length": 7},
        {"type": "mention", "offset": 15, "length": 9},
    ]
    caption = ann.send_photo("🙂 @somebody", thread=group).message
    assert caption["caption_entities"] == [{"type": "mention", "offset": 3, "length": 9}]


async def test_privacy_mode_changes_in_a_group_when_the_bot_is_added_again(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    api.change_bot(can_read_all_group_messages=True)
    assert (await bot.get_me()).can_read_all_group_messages
    assert not ann.send("still unheard", thread=group).update_id
    group.change_member(api.bot, "kicked")
    group.change_member(api.bot, "member")
    assert ann.send("heard", thread=group).update_id
    api.change_bot(can_read_all_group_messages=False)
    assert ann.send("heard as before", thread=group).update_id


async def test_an_administrator_hears_everything_and_the_changes_of_members(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, ben: ScriptedPerson, group: ScriptedGroup
):
    assert group.change_member(ben.user, "restricted", can_send=False) == 0
    group.change_member(api.bot, "administrator")
    assert ann.send("heard", thread=group).update_id
    group.change_member(ben.user, "administrator", is_anonymous=True)
    updates = await fetch_updates(bot)
    assert not any("chat_member" in update for update in updates)
    await fetch_updates(bot, updates[-1]["update_id"] + 1, allowed_updates=["message", "chat_member"])
    changed = group.change_member(ben.user, "kicked", by=ann)
    change, left = await fetch_updates(bot)
    assert (change["update_id"], change["chat_member"]["old_chat_member"]["status"]) == (
        changed,
        "administrator",
    )
    assert left["message"]["left_chat_member"] == ben.user


async def test_members_are_described_by_what_they_are(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, ben: ScriptedPerson, group: ScriptedGroup
):
    eve = api.person(3, "Eve")
    other = api.add_other_bot(900, "Other", "other_bot")
    group.change_member(other.user, "administrator")
    group.change_member(ben.user, "restricted", can_send=False)
    assert isinstance(await bot.get_chat_member(group.id, 1), ChatMemberOwner)
    restricted = await bot.get_chat_member(group.id, 2)
    assert isinstance(restricted, ChatMemberRestricted)
    assert not restricted.can_send_messages
    assert (await bot.get_chat_member(group.id, eve.id)).status == "left"
    assert (await bot.get_chat_member(group.id, bot.id)).status == "member"
    group.change_member(api.bot, "administrator")
    assert [member.user.id for member in await bot.get_chat_administrators(group.id)] == [1, bot.id]
    assert isinstance(await bot.get_chat_member(group.id, bot.id), ChatMemberAdministrator)
    everybody = await bot.get_chat_administrators(group.id, api_kwargs={"return_bots": True})
    assert len(everybody) == 3
    assert await refusal_reason(bot.get_chat_member(group.id, 77)) == "Participant_id_invalid"
    assert await refusal_reason(bot.get_chat_member(group.id, -1)) == "Invalid user_id specified"
    ann.send("hi")
    assert (await bot.get_chat_member(1, 1)).status == "member"
    assert "no administrators" in await refusal_reason(bot.get_chat_administrators(1))


async def test_a_bot_that_was_removed_or_has_left_is_refused(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    message = await bot.send_message(group.id, "hello")
    group.change_member(api.bot, "kicked")
    for call in (
        bot.send_message(group.id, "x"),
        bot.edit_message_text("x", group.id, message.message_id),
        bot.send_chat_action(group.id, "typing"),
        bot.leave_chat(group.id),
    ):
        with pytest.raises(Forbidden, match="bot was kicked from the supergroup chat"):
            await call
    assert not ann.send("/help", thread=group).update_id
    group.change_member(api.bot, "member")
    await bot.leave_chat(group.id)
    with pytest.raises(Forbidden, match="bot is not a member of the supergroup chat"):
        await bot.send_message(group.id, "x")
    ann.send("hi")
    assert "private" in await refusal_reason(bot.leave_chat(1))


async def test_a_muted_bot_may_edit_but_not_write(bot: Bot, api: ScriptedBotApi, group: ScriptedGroup):
    message = await bot.send_message(group.id, "hello")
    group.change_member(api.bot, "restricted", can_send=False)
    assert await refusal_reason(bot.send_message(group.id, "x")) == (
        "Not enough rights to send text messages to the chat"
    )
    assert await refusal_reason(bot.send_photo(group.id, make_image())) == (
        "Not enough rights to send photos to the chat"
    )
    assert await refusal_reason(bot.send_chat_action(group.id, "typing")) == (
        "Have no rights to send a message"
    )
    await bot.edit_message_text("y", group.id, message.message_id)
    group.change_member(api.bot, "member")
    await bot.send_message(group.id, "z")


def test_people_write_only_where_they_may(ben: ScriptedPerson, api: ScriptedBotApi, group: ScriptedGroup):
    for status in ("left", "kicked", "restricted"):
        group.change_member(ben.user, status, can_send=False)
        with pytest.raises(ValueError, match="may not write"):
            ben.send("hi", thread=group)
    group.change_member(ben.user, "restricted")
    ben.send("hi", thread=group)


async def test_only_an_administrator_deletes_what_others_wrote(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    message = ann.send("/help", thread=group)
    assert await refusal_reason(bot.delete_message(group.id, message.message_id)) == (
        "Message can't be deleted"
    )
    group.change_member(api.bot, "administrator")
    await bot.delete_message(group.id, message.message_id)
    with pytest.raises(LookupError):
        ann.edit(message, "gone", thread=group)


async def test_a_basic_group_that_becomes_a_supergroup_has_a_new_id(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson
):
    basic = api.add_group(-4711, "Team", owner=ann, is_basic=True)
    await bot.send_message(basic.id, "before")
    with pytest.raises(ValueError, match="only a basic group"):
        basic.migrate(GROUP).migrate(GROUP - 1)
    for call in (bot.send_message(basic.id, "x"), bot.send_chat_action(basic.id, "typing")):
        with pytest.raises(ChatMigrated, match="Group migrated to supergroup") as caught:
            await call
        assert caught.value.new_chat_id == GROUP
    assert api.calls[-1].description == "Bad Request: group chat was upgraded to a supergroup chat"
    *_, left, arrived = await fetch_updates(bot)
    assert (left["message"]["chat"]["id"], left["message"]["migrate_to_chat_id"]) == (basic.id, GROUP)
    assert (arrived["message"]["chat"]["id"], arrived["message"]["migrate_from_chat_id"]) == (GROUP, basic.id)
    assert await bot.send_message(GROUP, "after")


async def test_each_supergroup_counts_its_messages_itself(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    other = api.add_group(GROUP - 1, "Other", owner=ann)
    ids = [(await bot.send_message(chat.id, "x")).message_id for chat in (group, other)]
    assert ids[0] == ids[1]


async def test_who_writes_for_a_chat_is_named_by_it(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    group.change_member(api.bot, "administrator")
    group.add_anonymous_admin().send("I am the group", thread=group)
    channel = group.link_channel(-1001000000900, "News")
    channel.send("a post", thread=group)
    anonymous, post = [Update.de_json(raw, bot).message for raw in (await fetch_updates(bot))[-2:]]
    assert anonymous is not None
    assert anonymous.from_user is not None
    assert (anonymous.from_user.id, anonymous.from_user.username) == (1087968824, "GroupAnonymousBot")
    assert anonymous.sender_chat == anonymous.chat
    assert post is not None
    assert post.is_automatic_forward
    assert post.sender_chat is not None
    assert post.sender_chat.title == "News"


async def test_other_bots_are_heard_only_with_bot_to_bot_communication(
    api: ScriptedBotApi, ann: ScriptedPerson, group: ScriptedGroup
):
    other = api.add_other_bot(900, "Other", "other_bot")
    group.change_member(other.user, "member")
    assert not other.send(f"/help@{api.username}", thread=group).update_id
    group.chat.has_bot_to_bot = True
    assert other.send(f"/help@{api.username}", thread=group).update_id
    assert not other.send("hello", thread=group).update_id
    group.change_member(api.bot, "administrator")
    assert other.send("hello", thread=group).update_id


async def test_a_reply_in_a_supergroup_names_its_thread_and_is_no_topic_message(
    ann: ScriptedPerson, ben: ScriptedPerson, group: ScriptedGroup
):
    first = ann.send("one", thread=group)
    second = ben.send("two", reply_to=first, thread=group)
    third = ann.send("three", reply_to=second, thread=group)
    assert [m.message.get("message_thread_id") for m in (first, second, third)] == [
        None,
        first.message_id,
        first.message_id,
    ]
    assert "is_topic_message" not in third.message


async def test_a_group_takes_twenty_messages_a_minute_and_no_other_chat_waits():
    api = build_api(FloodLimits(overall=None))
    ann = api.person(1)
    ann.send("hi")
    group = api.add_group(GROUP, "Team", owner=ann)
    async with api.serve_on_loopback() as url, open_bot(api, url) as bot:
        for number in range(20):
            await bot.send_message(group.id, str(number))
        with pytest.raises(RetryAfter):
            await bot.send_message(group.id, "too much")
        await bot.send_message(1, "elsewhere")
        await bot.send_chat_action(group.id, "typing")


async def test_a_client_shows_the_menu_of_the_narrowest_scope(
    bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson, ben: ScriptedPerson, group: ScriptedGroup
):
    scopes = {
        "default": {"type": "default"},
        "groups": {"type": "all_group_chats"},
        "admins": {"type": "chat_administrators", "chat_id": group.id},
    }
    for name, scope in scopes.items():
        arguments = {"commands": [{"command": name, "description": "x"}], "scope": scope}
        await bot.do_api_request("setMyCommands", api_kwargs=arguments)
    menus = [api.list_menu(ann), api.list_menu(ann, group.id), api.list_menu(ben, group.id)]
    assert [menu[0]["command"] for menu in menus] == ["default", "admins", "groups"]
    await bot.do_api_request("deleteMyCommands", api_kwargs={"scope": scopes["groups"]})
    assert api.list_menu(ben, group.id)[0]["command"] == "default"
    ann.send("hi")
    for scope, reason in (
        ({"type": "everywhere"}, "Can't parse botcommandscope: unsupported type specified"),
        ({"type": "chat", "chat_id": 99}, "Chat not found"),
        ({"type": "chat_administrators", "chat_id": 1}, "Can't use specified scope in private chats"),
    ):
        call = bot.do_api_request("setMyCommands", api_kwargs={"commands": [], "scope": scope})
        assert (await refusal_reason(call)).lower() == reason.lower()
