"""Keyboards, their buttons and taps on them in the simulated Bot API, through the real client."""

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup

from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import refusal_reason

pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use 'Bot:"),
    pytest.mark.filterwarnings("ignore:.*`retry_after` will be"),
]


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        ("{", "can't parse reply keyboard markup JSON object"),
        ([1], "object expected as reply markup"),
        ({"odd": 1}, "inline keyboard expected"),
        (
            {"inline_keyboard": [1]},
            'field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays',
        ),
        ({"inline_keyboard": [[{"text": "x", "pay": True}] * 101]}, "reply markup is too long"),
    ],
)
async def test_keyboards_are_judged(bot: Bot, api: ScriptedBotApi, markup: object, reason: str):
    assert await _markup_refusal(bot, api, markup) == f"Bad Request: {reason}"


@pytest.mark.parametrize(
    ("button", "reason"),
    [
        ("x", "can't parse inline keyboard button: expected an Object"),
        ({"text": " "}, 'can\'t parse inline keyboard button: Field "text" must be a non-empty String'),
        (
            {"text": "x"},
            "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
        ),
        ({"text": "x", "callback_data": "ü" * 33}, "BUTTON_DATA_INVALID"),
        ({"text": "x", "callback_data": ""}, "BUTTON_DATA_INVALID"),
        ({"text": "x", "copy_text": {"text": "x" * 257}}, "BUTTON_COPY_TEXT_INVALID"),
        (
            {"text": "x", "url": "http://a"},
            "inline keyboard button URL 'http://a' is invalid: Wrong HTTP URL",
        ),
    ],
)
async def test_buttons_are_judged(bot: Bot, api: ScriptedBotApi, button: object, reason: str):
    assert await _markup_refusal(bot, api, {"inline_keyboard": [[button]]}) == f"Bad Request: {reason}"


async def _markup_refusal(bot: Bot, api: ScriptedBotApi, markup: object) -> str:
    api.person(1).send("hi")
    arguments = {"chat_id": 1, "text": "x", "reply_markup": markup}
    await refusal_reason(bot.do_api_request("sendMessage", api_kwargs=arguments))
    return api.calls[-1].description


async def test_other_markup_is_taken_with_a_message_but_not_with_an_edit(bot: Bot, api: ScriptedBotApi):
    api.person(1).send("hi")
    arguments = {"chat_id": 1, "text": "x", "reply_markup": {"remove_keyboard": True}}
    sent = await bot.do_api_request("sendMessage", api_kwargs=arguments)
    assert "reply_markup" not in sent
    edit = {**arguments, "text": "y", "message_id": sent["message_id"]}
    assert (
        await refusal_reason(bot.do_api_request("editMessageText", api_kwargs=edit))
        == "Inline keyboard expected"
    )
    edit["reply_markup"] = {"inline_keyboard": [[{"text": "x", "copy_text": {"text": "x"}}]]}
    edited = await bot.do_api_request("editMessageText", api_kwargs=edit)
    assert edited["reply_markup"] == edit["reply_markup"]


async def test_a_tap_is_answered_once_it_is_known_and_not_too_old(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    ann.send("hi")
    keyboard = InlineKeyboardMarkup(
        [
            [
                InlineKeyboardButton("Go", callback_data="go"),
                InlineKeyboardButton("Web", url="https://example.com"),
            ]
        ]
    )
    await bot.send_message(1, "?", reply_markup=keyboard)
    bot_message = ann.chat.bot_messages[0]
    for button in ("Web", "Elsewhere"):
        with pytest.raises(LookupError):
            ann.tap(bot_message, button)
    tap = ann.tap(bot_message, "Go")
    assert not tap.answer
    assert "too_long" in await refusal_reason(bot.answer_callback_query(tap.query_id, "x" * 201))
    await bot.answer_callback_query(tap.query_id, "done")
    assert tap.answer == {"text": "done", "show_alert": False}
    stale = "Query is too old and response timeout expired or query id is invalid"
    assert await refusal_reason(bot.answer_callback_query("4711")) == stale
    api.clock.advance(151)
    assert await refusal_reason(bot.answer_callback_query(tap.query_id)) == stale
