"""What is to be forgotten is gone from every file, as bytes; what counts stays, and the chat goes on afresh."""

import asyncio
import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Table, func, select, update

from bot.db.engine import Database, connected
from bot.db.maintenance.backup import Shelf
from bot.db.queues import inbox as inbox_room
from bot.db.tables import (
    attachments,
    inbox,
    messages,
    metadata,
    model_calls,
    notes,
    outbox,
    tool_calls,
    turns,
)
from bot.domain import Lane
from bot.errors import JobFailed
from bot.maintenance.retention import DAY, FORGOTTEN, LOOK_AGAIN, Forgetting, Keeping, Retention
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import Endpoint, Timing
from tests.support.gateway import ADMIN, World, long_story, open_house, world

CANARY = "zanzibar-canary"
WAITING = "zanzibar-canary in line"

pytestmark = pytest.mark.timeout(120)


async def talk(house: World) -> None:
    """A word of the person's that gets everywhere: messages, a file and its name, tools and results, notes,
    answers.
    """
    house.ann.send(f"Is {CANARY} there? @@say:Yes, {CANARY}.@@")
    await house.api.until(lambda: any(CANARY in text for text in house.texts()))
    house.ann.send(
        f'@@tool:remember {{"note": "{CANARY} likes tea"}}@@'
        f'@@tool:calculate {{"expression": "{CANARY}"}}@@@@tool:{CANARY} {{}}@@@@say:Kept.@@'
    )
    await house.api.until(lambda: "Kept." in house.texts())
    house.ann.send_document(f"{CANARY}.txt", caption="@@say:Read.@@", content=f"All about {CANARY}.".encode())
    await house.api.until(lambda: "Read." in house.texts())
    house.ann.send(f"/deep {CANARY}")
    house.ann.send("/notes")
    await house.api.until(lambda: any("likes tea" in text for text in house.texts()))


def traces(folder: Path) -> list[str]:
    """The files below this folder that hold the canary, as it is or as Telegram's JSON would write it."""
    return [
        str(file) for file in folder.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()
    ]


async def count(house: World, table: Table) -> int:
    async with connected(house.settings.database_url) as database, database.reading() as tx:
        return int((await tx.execute(select(func.count()).select_from(table))).scalar_one())


async def asked(house: World) -> ChatMessage:
    """Say /forget; the question."""
    house.ann.send("/forget")
    await house.api.until(lambda: questions(house))
    return questions(house)[-1]


def questions(house: World) -> list[ChatMessage]:
    return [
        one
        for one in house.api.chat(ADMIN).from_bot
        if "Keep it" in [button["text"] for button in one.buttons]
    ]


async def forget(house: World) -> str:
    """Say /forget and mean it; what the question said."""
    question = await asked(house)
    text = question.text
    house.ann.tap(question, "Forget it all")
    await house.api.until(lambda: FORGOTTEN in house.texts(), 30)
    return text


async def test_forget_leaves_no_byte_of_a_text_in_any_file_and_every_figure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG, "bot")
    async with open_house(tmp_path) as house:
        await talk(house)
        house.ann.send(f'/tools try calculate {{"expression": "{CANARY}"}}')
        await house.api.until(
            lambda: any("calculate" in text and "error after" in text for text in house.texts())
        )
        house.ann.send(f"/remind in 2 hours {CANARY}")
        await house.api.until(lambda: any("I remind you" in text for text in house.texts()))
        assert traces(tmp_path)
        before = {table.name: await count(house, table) for table in (turns, model_calls, tool_calls)}
        question = await forget(house)
        assert traces(tmp_path) == []
        assert "There is no copy of my database" in question
        assert {table.name: await count(house, table) for table in (turns, model_calls, tool_calls)} == before
        for table in (messages, attachments, notes):
            assert await count(house, table) == 0
        house.ann.send("@@say:Afresh.@@")
        await house.api.until(lambda: "Afresh." in house.texts())
        assert CANARY not in house.endpoint.requests[-1].prompt
        assert any(CANARY in text for text in house.texts())  # what stands at Telegram stays there
    assert traces(tmp_path) == []
    assert CANARY not in caplog.text


async def test_what_runs_is_stopped_and_what_waits_is_dropped(tmp_path: Path):
    async with open_house(tmp_path, Endpoint(timing=Timing(canvas_seconds=0.25), seats=1)) as house:
        house.ann.send(long_story().replace("word0 ", f"{CANARY} "))
        await house.answered()
        for _ in range(2):
            house.ann.send(WAITING)
        await forget(house)
        await house.endpoint.until(lambda: house.endpoint.running == 0)
        assert len(house.endpoint.requests) == 1
        assert house.endpoint.requests[0].cancelled
        assert traces(tmp_path) == []
        house.ann.send("@@say:Afresh.@@")
        await house.api.until(lambda: "Afresh." in house.texts())
    async with connected(house.settings.database_url) as database, database.reading() as tx:
        states = set((await tx.execute(select(inbox.c.state).distinct())).scalars())
        assert states == {"done"}


