"""Files that tools return: sent after the answer, once, whatever happens in between; bounds of a turn."""

import asyncio
import base64
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.attachments.outgoing_files import prepare_file
from bot.db.engine import Database
from bot.db.tables import outbox, outbox_files
from bot.sim.telegram.chats import ChatMessage
from bot.turns.file_allowance import MAX_TURN_FILES, FileAllowance, describe_size
from tests.support.attachment_files import make_image
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.sql_trace import trace_sql
from tests.support.turn_harness import ScriptedModel, TurnHarness, make_call, make_reply
from tools.base import File, Tool, tool

SENT = "sent to the person: notes.txt, 11 B"
MEGABYTE = 1 << 20

CHARTS = '''
import base64

from tools.base import File, Found, tool


@tool(repeatable=True)
async def chart() -> Found:
    """Draw the week."""
    png = base64.b64decode("{png}")
    return Found("Mostly sun.", files=(File("/etc/week.png", png, "The week"), File("week.csv", b"mon,1")))
'''


@tool
async def export() -> File:
    """Export the notes."""
    return File("/home/ann/notes.txt", b"Some notes.", "All of them \ud800")


def make_waiting_tool(has_begun: asyncio.Event) -> Tool:
    @tool
    async def wait() -> str:
        """Wait."""
        has_begun.set()
        await asyncio.Event().wait()
        return ""

    return wait


async def load_files(database: Database) -> list[tuple[str, int | None]]:
    """The name of each file, and the message that brings it."""
    query = select(outbox_files.c.name, outbox.c.part).outerjoin(outbox, outbox.c.id == outbox_files.c.outbox)
    async with database.read_transaction() as tx:
        return [(name, part) for name, part in await tx.execute(query.order_by(outbox_files.c.id))]


