"""Documents that people keep beyond /new: kept once, listed, deleted and forgotten for good."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select, update

from bot.agent.prompt import FILES_LABEL
from bot.db.conversations.kept_files import load_folder_sizes
from bot.db.engine import open_database
from bot.db.tables import attachments, kept_files
from bot.sim.telegram.chats import ChatMessage
from tests.support import attachment_files
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway
from tests.support.group_chat import open_group
from tests.support.telegram.server import ScriptedGroup, ScriptedPerson

KEEP_REFUSAL = "Only the person who sent it can do that."
DELETE_REFUSAL = "Only the person who sent it or a group administrator can delete this."
CONTRACT = attachment_files.make_pdf(["Parties: Rossi and Weber.", "Notice is three months canary."])
DAYS = 30


async def send_file(gateway: GatewayHarness, name: str, content: bytes, answer: str) -> ChatMessage:
    """Have Ann send a document, and wait for the whole answer to it."""
    gateway.ann.send_document(name, content=content, caption=f"Read it. @@say:{answer}@@")
    await gateway.api.wait_until(lambda: answer in gateway.texts() and gateway.is_finished())
    return gateway.api.chat(ADMIN).bot_messages[-1]


async def get_answer(gateway: GatewayHarness, text: str) -> ChatMessage:
    """What the bot says to something that Ann writes."""
    ann = gateway.ann
    count = len(gateway.texts())
    ann.send(text)
    await gateway.wait_for_texts(count + 1)
    return gateway.api.chat(ADMIN).bot_messages[count]  # more may follow


async def tap_keep(gateway: GatewayHarness, answer: ChatMessage) -> str:
    count = len(gateway.texts())
    gateway.ann.tap(answer, "Keep")
    return (await gateway.wait_for_texts(count + 1))[count]


def name_last_day(days: int) -> str:
    """The day until which something is kept that is kept now."""
    return f"{datetime.now(UTC) + timedelta(days=days):%-d %b %Y}"


async def test_a_document_is_kept_once_listed_and_deleted_for_good(tmp_path: Path):
    first_day = name_last_day(DAYS)
    async with running_gateway(tmp_path, keep_text_days=DAYS) as gateway:
        assert (await get_answer(gateway, "/files")).text.startswith("I don't keep any files here yet.")
        answer = await send_file(gateway, "con\x07tract\u202e.pdf", CONTRACT, "Read.")
        kept = await tap_keep(gateway, answer)
        until = kept.partition(", and")[0].removeprefix("Kept until ")
        assert until in {first_day, name_last_day(DAYS)}  # another day may have begun
        assert "“con tract .pdf”" in kept
        assert await tap_keep(gateway, answer) == kept, "said again, kept once"
        await tap_keep(gateway, await send_file(gateway, "other name.pdf", CONTRACT, "Read again."))
        listed = await get_answer(gateway, "/files")
        assert listed.text.splitlines() == [
            "Files in this chat (in all chats, yours take up 1 kB of 40 MB):",
            f"1. “con tract .pdf”, 2 pages, 1 kB, until {until}",
        ]
        damaged = await get_answer_to_damaged(gateway)
        assert (damaged.buttons, "it is damaged" in damaged.text) == ([], True)
        async with open_database(gateway.settings.database_url) as database:
            async with database.transaction() as tx:
                sizes = await tx.execute(select(attachments.c.size).order_by(attachments.c.id))
                assert sizes.scalars().all()[0] == 0, "it moved"
                await tx.execute(update(kept_files).values(size=40 << 20))
            large = await send_file(gateway, "large.txt", b"Some text.", "Large.")
            assert (await tap_keep(gateway, large)).startswith(
                "I can't keep that too: your kept files take up 40 MB"
            )
            gateway.ann.tap(listed, "Delete 1")
            await gateway.api.wait_until(lambda: "I don't keep any files here yet" in str(gateway.texts()))


async def get_answer_to_damaged(gateway: GatewayHarness) -> ChatMessage:
    count = len(gateway.texts())
    gateway.ann.send_document("broken.pdf", content=b"%PDF-1.4 broken", caption="")
    await gateway.wait_for_texts(count + 1)
    return gateway.api.chat(ADMIN).bot_messages[-1]


async def wait_for_folder(gateway: GatewayHarness) -> None:
    """Wait until the owner's folder was read."""
    async with asyncio.timeout(60), open_database(gateway.settings.database_url) as database:
        while True:
            async with database.read_transaction() as tx:
                if await load_folder_sizes(tx):
                    return
            await asyncio.sleep(0.05)


