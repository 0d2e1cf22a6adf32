"""A group that became a supergroup is known by its own number, and so are its messages, before and after."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.db.people.groups import OTHER_MESSAGES
from bot.domain import Lane, Part
from bot.http_server import serve
from bot.sim.telegram.server import FloodLimits
from bot.telegram.chat_numbers import ChatNumbers
from bot.telegram.client import TelegramBot, TelegramClient, create_bot
from bot.telegram.outcomes import DeliveryOutcome, DeliveryRefusal, DeliverySuccess
from tests.support.group_chat import GroupHarness, open_group
from tests.support.telegram.server import ScriptedBotApi

GROUP = -500
SUPERGROUP = -1000000000500
LANE = Lane(GROUP)


@pytest.fixture
def numbers() -> ChatNumbers:
    numbers = ChatNumbers()
    numbers.note(GROUP, SUPERGROUP)
    return numbers


def build_message(chat: int, message_id: int, **fields: Any) -> dict[str, Any]:
    return {"message_id": message_id, "chat": {"id": chat, "type": "supergroup"}, **fields}


def test_what_telegram_says_of_the_supergroup_is_read_as_of_the_group(numbers: ChatNumbers):
    replied = build_message(SUPERGROUP, 3)
    sender = {"id": SUPERGROUP, "type": "supergroup"}
    raw: dict[str, Any] = {
        "update_id": 1,
        "message": build_message(SUPERGROUP, 7, reply_to_message=replied, sender_chat=sender),
    }
    read = numbers.read(raw)
    message = read["message"]
    assert (message["chat"]["id"], message["message_id"]) == (GROUP, OTHER_MESSAGES + 7)
    assert message["reply_to_message"]["message_id"] == OTHER_MESSAGES + 3
    assert message["sender_chat"]["id"] == GROUP
    assert raw["message"]["message_id"] == 7
    assert numbers.read(read) == read


@pytest.mark.parametrize(
    "raw",
    [
        {"message": build_message(GROUP, 7)},
        {"message": build_message(-1000000000501, 7)},
        {"message": {"message_id": 7, "chat": {"id": 5, "type": "private"}, "from": {"id": SUPERGROUP}}},
        {"message": {"message_id": 7, "chat": {"id": "x", "type": "supergroup"}}},
        {"message": {"message_id": 7, "chat": None}},
        [True, None, "x", 5],
    ],
)
def test_everything_else_is_read_as_it_is(numbers: ChatNumbers, raw: Any):
    assert numbers.read(raw) == raw


def test_a_group_that_an_earlier_version_moved_keeps_the_number_of_the_supergroup():
    numbers = ChatNumbers()
    numbers.note(SUPERGROUP, GROUP)
    assert numbers.write({"chat_id": SUPERGROUP, "text": "x"}) == {"chat_id": SUPERGROUP, "text": "x"}
    assert numbers.write({"chat_id": SUPERGROUP, "message_id": 7}) == {"chat_id": SUPERGROUP, "message_id": 7}
    tapped = numbers.read({"message": build_message(GROUP, 7)})["message"]
    assert tapped["chat"]["id"] == SUPERGROUP
    of_before = {"chat_id": SUPERGROUP, "message_id": tapped["message_id"]}
    assert numbers.write(of_before) == {"chat_id": GROUP, "message_id": 7}


def test_calls_about_other_chats_are_written_as_they_are(numbers: ChatNumbers):
    for parameters in ({}, {"chat_id": 5, "message_id": 7}, {"chat_id": SUPERGROUP, "message_id": 7}):
        assert numbers.write(parameters) == parameters


@pytest.fixture
async def bot() -> AsyncIterator[tuple[TelegramBot, ScriptedBotApi]]:
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    async with serve(api.app) as url, create_bot(api.token, url) as bot:
        yield bot, api


def find_id(outcome: DeliveryOutcome) -> int:
    assert isinstance(outcome, DeliverySuccess)
    assert outcome.message_id is not None
    return outcome.message_id


def is_refused(outcome: DeliveryOutcome) -> bool:
    return isinstance(outcome, DeliveryRefusal) and outcome.kind == "migrated"


async def test_each_message_is_edited_where_it_was_sent(bot: tuple[TelegramBot, ScriptedBotApi]):
    telegram, api = bot
    team: GroupHarness = open_group(api, api.person(7), chat=GROUP, is_basic=True)
    client = TelegramClient(telegram)
    old = find_id(await client.send_message(LANE, Part("one")))
    asked = team.ann.send("/ask@canvasgram_sim_bot one", thread=team.group).message_id
    supergroup = team.group.migrate(SUPERGROUP)
    assert is_refused(await client.send_message(LANE, Part("two")))
    telegram.chat_numbers.note(GROUP, SUPERGROUP)
    for _ in range(old):  # until the supergroup has a message with the number of the old one
        new = find_id(await client.send_message(LANE, Part("two"), reply_to=asked))
    assert new > OTHER_MESSAGES > old
    assert is_refused(await client.edit_message(LANE, old, Part("one, edited")))
    assert is_refused(await client.delete_message(LANE, old))
    assert isinstance(await client.edit_message(LANE, new, Part("two, edited")), DeliverySuccess)
    question = team.ann.send("/ask@canvasgram_sim_bot two", thread=supergroup).message_id
    await client.send_message(LANE, Part("three"), reply_to=OTHER_MESSAGES + question)
    *_, edited, answer = supergroup.chat.bot_messages
    assert edited.text == "two, edited"
    assert "reply_to_message" not in edited.raw
    assert answer.raw["reply_to_message"]["message_id"] == question
    assert isinstance(await client.delete_message(LANE, new), DeliverySuccess)
    assert isinstance(await client.show_action(LANE, "typing"), DeliverySuccess)
