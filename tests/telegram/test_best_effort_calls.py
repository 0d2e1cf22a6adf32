"""Small calls to Telegram: they arrive, or are lost without harm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from bot.domain import Button, Lane, Part
from bot.sim.telegram.server import BotApi, Limits
from bot.telegram.best_effort_calls import TRIES, Gestures
from bot.telegram.client import bot_for
from bot.telegram.commands import registry as commands

ANN = 7


@asynccontextmanager
async def telegram(patience: float = 5.0) -> AsyncIterator[tuple[BotApi, Gestures]]:
    api = BotApi(limits=Limits.none())
    async with api.served() as url, bot_for(api.token, url) as bot:
        api.person(ANN).send("hello")
        yield (
            api,
            Gestures(bot, members=commands.menu("member"), admins=commands.menu("admin"), patience=patience),
        )


async def asked(api: BotApi) -> int:
    """A message of the bot with a button; its id."""
    keyboard = {"inline_keyboard": [[{"text": "Drop", "callback_data": "drop:1"}]]}
    async with api.served() as url, httpx.AsyncClient() as client:
        body = {"chat_id": ANN, "text": "Stopped.", "reply_markup": keyboard}
        sent = await client.post(f"{url}/bot{api.token}/sendMessage", json=body)
    return int(sent.json()["result"]["message_id"])


async def test_a_tap_is_answered_and_its_message_redrawn():
    async with telegram() as (api, gestures):
        message = await asked(api)
        tap = api.person(ANN).tap(message, "Drop")
        await gestures.answer(tap.query_id, "Dropped. " + "x" * 300)
        await gestures.redraw(
            Lane(ANN), message, Part("Nothing waits.", buttons=((Button("More", "more:1"),),))
        )
        assert tap.answer is not None
        assert len(tap.answer["text"]) == 200
        (shown,) = api.chat(ANN).from_bot
        assert (shown.text, shown.buttons[0]["callback_data"]) == ("Nothing waits.", "more:1")


async def test_menus_are_set_for_everybody_and_for_each_admin():
    async with telegram() as (api, gestures):
        await gestures.menus([ANN])
        assert [one["command"] for one in api.commands][-3:] == ["invite", "people", "tools"]
        await gestures.member_menu(ANN)
        methods = [call.method for call in api.calls if call.method.endswith("MyCommands")]
        assert methods == ["setMyCommands", "setMyCommands", "deleteMyCommands"]


async def test_somebodys_message_is_taken_out_of_the_chat_and_one_that_is_not_there_is_said():
    async with telegram() as (api, gestures):
        message = api.person(ANN, "Ann").send("a secret").message_id
        assert await gestures.delete(Lane(ANN), message)
        assert [one.text for one in api.chat(ANN).deleted] == ["a secret"]
        gestures._patience = 0.01
        assert not await gestures.delete(Lane(ANN), message)
        assert len(api.calls_of("deleteMessage")) == 1 + TRIES


@pytest.mark.parametrize("query", ["1", ""])
async def test_an_answer_telegram_refuses_is_lost(query: str):
    async with telegram() as (api, gestures):
        await gestures.answer(query, "late")
        assert api.calls[-1].method == "answerCallbackQuery"


async def test_admins_are_told_what_is_wrong_without_the_database():
    async with telegram() as (api, gestures):
        await gestures.alarm([1, ANN], "The disk is full.")
        assert [message.text for message in api.chat(ANN).from_bot] == ["The disk is full."]


async def test_a_gesture_does_not_wait_for_a_slow_telegram():
    async with telegram(patience=0.05) as (api, gestures):
        api.latency = 30.0
        async with asyncio.timeout(20):
            await gestures.answer("1")
            await gestures.admin_menu(ANN)
