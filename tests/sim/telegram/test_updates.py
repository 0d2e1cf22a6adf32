"""Updates of the simulated Bot API: confirmation, conflicts, expiry, malformed ones, over real HTTP."""

import asyncio
from collections.abc import Awaitable

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, Update
from telegram.error import Conflict, TelegramError
from telegram.helpers import effective_message_type

from bot.sim.telegram.server import FloodLimits
from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import build_api, fetch_updates, open_bot, open_http, refusal_reason

pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use 'Bot:"),
    pytest.mark.filterwarnings("ignore:.*`retry_after` will be"),
]


async def test_an_update_stays_until_a_higher_offset_confirms_it(bot: Bot, api: ScriptedBotApi):
    sent = [api.person(1).send(text) for text in ("one", "two")]
    ids = [posted.update_id for posted in sent]
    assert [u["update_id"] for u in await fetch_updates(bot)] == ids
    assert [u["update_id"] for u in await fetch_updates(bot)] == ids
    assert [u["update_id"] for u in await fetch_updates(bot, ids[0] + 1)] == ids[1:]
    assert api.updates.pending_ids == ids[1:]
    assert await fetch_updates(bot, ids[1] + 1) == []
    assert await fetch_updates(bot) == []


async def test_updates_are_understood_by_the_real_client(bot: Bot, api: ScriptedBotApi):
    ann, ben = api.person(1, "Ann", username="ann"), api.person(2, "Ben")
    first = ann.send("/start now")
    await bot.send_message(
        1, "hello", reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("Go", callback_data="go")]])
    )
    bot_message = ann.chat.bot_messages[0]
    ann.send("and you?", reply_to=bot_message, quote="lo")
    ann.send("look", forward_from=ben)
    ann.send("look", forward_from="Somebody")
    ann.edit(first, "/help")
    ann.tap(bot_message, "Go")
    ann.send_photo("what is this?", content=b"png", album="7")
    ann.send_voice()
    ann.send_sticker()
    ann.send_document("a.pdf", caption="read")
    ann.send_video("safe?")
    ann.send_animation("funny")
    ann.send_location(52.52, 13.4)
    ann.send_venue(52.52, 13.4, "Café", "Street 5")
    ann.send_contact("+49 30 1", "Anna")
    ann.send_poll("When?", "Mon", "Tue", forward_from=ben)
    ann.send_dice("🎯", 6)
    ann.block()
    ann.unblock()
    group = api.add_group(-100200, "Team", owner=ann, is_forum=True)
    ann.send("/start", thread=ann.create_topic("Plans", thread=group))
    seen = await bot.get_updates()
    assert [type(update) for update in seen] == [Update] * 23
    assert seen[0].message is not None
    assert seen[0].message.parse_entities() == {seen[0].message.entities[0]: "/start"}
    assert seen[1].message is not None
    assert seen[1].message.quote is not None
    assert (seen[1].message.quote.text, seen[1].message.quote.position) == ("lo", 3)
    assert seen[4].edited_message is not None
    assert seen[5].callback_query is not None
    assert seen[5].callback_query.data == "go"
    kinds = [effective_message_type(update) for update in seen[11:17]]
    assert kinds == ["animation", "location", "location", "contact", "poll", "dice"]
    assert seen[13].message is not None
    assert seen[13].message.venue is not None
    in_topic = seen[-1].to_dict()["message"]
    assert in_topic["message_thread_id"] == in_topic["reply_to_message"]["message_id"]


async def test_a_long_poll_ends_when_something_comes(bot: Bot, api: ScriptedBotApi):
    async with asyncio.TaskGroup() as tasks:
        poll = tasks.create_task(fetch_updates(bot, timeout=50))
        await api.wait_until(lambda: api.updates.is_polled)
        sent = api.person(1).send("hi")
    assert [update["update_id"] for update in poll.result()] == [sent.update_id]
    await api.wait_until(lambda: api.fetched_at(sent.update_id))


async def test_a_long_poll_with_nothing_to_tell_ends_empty(bot: Bot):
    assert await fetch_updates(bot, timeout=1) == []


async def test_a_newer_poll_ends_the_older_with_a_conflict(bot: Bot, api: ScriptedBotApi, api_url: str):
    async with open_bot(api, api_url) as second_bot, asyncio.TaskGroup() as tasks:
        older = tasks.create_task(_outcome(fetch_updates(bot, timeout=50)))
        await api.wait_until(lambda: api.updates.is_polled)
        newer = tasks.create_task(fetch_updates(second_bot, timeout=50))
        error = await older
        api.person(1).send("hi")
    assert isinstance(error, Conflict)
    assert "terminated by other getUpdates request" in error.message
    assert len(newer.result()) == 1


async def test_a_poll_whose_client_hangs_up_is_over(api: ScriptedBotApi, api_url: str):
    async with open_http() as http, asyncio.TaskGroup() as tasks:
        polling = tasks.create_task(http.get(f"{api_url}/bot{api.token}/getUpdates?timeout=50"))
        await api.wait_until(lambda: api.updates.is_polled)
        polling.cancel()
    await api.wait_until(lambda: api.calls[0].outcome == "cut")
    assert not api.updates.is_polled


