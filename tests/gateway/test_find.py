"""What people and the model look up reaches beyond /new, in one chat alone, once the chat was told."""

import json
from pathlib import Path

from sqlalchemy import update

from bot.db.engine import open_database
from bot.db.tables import lanes
from bot.sim.telegram.chats import ChatMessage
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway

BEN = 8
LOOK = '@@tool:look_back {"words": "plumber"}@@'


async def say(gateway: GatewayHarness, text: str, answer: str, chat: int = ADMIN) -> None:
    gateway.api.person(chat).send(f"{text} @@say:{answer}@@")
    await gateway.api.wait_until(lambda: answer in gateway.texts(chat) and gateway.is_finished(chat))


async def find(gateway: GatewayHarness, words: str, chat: int = ADMIN) -> ChatMessage:
    count = len(gateway.texts(chat))
    gateway.api.person(chat).send(f"/find {words}")
    await gateway.wait_for_texts(count + 1, chat=chat)
    return gateway.api.chat(chat).bot_messages[count]


def read_last_prompt(gateway: GatewayHarness) -> str:
    return json.dumps(gateway.endpoint.requests[-1].body["messages"])


async def test_what_was_said_before_new_is_found_by_people_and_by_the_model(tmp_path: Path):
    async with running_gateway(tmp_path, access="open") as gateway:
        await say(gateway, "The plumber is called Rossi.", "I see.")
        await say(gateway, "My plumber is called Weber.", "Good.", chat=BEN)
        for _ in range(3):
            count = len(gateway.texts())
            gateway.ann.send("/new")
            await gateway.wait_for_texts(count + 1)
        found = await find(gateway, "plumbers")
        assert "The plumber is called Rossi." in found.text
        assert "Weber" not in found.text
        gateway.ann.tap(found, "1")
        await gateway.api.wait_until(lambda: gateway.texts()[-1].startswith("🔎 "))
        exchange = gateway.texts()[-1]
        assert exchange.splitlines()[2].startswith("The plumber is called Rossi.")
        assert exchange.endswith("\n\nI see.")
        await say(gateway, LOOK, "Found.")
        assert "Rossi" in read_last_prompt(gateway)
        assert "Weber" not in read_last_prompt(gateway)
        assert (await find(gateway, "giraffe")).text == "I found nothing about “giraffe” in this chat."
        count = len(gateway.texts())
        gateway.ann.send("/find")
        assert (await gateway.wait_for_texts(count + 1))[-1].startswith("Tell me what to look for")


async def test_what_ended_before_an_update_is_found_once_the_chat_was_told_and_can_be_forgotten(
    tmp_path: Path,
):
    async with running_gateway(tmp_path) as gateway:
        await say(gateway, "The plumber is called Rossi.", "I see.")
        gateway.ann.send("/new")
        await gateway.wait_for_texts(2)
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(update(lanes).values(searchable_from=2))
        assert (await find(gateway, "plumber")).text.startswith("I found nothing")
        await say(gateway, LOOK, "Not yet.")
        assert "Rossi" not in read_last_prompt(gateway)
        await gateway.api.wait_until(lambda: gateway.texts()[-1].startswith("New: I can look up"))
        notice = gateway.api.chat(ADMIN).bot_messages[-1]
        assert "Rossi" in (await find(gateway, "plumber")).text
        await say(gateway, "Thanks.", "Welcome.")
        assert len([text for text in gateway.texts() if text.startswith("New: ")]) == 1, "once"
        gateway.ann.tap(notice, "Forget this chat…")
        await gateway.api.wait_until(lambda: gateway.texts()[-1].startswith("Forget this chat, with all"))
