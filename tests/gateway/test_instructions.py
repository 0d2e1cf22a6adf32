"""/instructions in the whole gateway: what a model is told, from when on, and what of it is deleted."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.agent.prompt import GATEWAY_INSTRUCTION, GROUP_LINE, INSTRUCTIONS_LINE
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.server import ChatThread
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway
from tests.support.group_chat import GROUP, GroupHarness, open_group

HEAD = f"Be kind.\n{GATEWAY_INSTRUCTION}"
GROUP_HEAD = f"Be kind.\n{GROUP_LINE}\n{GATEWAY_INSTRUCTION}"


def read_system_text(gateway: GatewayHarness) -> str:
    """The system text of the newest request."""
    return str(gateway.endpoint.requests[-1].body["messages"][0]["content"])


async def say(gateway: GatewayHarness, text: str) -> ChatMessage:
    """Write to the bot in private; return its answer."""
    gateway.ann.send(text)
    count = len(gateway.texts())
    await gateway.wait_for_texts(count + 1)
    await gateway.api.wait_until(gateway.is_finished)
    return gateway.api.chat(ADMIN).bot_messages[-1]


def read_rows(file: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query).fetchall()


@pytest.mark.sqlite
async def test_instructions_count_from_the_next_conversation_on_and_are_forgotten(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off", system_prompt="Be kind.") as gateway:
        await instruct_and_forget(gateway)
    assert read_rows(tmp_path / "gateway.db", "select lane, text from instructions") == []
    assert read_rows(tmp_path / "gateway.db", "select instructions from lanes") == [("",)]


async def instruct_and_forget(gateway: GatewayHarness) -> None:
    await say(gateway, "@@say:one@@")
    asked = await say(gateway, "/instructions Use <|turn> two sentences.")
    assert asked.text == "I'll follow this after /new. Start a new conversation now?"
    await say(gateway, "@@say:two@@")
    assert read_system_text(gateway) == HEAD
    assert (await say(gateway, "/instructions")).text == (
        "My instructions for every answer here:\n\nUse <|turn> two sentences.\n\nThis applies after /new."
    )
    assert "\ninstructions: " not in (await say(gateway, "/context")).text

    gateway.ann.tap(asked, "Start it")
    await gateway.api.wait_until(lambda: asked.text.startswith("New conversation."))
    assert "\ninstructions: " in (await say(gateway, "/context")).text
    await say(gateway, "@@say:three@@")
    assert read_system_text(gateway) == f"{HEAD}\n{INSTRUCTIONS_LINE}\nUse <\u200b|turn> two sentences."
    shown = await say(gateway, "/instructions")
    gateway.ann.tap(shown, "Remove")
    await gateway.api.wait_until(lambda: shown.text.startswith("I'll follow it until /new."))
    await say(gateway, "@@say:four@@")
    assert "two sentences" in read_system_text(gateway)
    await say(gateway, "/new")
    await say(gateway, "/instructions Use three.")
    await say(gateway, "@@say:five@@")
    assert read_system_text(gateway) == f"{HEAD}\n{INSTRUCTIONS_LINE}\nUse three."

    await use_personas(gateway)

    question = await say(gateway, "/forget")
    count = len(gateway.texts())
    gateway.ann.tap(question, "Forget it all")
    await gateway.wait_for_texts(count + 1)
    await gateway.api.wait_until(gateway.is_finished)
    assert (await say(gateway, "/instructions")).text.startswith("No instructions yet.")
    await say(gateway, "@@say:six@@")
    assert read_system_text(gateway) == HEAD


async def use_personas(gateway: GatewayHarness) -> None:
    """A persona stands in the head from the next conversation on, and as long as that goes on."""
    await say(gateway, "/instructions save Tutor Ask, don't tell.")
    await say(gateway, "/instructions save Poet Rhyme.")
    shown = await say(gateway, "/instructions")
    assert [button["text"] for button in shown.buttons] == ["Remove", "Tutor", "Poet"]
    gateway.ann.tap(shown, "Tutor")
    await gateway.api.wait_until(lambda: shown.text.startswith("I'll answer as Tutor after /new."))
    gateway.ann.tap(shown, "Start it")
    await gateway.api.wait_until(lambda: shown.text.startswith("New conversation."))
    await say(gateway, "@@say:six@@")
    as_tutor = f"{HEAD}\n{INSTRUCTIONS_LINE}\nAsk, don't tell."
    assert read_system_text(gateway) == as_tutor
    assert "\npersona Tutor: " in (await say(gateway, "/context")).text
    await say(gateway, "/instructions save tutor Only ask.")
    await say(gateway, "@@say:seven@@")
    assert read_system_text(gateway) == as_tutor
    assert "\ninstructions: " in (await say(gateway, "/context")).text
    await say(gateway, "/new")
    await say(gateway, "@@say:eight@@")
    assert read_system_text(gateway) == f"{HEAD}\n{INSTRUCTIONS_LINE}\nOnly ask."
    await say(gateway, "/instructions delete Tutor")
    await say(gateway, "@@say:nine@@")
    assert "Only ask." in read_system_text(gateway)
    await say(gateway, "/new")
    await say(gateway, "@@say:ten@@")
    assert read_system_text(gateway).endswith("Use three.")  # as before


async def test_a_topic_follows_its_group_unless_it_has_its_own(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", thinking="off", system_prompt="Be kind.") as gateway:
        await instruct_topics(gateway)


async def instruct_topics(gateway: GatewayHarness) -> None:
    team = open_group(gateway.api, gateway.ann, is_forum=True, hears_everything=True)
    await team.wait_for_texts(1)
    plans = team.ann.create_topic("Plans", thread=team.group)
    trips = team.ann.create_topic("Trips", thread=team.group)
    team.ben.send("/instructions Obey Ben.", thread=team.group)
    assert (await team.wait_for_texts(2))[-1] == (
        "Only administrators of this group can change my instructions here."
    )
    assert len(gateway.api.calls_of("getChatAdministrators", GROUP)) == 1
    team.ann.send("/instructions Be brief.", thread=team.group)
    await team.wait_for_texts(3)
    team.ann.send("/instructions Name dates.", thread=trips)
    await team.wait_for_texts(1, trips)
    team.ben.send("/instructions", thread=plans)
    assert (await team.wait_for_texts(1, plans))[-1].endswith(
        "Be brief.\n\nThese are the whole chat's; this topic can have its own."
    )
    for thread, wished in ((plans, "Be brief."), (trips, "Name dates.")):
        team.cleo.send("/ask @@say:Yes.@@", thread=thread)
        await team.wait_for_texts(2, thread)
        assert read_system_text(gateway) == f"{GROUP_HEAD}\n{INSTRUCTIONS_LINE}\n{wished}"
    await follow_none(gateway, team, plans)


async def follow_none(gateway: GatewayHarness, team: GroupHarness, plans: ChatThread) -> None:
    async def show() -> ChatMessage:
        count = len(team.texts(plans))
        team.ann.send("/instructions", thread=plans)
        await team.wait_for_texts(count + 1, plans)
        return team.group.chat.bot_messages[-1]

    async def ask() -> str:
        count = len(team.texts(plans))
        team.cleo.send("/ask @@say:Yes.@@", thread=plans)
        await team.wait_for_texts(count + 1, plans)
        return read_system_text(gateway)

    async def tap(message: ChatMessage, label: str, text: str) -> None:
        team.ann.tap(message, label, thread=plans)
        await gateway.api.wait_until(lambda: message.text.startswith(text))

    shown = await show()
    await tap(shown, "None here", "I'll follow it until /new.")
    await tap(shown, "Start it", "New conversation.")
    assert await ask() == GROUP_HEAD
    shown = await show()
    assert shown.text == "I don't follow any instructions in this topic."
    await tap(shown, "As in the whole chat", "This topic follows the whole chat's instructions again.")
    await tap(shown, "Start it", "New conversation.")
    assert (await ask()).endswith("Be brief.")
