"""The simulated Bot API as a whole: who may call, faults on demand, the log, and listening to it."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from telegram import Bot
from telegram.error import EndPointNotFound, NetworkError, RetryAfter

from bot.sim.telegram.server import FloodLimits, FloodRate
from tests.support.telegram.server import BotApiFault, ScriptedBotApi
from tests.support.telegram_client import build_api, fetch_updates, open_bot, open_http, refusal_reason

pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use 'Bot:"),
    pytest.mark.filterwarnings("ignore:.*`retry_after` will be"),
]


async def test_get_me_is_understood_by_the_real_client(bot: Bot, api: ScriptedBotApi):
    me = await bot.get_me()
    assert (me.id, me.username, me.is_bot) == (123456, api.username, True)


async def test_a_wrong_token_is_unauthorized_and_a_malformed_one_not_found(api: ScriptedBotApi, api_url: str):
    async with open_http() as http:
        answer = await http.get(f"{api_url}/bot123456:OTHER/getMe")
        assert answer.status_code == 401
        assert answer.json() == {"ok": False, "error_code": 401, "description": "Unauthorized"}
        answer = await http.get(f"{api_url}/bot-what/getMe")
        assert (answer.status_code, answer.json()["description"]) == (404, "Not Found")
        for path in ("elsewhere", f"file/bot{api.token}/files/none", "file/bot1:X/files/photo-1"):
            assert (await http.get(f"{api_url}/{path}")).status_code == 404


async def test_an_unknown_method_is_not_found(bot: Bot):
    with pytest.raises(EndPointNotFound):
        await bot.do_api_request("sendRichMessage", api_kwargs={"chat_id": 1})


@pytest.mark.parametrize(
    "send",
    [
        lambda http, url: http.get(url, params={"chat_id": 1, "text": "grüß dich"}),
        lambda http, url: http.post(url, data={"chat_id": 1, "text": "grüß dich"}),
        lambda http, url: http.post(url, json={"chat_id": 1, "text": "grüß dich"}),
        lambda http, url: http.post(url, data={"chat_id": "1", "text": "grüß dich"}, files={"unused": b"1"}),
        lambda http, url: http.post(
            url.replace("sendMessage", "SENDMESSAGE"), json={"chat_id": 1, "text": "grüß dich"}
        ),
    ],
    ids=["query", "form", "json", "multipart", "any case"],
)
async def test_parameters_come_in_every_encoding(
    api: ScriptedBotApi, api_url: str, send: Callable[[httpx.AsyncClient, str], Awaitable[httpx.Response]]
):
    api.person(1).send("hi")
    async with open_http() as http:
        answer = await send(http, f"{api_url}/bot{api.token}/sendMessage")
    assert answer.json()["result"]["text"] == "grüß dich"


@pytest.mark.parametrize(
    ("content_type", "body", "description"),
    [
        ("application/json", b"{", "can't parse JSON object"),
        ("application/json", b"[]", "object expected as request body"),
        ("application/x-www-form-urlencoded", b"chat_id=1&text=%ff", "strings must be encoded in UTF-8"),
    ],
)
async def test_an_unreadable_body_is_refused(
    api: ScriptedBotApi, api_url: str, content_type: str, body: bytes, description: str
):
    api.person(1).send("hi")
    async with open_http() as http:
        answer = await http.post(
            f"{api_url}/bot{api.token}/sendMessage", content=body, headers={"Content-Type": content_type}
        )
    assert (answer.status_code, answer.json()["description"]) == (400, f"Bad Request: {description}")


async def test_a_flood_is_held_back_with_retry_after(api: ScriptedBotApi):
    api = build_api(FloodLimits(private=FloodRate(1, 1, 2)))
    async with api.serve_on_loopback() as url, open_bot(api, url) as bot:
        for user in (1, 2):
            api.person(user).send("hi")
        message = await bot.send_message(1, "one")
        await bot.edit_message_text("two", 1, message.message_id)
        with pytest.raises(RetryAfter, match="in 3 seconds"):
            await bot.edit_message_text("three", 1, message.message_id)
        await bot.send_message(2, "the other chat is not concerned")
        with pytest.raises(RetryAfter):
            await bot.send_message(1, "too early")
        api.clock.advance(6)
        await bot.send_message(1, "patient")
    assert [m.text for m in api.person(1).chat.bot_messages] == ["two", "patient"]


async def test_faults_strike_the_calls_they_are_meant_for(bot: Bot, api: ScriptedBotApi):
    for user in (1, 2):
        api.person(user).send("hi")
    flood = api.inject_fault(
        BotApiFault.flood(7), "sendMessage", chat_id=1, when=lambda call: "now" in call.text, skip=1
    )
    for chat_id, text in ((1, "later"), (2, "now"), (1, "now")):
        await bot.send_message(chat_id, text)
    with pytest.raises(RetryAfter, match="7"):
        await bot.send_message(1, "now")
    await bot.send_message(1, "now")
    assert flood.hit_count == 1
    always = api.inject_fault(BotApiFault.refuse("Bad Request: message thread not found"), times=None)
    for _ in range(3):
        assert await refusal_reason(bot.send_chat_action(1, "typing")) == "Message thread not found"
    always.lift()
    await bot.get_me()


@pytest.mark.parametrize("html", [True, False])
async def test_a_server_error_comes_as_page_or_as_json(bot: Bot, api: ScriptedBotApi, html: bool):
    api.person(1).send("hi")
    api.inject_fault(BotApiFault.server_error(502, html=html))
    with pytest.raises(NetworkError, match="Bad Gateway"):
        await bot.send_message(1, "x")
    assert api.person(1).chat.bot_messages == []
    assert api.calls[-1].status == 502


@pytest.mark.parametrize(
    ("fault", "message_count"), [(BotApiFault.drop(), 0), (BotApiFault.accept_then_drop(), 1)]
)
async def test_a_cut_connection_is_a_protocol_error_whether_or_not_it_took_effect(
    bot: Bot, api: ScriptedBotApi, fault: BotApiFault, message_count: int
):
    api.person(1).send("hi")
    await bot.get_me()  # the connection is a warm one
    api.inject_fault(fault, "sendMessage")
    with pytest.raises(NetworkError) as caught:
        await bot.send_message(1, "x")
    assert isinstance(caught.value.__cause__, httpx.RemoteProtocolError)
    assert len(api.person(1).chat.bot_messages) == message_count
    assert (api.calls[-1].outcome, api.calls[-1].answered_at) == ("cut", None)
    await bot.send_message(1, "y")


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_call_may_hang_before_or_after_it_took_effect(
    api: ScriptedBotApi, api_url: str, after_effect: bool
):
    api.person(1).send("hi")
    hang = api.inject_fault(BotApiFault.hang(after_effect=after_effect), "sendMessage")
    async with open_http() as http, asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(http.get(f"{api_url}/bot{api.token}/sendMessage?chat_id=1&text=x"))
        await api.wait_until(lambda: hang.hit_count)
        await http.get(f"{api_url}/bot{api.token}/getMe")
        assert not calling.done()
        assert [call.outcome for call in api.calls] == ["hung", "ok"]
        calling.cancel()
    assert len(api.person(1).chat.bot_messages) == after_effect


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_slow_answer_is_carried_out_early_or_late(bot: Bot, api: ScriptedBotApi, after_effect: bool):
    ann = api.person(1)
    ann.send("hi")
    api.inject_fault(BotApiFault.slow(0.05, after_effect=after_effect), "sendMessage")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bot.send_message(1, "x"))
        await api.wait_until(
            lambda: api.calls_of("sendMessage") and (ann.chat.bot_messages or not after_effect)
        )
        assert bool(ann.chat.bot_messages) == after_effect
        assert api.calls[-1].answered_at is None
    call = api.calls[-1]
    assert call.answered_at is not None
    assert call.answered_at - call.arrived_at >= 0.05
    assert len(ann.chat.bot_messages) == 1


async def test_telegram_can_be_far_away(bot: Bot, api: ScriptedBotApi):
    api.latency = 0.05
    await bot.get_me()
    await bot.get_me()
    first, second = api.calls
    assert first.answered_at is not None
    assert first.answered_at - first.arrived_at >= api.latency
    assert second.arrived_at >= first.answered_at


async def test_every_call_is_logged(bot: Bot, api: ScriptedBotApi):
    sent = api.person(1).send("hi")
    await fetch_updates(bot)
    await bot.send_message(1, "x")
    await refusal_reason(bot.send_message(9, "x"))
    await api.wait_until(lambda: api.calls[-1].answered_at)
    fetch, send, refused = api.calls
    assert (fetch.method, fetch.update_ids, fetch.outcome) == ("getUpdates", (sent.update_id,), "ok")
    assert (send.chat_id, send.text, send.status) == (1, "x", 200)
    assert (refused.outcome, refused.description) == ("refused", "Bad Request: chat not found")
    assert api.calls_of("sendMessage") == [send, refused]
    assert api.calls_of("sendMessage", 9) == [refused]
    assert fetch.answered_at is not None
    assert fetch.arrived_at < fetch.answered_at < send.arrived_at
    assert api.fetched_at(sent.update_id) == fetch.answered_at


async def test_a_listener_hears_what_changes_in_its_chat(bot: Bot, api: ScriptedBotApi):
    ann, ben = api.person(1), api.person(2)
    for person in (ann, ben):
        person.send("hi")
    with api.subscribe(1) as events:
        await bot.send_chat_action(1, "typing")
        await bot.send_message_draft(1, 3, "one")
        await bot.send_message(2, "elsewhere")
        message = await bot.send_message(1, "one")
        await bot.edit_message_text("two", 1, message.message_id)
        await bot.set_message_reaction(1, message.message_id, "👀")
        await bot.delete_message(1, message.message_id)
        received = []
        async for event in events:
            received.append(event)
            if event.kind == "deleted":
                break
    assert [event.kind for event in received] == [
        "typing",
        "draft",
        "message",
        "edited",
        "reaction",
        "deleted",
    ]
    assert received[3].data is not None
    assert (received[3].message_id, received[3].data["text"]) == (message.message_id, "two")


async def test_a_slow_listener_is_told_that_it_missed_something(api: ScriptedBotApi):
    with api.subscribe(size=2) as events:
        for text in "123":
            api.person(1).send(text)
        received = await anext(aiter(events))
    assert received.kind == "lost"


async def test_waiting_for_what_never_comes_ends(api: ScriptedBotApi):
    with pytest.raises(TimeoutError):
        await api.wait_until(lambda: False, timeout=0.01)


async def test_two_bots_share_nothing():
    first, second = ScriptedBotApi(), ScriptedBotApi()
    first.person(1).send("hi")
    assert second.updates.pending_ids == []
    with pytest.raises(KeyError):
        second.chat(1)
    assert first.chat(1).messages[0].text == "hi"


async def test_a_server_that_stops_hangs_up_on_open_calls(api: ScriptedBotApi):
    api.inject_fault(BotApiFault.hang(), "getMe")
    async with open_http() as http, asyncio.TaskGroup() as tasks, api.serve_on_loopback() as url:
        calls = [tasks.create_task(_failure(http, f"{url}/bot{api.token}/{name}")) for name in _OPEN_CALLS]
        await api.wait_until(lambda: api.updates.is_polled and api.calls_of("getMe"))
    assert [type(call.result()) for call in calls] == [httpx.RemoteProtocolError] * 2
    assert not api.updates.is_polled


_OPEN_CALLS = ("getMe", "getUpdates?timeout=50")


async def _failure(http: httpx.AsyncClient, url: str) -> httpx.HTTPError:
    with pytest.raises(httpx.HTTPError) as caught:
        await http.get(url)
    return caught.value