async def test_keeping_it_keeps_everything_and_a_second_tap_forgets_once(tmp_path: Path):
    async with open_house(tmp_path) as house:
        await talk(house)
        copy = tmp_path / "house.db.before-0002.bak"
        copy.touch()
        os.utime(copy, (1_795_000_000,) * 2)
        first = await asked(house)
        assert "A copy of my database holds all that until 18 December 2026" in first.text
        copy.unlink()
        house.ann.tap(first, "Keep it")
        await house.api.until(lambda: "I keep this chat as it is." in house.texts())
        assert await count(house, notes) == 1
        house.endpoint.hold()
        house.ann.send("hello")
        await house.endpoint.until(lambda: house.endpoint.running == 1)
        question = await asked(house)
        house.ann.tap(question, "Forget it all")
        house.ann.tap(question, "Forget it all")
        house.endpoint.release()
        await house.api.until(lambda: FORGOTTEN in house.texts(), 30)
        house.ann.send("@@say:Afresh.@@")
        await house.api.until(lambda: "Afresh." in house.texts())
        assert house.texts().count(FORGOTTEN) == 1
        assert traces(tmp_path) == []


async def test_other_chats_keep_what_is_theirs(tmp_path: Path):
    async with open_house(tmp_path, access="open") as house:
        bob = house.api.person(8, "Bob")
        bob.send(f"Is {CANARY} there? @@say:Not here.@@")
        await house.answered(chat=8)
        house.ann.send("@@say:Hello.@@")
        await house.answered()
        await forget(house)
        assert traces(tmp_path)
        assert await count(house, messages) == 2


async def test_texts_older_than_the_settings_say_are_forgotten_at_start_and_younger_ones_kept(tmp_path: Path):
    async with world(tmp_path, keep_text_days="30") as house:
        async with house.gateway():
            await talk(house)
        await age(house, 31)
        copy = tmp_path / "house.db.before-0002.bak"
        copy.write_bytes(CANARY.encode())
        os.utime(copy, (time.time() - 31 * DAY,) * 2)
        async with house.gateway():
            house.ann.send("@@say:Still here.@@")
            await house.api.until(lambda: "Still here." in house.texts())
        assert traces(tmp_path) == []
        assert not copy.exists()
        assert await count(house, messages) == 2


async def age(house: World, days: int) -> None:
    """All that is stored happened so many days earlier."""
    async with connected(house.settings.database_url) as database, database.transaction() as tx:
        for table in metadata.sorted_tables:
            times = [one for one in table.columns if one.name.endswith("_at") or one.name == "next_due"]
            if times:
                await tx.execute(update(table).values({one.name: one - days * DAY for one in times}))


async def test_forgetting_waits_for_what_may_still_write_a_text_down(database: Database):
    woken: list[Lane] = []
    async with database.transaction() as tx:
        summing = {"job": "summary", "lane": "7"}
        await inbox_room.add(tx, kind="house", lane=None, sender=None, body=summing, now=1.0)
        body = {"job": "forget", "person": 7, "asked_at": 2.0, "tell": False}
        await inbox_room.add(tx, kind="house", lane=Lane(7), sender=None, body=body, now=2.0)
        (summary,), items = (await inbox_room.claim(tx, now=3.0)).groups
    async with asyncio.TaskGroup() as tasks:
        forgetting = tasks.create_task(Forgetting(database, woken.append)(items))
        await asyncio.wait([forgetting], timeout=3 * LOOK_AGAIN)
        assert not forgetting.done()
        async with database.transaction() as tx:
            await inbox_room.done(tx, [summary.id], now=4.0)
    assert woken == [Lane(7)]
    async with database.reading() as tx:
        assert (await tx.execute(select(outbox))).all() == []


async def test_a_copy_is_named_with_the_day_it_goes(tmp_path: Path):
    file = tmp_path / "house.db"
    assert Keeping(file, None).copies_until() is None
    assert (Keeping(file, None).is_needed, Keeping(file, 7).is_needed) == (False, True)
    copy = tmp_path / "house.db.before-0001.bak"
    copy.touch()
    os.utime(copy, (1_000_000, 1_000_000))
    assert Keeping(file, None).is_needed
    assert Keeping(file, None).copies_until() == 1_000_000 + 30 * DAY
    assert Keeping(file, 7).copies_until() == 1_000_000 + 7 * DAY
    assert Keeping(file, 90).copies_until() == 1_000_000 + 30 * DAY


async def test_a_backup_is_a_copy_and_goes_with_the_copies(database: Database, tmp_path: Path):
    file, shelf = tmp_path / "house.db", Shelf(tmp_path / "house.db", tmp_path / "backups", keep=9)
    shelf.folder.mkdir()
    assert Keeping(file, None, shelf).is_needed
    assert Keeping(file, None, shelf).copies_until() is None
    for day in (1, 20):
        (shelf.folder / f"house-202611{day:02}T033000Z.db").touch()
    made = datetime(2026, 11, 20, 3, 30, tzinfo=UTC).timestamp()
    keeping = Keeping(file, None, shelf)
    assert keeping.copies_until() == made + 30 * DAY
    await Retention(database, keeping, lambda: made + 15 * DAY)()
    assert [one.name for one in shelf.backups()] == ["house-20261120T033000Z.db"]
    (shelf.folder / "house-20261101T033000Z.db").mkdir()  # what cannot be deleted is said
    with pytest.raises(JobFailed, match="cannot be deleted"):
        await Retention(database, keeping, lambda: made + 15 * DAY)()
