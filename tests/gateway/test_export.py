"""/export: what stood in a chat, as files; of a group for its moderators, of a topic its own conversation."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bot.cli.export import export_chat
from bot.db.engine import open_database
from bot.db.tables import messages, model_calls, tool_calls
from tests.gateway.test_kept_files import CONTRACT, get_answer, send_file, tap_keep
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway
from tests.support.group_chat import open_group, turn_on_reading

CALCULATE = '@@tool:calculate {"expression": "6*7"}@@'


def read_documents(gateway: GatewayHarness, chat: int) -> dict[str, str]:
    """The texts of the documents that the bot has sent to a chat, by name; the newest of each name."""
    documents = [
        message.raw["document"]
        for message in gateway.api.chat(chat).bot_messages
        if "document" in message.raw
    ]
    contents = {document["file_name"]: gateway.api.find_file(document["file_id"]) for document in documents}
    return {name: content.decode() for name, content in contents.items() if content is not None}


async def wait_for_export(gateway: GatewayHarness, chat: int = ADMIN, count: int = 2) -> tuple[Any, str]:
    """The newest export of a chat, as JSON and as Markdown, once so many files are there."""
    await gateway.api.wait_until(
        lambda: sum("document" in message.raw for message in gateway.api.chat(chat).bot_messages) >= count
    )
    documents = read_documents(gateway, chat)
    as_json = [text for name, text in documents.items() if name.endswith(".json")][-1]
    markdown = [text for name, text in documents.items() if name.endswith(".md")][-1]
    return json.loads(as_json), markdown


async def test_a_private_chat_is_exported_as_it_is_stored_without_what_an_edit_or_forget_took(tmp_path: Path):
    async with running_gateway(tmp_path, time_zone="Europe/Berlin") as gateway:
        nothing = "There's nothing to export: I don't keep anything from this chat."
        assert (await get_answer(gateway, "/export")).text == nothing
        kept = await send_file(gateway, "con\x07tract.pdf", CONTRACT, "Read.")
        answer = await get_answer(gateway, f"# What is\n```\n6*7? {CALCULATE} @@say:It is 42.@@")
        wrong = gateway.ann.send("wrong @@say:Wrong.@@")
        await gateway.api.wait_until(lambda: "Wrong." in gateway.texts() and gateway.is_finished())
        gateway.ann.edit(wrong, "right @@say:Right.@@")
        await gateway.api.wait_until(lambda: "Right." in gateway.texts() and gateway.is_finished())
        assert (
            await get_answer(gateway, "/export")
        ).text == "I'm exporting this chat. You'll get it here as files."
        exported, markdown = await wait_for_export(gateway)
        await assert_equals_stored(gateway, exported)
        assert "It is 42." in markdown
        assert answer.text == "It is 42."
        assert "wrong" not in markdown
        assert "canary" not in markdown
        await tap_keep(gateway, kept)
        question = await get_answer(gateway, "/export")
        assert question.text == "Do you also want the file I keep here?"
        gateway.ann.tap(question, "With files")
        exported, markdown = await wait_for_export(gateway, count=4)
        assert exported["entries"][-1]["file"] == "con tract.pdf"
        assert "> Notice is three months canary." in markdown
        paths = await export_chat(gateway.settings, str(ADMIN), tmp_path, with_files=True, now=0.0)
        assert [path.name for path in paths] == ["chat-1970-01-01-1.md", "chat-1970-01-01-1.json"]
        assert json.loads(paths[1].read_text())["entries"] == exported["entries"]
        gateway.ann.tap(await get_answer(gateway, "/forget"), "Forget it all")
        await gateway.api.wait_until(lambda: gateway.texts()[-1].startswith("Done. I kept only"))
        assert (await get_answer(gateway, "/export")).text == nothing
    assert not [file.name for file in tmp_path.glob("gateway.db*") if b"canary" in file.read_bytes()]


async def assert_equals_stored(gateway: GatewayHarness, exported: dict[str, Any]) -> None:
    assert exported | {"entries": [], "made_at": ""} == {
        "format": 1,
        "chat": ADMIN,
        "made_at": "",
        "part": 1,
        "entries": [],
    }
    entries = exported["entries"]
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        said = (await tx.execute(select(messages).where(messages.c.role == "assistant"))).all()
        ran = (await tx.execute(select(tool_calls))).all()
        calls = (await tx.execute(select(model_calls).order_by(model_calls.c.id))).all()
    turns = {entry["turn"] for entry in entries}
    shown = [message for entry in entries for message in entry["messages"] if message["role"] == "assistant"]
    stored = [row for row in said if row.text and row.turn in turns]
    assert [message["text"] for message in shown] == [row.text for row in stored]
    times = [datetime.fromisoformat(message["made_at"]).timestamp() for message in shown]
    assert times == pytest.approx([row.made_at for row in stored], abs=0.002)
    [tool] = [tool for entry in entries for tool in entry["tools"]]
    assert (tool["name"], tool["arguments"], tool["result"]) == (ran[0].name, ran[0].arguments, ran[0].result)
    assert tool["began_at"].endswith(("+01:00", "+02:00"))
    tokens = [call["prompt_tokens"] for entry in entries for call in entry["usage"]]
    assert tokens == [call.prompt_tokens for call in calls if call.turn in turns]
    [first, *_] = entries
    assert first["messages"][0]["attachments"] == [{"kind": "document", "name": "con tract.pdf"}]


async def test_of_a_group_moderators_have_what_stood_in_it_and_of_a_topic_its_own(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", thinking="off") as gateway:
        team = open_group(gateway.api, gateway.ann, is_forum=True, hears_everything=True)
        await team.wait_for_texts(1)
        plans = team.ann.create_topic("Plans", thread=team.group)
        await turn_on_reading(gateway, "Team")
        await team.wait_for_texts(2)
        team.ben.send("I won't come, canary", thread=team.group)
        for thread, answer in ((team.group, "At nine."), (plans, "In May.")):
            count = len(team.texts(thread))
            team.ben.send(f"@canvasgram_sim_bot when? {CALCULATE} @@say:{answer}@@", thread=thread)
            await team.wait_for_texts(count + 1, thread)
            await gateway.api.wait_until(lambda: answer in team.texts(thread))  # noqa: B023
        count = len(team.texts(plans))
        team.cleo.send("/export@canvasgram_sim_bot", thread=plans)
        refusal = (await team.wait_for_texts(count + 1, plans))[-1]
        assert refusal == "Only administrators of this group can export it."
        team.ann.send("/export@canvasgram_sim_bot", thread=plans)
        topic, _ = await wait_for_export(gateway, team.group.chat.id)
        team.ann.send("/export@canvasgram_sim_bot", thread=team.group)
        whole, markdown = await wait_for_export(gateway, team.group.chat.id, count=4)
    assert [entry["topic"] for entry in topic["entries"]] == [plans.thread_id]
    said = [[message["text"] for message in entry["messages"]] for entry in whole["entries"]]
    asked = f"Ben: when? {CALCULATE} @@say:"
    assert said == [[f"{asked}At nine.@@", "At nine."], [f"{asked}In May.@@", "In May."]]
    assert {key for entry in whole["entries"] for key in entry} == {
        "turn",
        "topic",
        "conversation",
        "messages",
        "sources",
    }
    assert "canary" not in markdown + json.dumps(whole)