async def test_a_file_of_a_call_that_ended_before_a_crash_comes_once(database: Database):
    has_begun = asyncio.Event()
    harness = TurnHarness(database, ScriptedModel(), [export, make_waiting_tool(has_begun)])
    harness.model.script = [make_reply("", make_call("export", id="a"), make_call("wait", id="b"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        await has_begun.wait()
        while not await load_files(database):
            pass
        task.cancel()
        await asyncio.wait([task])
    assert await load_files(database) == [("notes.txt", None)]
    harness.model.script = [make_reply("Here.")]
    await harness.build_runner().run(await harness.restart("go"))
    first, _ = [message for message in harness.model.requests[-1].messages if message.role == "tool"]
    assert first.text == SENT
    assert await load_files(database) == [("notes.txt", 1000)]


@pytest.mark.sqlite
@pytest.mark.parametrize(("size", "thread_count"), [(11, 0), (MEGABYTE, 1)])
async def test_only_a_large_file_is_stored_in_a_thread(database: Database, size: int, thread_count: int):
    @tool
    async def dump() -> File:
        """Dump the notes."""
        return File("notes.bin", b"n" * size)

    harness = TurnHarness(database, ScriptedModel(), [dump])
    harness.model.script = [make_reply("", make_call("dump")), make_reply("Here.")]
    request = await harness.new_request("go")
    with trace_sql() as trace:
        await harness.build_runner().run(request)
    assert trace.thread_count == thread_count
    assert await load_files(database) == [("notes.bin", 1000)]


@tool
async def film() -> File:
    """Film it."""
    return File("film.mp4", bytes(51 * MEGABYTE))


async def test_a_file_of_51_mb_is_told_to_the_person_and_not_stored(database: Database):
    harness = TurnHarness(database, ScriptedModel(), [film])
    harness.model.script = [make_reply("", make_call("film")), make_reply("It is too large.")]
    await harness.build_runner().run(await harness.new_request("film it"))
    assert await harness.load_answers() == [
        "It is too large.",
        "I couldn't send film.mp4: it's 51 MB, and Telegram takes files up to 50 MB.",
    ]
    assert await harness.load_rows(outbox_files, "name", "data") == [("film.mp4", None)]


async def test_the_line_stays_in_the_history(database: Database):
    harness = TurnHarness(database, ScriptedModel(), [export])
    harness.model.script = [make_reply("", make_call("export")), make_reply("Here."), make_reply("Yes.")]
    await harness.build_runner().run(await harness.new_request("my notes"))
    await harness.build_runner().run(await harness.new_request("sure?"))
    for request in harness.model.requests[1:]:
        [result] = [message for message in request.messages if message.role == "tool"]
        assert result.text == SENT


async def test_a_long_code_block_goes_as_a_file_behind_the_files_of_tools(database: Database):
    harness = TurnHarness(database, ScriptedModel(), [export])
    code = "```py\n" + "pass\n" * 1000 + "```"
    harness.model.script = [make_reply("", make_call("export")), make_reply(f"Here:\n\n{code}")]
    await harness.build_runner().run(await harness.new_request("my notes, and code"))
    assert await load_files(database) == [("notes.txt", 1000), ("code.py", 1000)]
    text, _ = await harness.load_answers()
    assert text == f"Here:\n\n{code}"  # all of it is in the text, too


async def test_an_answer_that_is_not_whole_brings_no_code_as_a_file(database: Database):
    harness = TurnHarness(database, ScriptedModel(), max_steps=1)
    code = "```py\n" + "pass\n" * 1000
    harness.model.script = [make_reply(code, finish_reason="length")] * 3
    await harness.build_runner().run(await harness.new_request("code"))
    assert code in (await harness.load_answers())[0]
    assert await load_files(database) == []


@pytest.mark.parametrize(
    ("earlier", "file", "line"),
    [
        ([], File("a.txt", b"hello"), "sent to the person: a.txt, 5 B"),
        ([], File("../../etc/passwd", b"hello"), "sent to the person: passwd, 5 B"),
        ([], File("a.txt", b""), "not sent: a.txt, 0 B (it is empty)"),
        (
            [],
            File("a.bin", b"0" * (50 * MEGABYTE + 1)),
            "not sent: a.bin, 50 MB (too large for Telegram; the person is told)",
        ),
        (
            [b"0"] * MAX_TURN_FILES,
            File("a.txt", b"hello"),
            "not sent: a.txt, 5 B (an answer brings at most 10 files)",
        ),
        (
            [b"0" * (50 * MEGABYTE)] * 2,
            File("a.txt", b"hello"),
            "not sent: a.txt, 5 B (the files of an answer have at most 100 MB)",
        ),
    ],
)
def test_what_a_turn_may_send(earlier: list[bytes], file: File, line: str):
    allowance = FileAllowance()
    allowance.count_stored([prepare_file("old", data) for data in earlier])
    assert allowance.take([file])[1] == [line]


def test_a_tool_that_returns_very_many_files():
    files, lines = FileAllowance().take([File("a.txt", b"a")] * 5000)
    assert len(files) == MAX_TURN_FILES
    assert lines[10:] == ["not sent: 4990 more files"]


def test_data_that_are_no_bytes():
    with pytest.raises(TypeError, match=r"file 'a.txt' are not bytes"):
        File("a.txt", "text")  # type: ignore[arg-type]


async def test_files_of_a_tool_of_tools_dir(tmp_path: Path):
    folder = tmp_path / "tools"
    folder.mkdir(mode=0o700)
    (folder / "charts.py").write_text(CHARTS.format(png=base64.b64encode(make_image()).decode()))
    async with running_gateway(tmp_path, tools_dir=str(folder), thinking="off") as gateway:
        question = gateway.ann.send("@@tool:chart {}@@ @@say:Sunny.@@")
        answer, photo, document = await wait_for_answer(gateway, gateway.ann.id)
        assert answer.text == "Sunny."
        assert (photo.raw["caption"], document.raw["document"]["file_name"]) == ("The week", "week.csv")
        messages = gateway.endpoint.requests[-1].body["messages"]
        [result] = [message for message in messages if message["role"] == "tool"]
        assert [line.split(",")[0] for line in result["content"].splitlines()] == [
            "sent to the person: week.png",
            "sent to the person: week.csv",
            "Mostly sun.",
        ]
        gateway.ann.react(photo, "👎")
        await gateway.api.wait_until(lambda: answer.buttons)
        assert (photo.buttons, document.buttons) == ([], [])
        gateway.ann.edit(question, "@@say:Rainy.@@")
        await gateway.api.wait_until(lambda: "Rainy." in gateway.texts())
        assert gateway.texts()[0] == "Sunny."
        assert len(gateway.texts()) == 4
        gateway.ann.send("/retry")
        await gateway.api.wait_until(lambda: gateway.texts().count("Rainy.") == 2)


async def wait_for_answer(gateway: GatewayHarness, chat: int) -> list[ChatMessage]:
    """An answer with two files."""
    await gateway.api.wait_until(lambda: len(gateway.api.chat(chat).bot_messages) == 3)
    return gateway.api.chat(chat).bot_messages


def test_the_model_reads_sizes_in_one_way():
    assert [describe_size(size) for size in (1, 49_152, 5 << 20, 65_536_000)] == [
        "1 B",
        "48 KB",
        "5 MB",
        "62.5 MB",
    ]