async def test_a_webhook_forbids_polling(bot: Bot, api: ScriptedBotApi):
    async with asyncio.TaskGroup() as tasks:
        polling = tasks.create_task(_outcome(fetch_updates(bot, timeout=50)))
        await api.wait_until(lambda: api.updates.is_polled)
        await bot.set_webhook("https://example.com/hook")
    assert "terminated by setWebhook" in str(polling.result())
    with pytest.raises(Conflict, match="can't use getUpdates method while webhook is active"):
        await fetch_updates(bot)
    api.person(1).send("hi")
    await bot.delete_webhook(drop_pending_updates=True)
    assert await fetch_updates(bot) == []
    assert "https" in await refusal_reason(bot.set_webhook("http://example.com"))


async def test_kinds_asked_for_stay_until_others_are_asked_for(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    sent = ann.send("hi")
    await fetch_updates(bot, allowed_updates=["edited_message"])
    ann.edit(sent, "ho")
    ann.send("not wanted")
    assert [set(update) - {"update_id"} for update in await fetch_updates(bot)] == [
        {"message"},
        {"edited_message"},
    ]
    await fetch_updates(bot, allowed_updates="nonsense")
    ann.send("not wanted")
    await fetch_updates(bot, allowed_updates=[])
    ann.send("wanted")
    assert len(await fetch_updates(bot)) == 3


async def test_messages_expire_a_day_after_their_date_and_taps_sooner(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("old", date=api.clock.now() - 86_000)
    ann.send("new")
    await bot.send_message(
        1, "?", reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("Go", callback_data="go")]])
    )
    ann.tap(ann.chat.bot_messages[0], "go")
    assert len(await fetch_updates(bot)) == 3
    api.clock.advance(151)
    assert len(await fetch_updates(bot)) == 2
    api.clock.advance(400)
    assert [update["message"]["text"] for update in await fetch_updates(bot)] == ["new"]


async def test_a_batch_has_a_limit_in_number_and_in_bytes(bot: Bot, api: ScriptedBotApi):
    for text in ("1", "2", "3"):
        api.person(1).send(text)
    assert len(await fetch_updates(bot, limit=2)) == 2
    assert len(await fetch_updates(bot, limit=-5)) == 3
    for _ in range(3):
        api.push_update({"junk": "x" * 3_000_000})
    assert len(await fetch_updates(bot)) == 4


async def test_a_negative_offset_keeps_the_newest_only(bot: Bot, api: ScriptedBotApi):
    ids = [api.person(1).send(text).update_id for text in "123"]
    assert [update["update_id"] for update in await fetch_updates(bot, -1)] == ids[-1:]
    assert api.updates.pending_ids == ids[-1:]


async def test_an_update_can_be_delivered_again_after_it_was_confirmed(bot: Bot, api: ScriptedBotApi):
    sent = api.person(1).send("hi")
    assert await fetch_updates(bot, sent.update_id + 1) == []
    api.updates.repeat(sent.update_id)
    again = await fetch_updates(bot, sent.update_id + 1)
    assert [update["update_id"] for update in again] == [sent.update_id]
    assert await fetch_updates(bot, sent.update_id + 1) == []


async def test_ids_may_restart_below_an_offset_of_old(bot: Bot, api: ScriptedBotApi):
    old = api.person(1).send("old").update_id
    assert await fetch_updates(bot, old + 1) == []
    api.updates.restart_ids(1000)
    api.person(1).send("new")
    assert [update["update_id"] for update in await fetch_updates(bot, old + 1)] == [1000]
    assert await fetch_updates(bot, 1001) == []


async def test_malformed_updates_are_delivered_as_they_are(bot: Bot, api: ScriptedBotApi, api_url: str):
    poison = api.push_update({"message": {"message_id": 1, "chat": {"id": 1, "type": "private"}}})
    numbered = api.push_update({"update_id": 7, "strange": None})
    assert [update["update_id"] for update in await fetch_updates(bot)] == [poison, numbered]
    with pytest.raises(KeyError, match="date"):
        await bot.get_updates()
    broken = api.push_update(b'{"update_id":')
    async with open_http() as http:
        answer = await http.get(f"{api_url}/bot{api.token}/getUpdates?offset={broken}")
    assert answer.content == b'{"ok":true,"result":[{"update_id":]}'


async def test_polls_can_be_paced_as_on_the_real_server():
    api = build_api(FloodLimits(), throttles_polls=True)
    async with api.serve_on_loopback() as url, open_bot(api, url) as bot:
        for text in "12":
            api.person(1).send(text)
        assert len(await fetch_updates(bot)) == 2
        assert len(await fetch_updates(bot)) == 1
        api.clock.advance(1)
        assert len(await fetch_updates(bot)) == 2


async def _outcome(call: Awaitable[object]) -> object:
    try:
        return await call
    except TelegramError as error:
        return error