async def test_a_kept_file_is_found_after_new_and_named_with_its_page_until_it_is_forgotten(tmp_path: Path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "handbook.txt").write_text("Shoes stay at the door.")
    async with running_gateway(tmp_path, documents_dir=folder) as gateway:
        kept = await tap_keep(gateway, await send_file(gateway, "contract.pdf", CONTRACT, "Read."))
        assert kept.startswith("Kept without a time limit: “contract.pdf”.")
        await get_answer(gateway, "/new")
        await wait_for_folder(gateway)
        look = '@@tool:look_back {"words": "notice canary"}@@ @@say:Three months.@@'
        answer = await get_answer(gateway, f"How long is the notice? {look}")
        assert answer.text == "Three months.\n\nLooked up in: contract.pdf, p. 2"
        first, second = gateway.endpoint.requests[-2:]
        head = first.body["messages"][1]["content"]
        assert head == f'[data: {FILES_LABEL}]\n"contract.pdf", "handbook.txt"\n[end of data]'
        assert 'file "contract.pdf", page 2: Notice is three months' in str(second.body["messages"])
        found = await get_answer(gateway, "/find canary")
        assert ", contract.pdf, p. 2\nNotice is three months canary." in found.text
        assert ", handbook.txt\nShoes stay" in (await get_answer(gateway, "/find shoes")).text
        question = await get_answer(gateway, "/forget")
        gateway.ann.tap(question, "Forget it all")
        await gateway.api.wait_until(lambda: gateway.texts()[-1].startswith("Done. I kept only"))
    assert not [file.name for file in tmp_path.glob("gateway.db*") if b"canary" in file.read_bytes()]


async def test_in_a_group_only_the_sender_keeps_and_only_they_and_administrators_delete(tmp_path: Path):
    async with running_gateway(tmp_path, access="open") as gateway:
        team = open_group(gateway.api, gateway.ann, hears_everything=True)
        await team.wait_for_texts(1)
        caption = "@canvasgram_sim_bot read it @@say:Read.@@"
        team.ben.send_document("plan.txt", content=b"Launch in May.", caption=caption, thread=team.group)
        await team.wait_for_texts(2)
        answer = team.group.chat.bot_messages[-1]
        assert await tap(gateway, team.cleo, answer, "Keep", team.group) == KEEP_REFUSAL
        assert await tap(gateway, team.ben, answer, "Keep", team.group) == "Kept."
        await team.wait_for_texts(3)
        team.cleo.send("/files@canvasgram_sim_bot", thread=team.group)
        await team.wait_for_texts(4)
        listed = team.group.chat.bot_messages[-1]
        assert await tap(gateway, team.cleo, listed, "Delete 1", team.group) == DELETE_REFUSAL
        assert "“plan.txt”" in listed.text
        assert await tap(gateway, team.ann, listed, "Delete 1", team.group) == "“plan.txt” is deleted."


async def tap(
    gateway: GatewayHarness, person: ScriptedPerson, message: ChatMessage, button: str, group: ScriptedGroup
) -> str:
    """The toast of a tap on a button in a group."""
    tap = person.tap(message, button, thread=group)
    await gateway.api.wait_until(lambda: tap.answer)
    return str((tap.answer or {}).get("text"))
