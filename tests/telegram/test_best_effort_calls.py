"""Small calls to Telegram: they arrive, or are lost without harm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from bot.chat.commands import registry
from bot.domain import Button, Lane, Part
from bot.sim.telegram.server import FloodLimits
from bot.telegram.best_effort_calls import MAX_DELETE_ATTEMPTS, BestEffortCalls
from bot.telegram.client import create_bot
from bot.translations.translator import defer, load_translator
from tests.support.telegram.server import ScriptedBotApi

ANN = 7


@asynccontextmanager
async def run_telegram(patience: float = 60.0) -> AsyncIterator[tuple[ScriptedBotApi, BestEffortCalls]]:
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    async with api.serve_on_loopback() as url, create_bot(api.token, url) as bot:
        api.person(ANN).send("hello")
        yield (
            api,
            BestEffortCalls(
                bot,
                registry.build_menu,
                registry.build_group_menu,
                lambda: [1, ANN],
                get_translator=lambda _: load_translator("de"),
                timeout_seconds=patience,
            ),
        )


async def send_with_button(api: ScriptedBotApi) -> int:
    """Send a message of the bot with a button; return its id."""
    keyboard = {"inline_keyboard": [[{"text": "Drop", "callback_data": "drop:1"}]]}
    async with api.serve_on_loopback() as url, httpx.AsyncClient(verify=False, timeout=60) as client:
        body = {"chat_id": ANN, "text": "Stopped.", "reply_markup": keyboard}
        sent = await client.post(f"{url}/bot{api.token}/sendMessage", json=body)
    return int(sent.json()["result"]["message_id"])


async def test_a_tap_is_answered_and_its_message_redrawn():
    async with run_telegram() as (api, client):
        message = await send_with_button(api)
        tap = api.person(ANN).tap(message, "Drop")
        await client.answer_callback_query(tap.query_id, "Dropped. " + "x" * 300)
        await client.edit_message(
            Lane(ANN), message, Part("Nothing waits.", buttons=((Button("More", "more:1"),),))
        )
        assert tap.answer is not None
        assert len(tap.answer["text"]) == 200
        (redrawn,) = api.chat(ANN).bot_messages
        assert (redrawn.text, redrawn.buttons[0]["callback_data"]) == ("Nothing waits.", "more:1")


async def test_menus_are_set_for_everybody_and_for_each_admin():
    async with run_telegram() as (api, client):
        await client.set_menus({ANN: "de"})
        assert [command["command"] for command in api.commands][-3:] == ["invite", "people", "tools"]
        await client.reset_menu(ANN)
        menu_calls = [call for call in api.calls if call.method.endswith("MyCommands")]
        assert [call.method for call in menu_calls] == ["setMyCommands"] * 15 + ["deleteMyCommands"]
        codes = [call.params.get("language_code") for call in menu_calls]
        assert codes == [
            *(code for code in (None, "de", "es", "fr", "pt", "ru", "zh") for _ in range(2)),
            None,
            None,
        ]
        group = api.add_group(-1001, "Team", owner=api.person(ANN, "Ann"))
        menu = api.list_menu(api.person(8, "Ben"), group.id)
        assert [command["command"] for command in menu] == ["new", "stop", "ask", "usage", "help"]


async def test_a_persons_message_is_deleted_and_a_missing_one_is_reported():
    async with run_telegram() as (api, client):
        message = api.person(ANN, "Ann").send("a secret").message_id
        assert await client.delete_message(Lane(ANN), message)
        assert [deleted.text for deleted in api.chat(ANN).deleted_messages] == ["a secret"]
        client._timeout_seconds = 10.0
        assert not await client.delete_message(Lane(ANN), message)
        assert len(api.calls_of("deleteMessage")) == 1 + MAX_DELETE_ATTEMPTS


@pytest.mark.parametrize("query", ["1", ""])
async def test_an_answer_telegram_refuses_is_lost(query: str):
    async with run_telegram() as (api, client):
        await client.answer_callback_query(query, "late")
        assert api.calls[-1].method == "answerCallbackQuery"


async def test_admins_are_alerted_without_the_database():
    async with run_telegram() as (api, client):
        await client.alert_admins(defer("New messages can be stored again."))
        [message] = api.chat(ANN).bot_messages
        assert message.text == "Neue Nachrichten können wieder gespeichert werden."


async def test_a_gesture_does_not_wait_for_a_slow_telegram():
    async with run_telegram(patience=0.05) as (api, client):
        api.latency = 30.0
        async with asyncio.timeout(60):
            await client.answer_callback_query("1")
            await client.set_menu(ANN, "en", is_admin=True)
