"""Deleted texts are gone from every file, as bytes; figures stay, and the chat starts afresh."""

import asyncio
import logging
import os
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, Table, func, select, update

from bot.db.engine import Database, open_database
from bot.db.maintenance.backup import BackupDirectory
from bot.db.queues import inbox as inbox_rows
from bot.db.queues import jobs
from bot.db.queues.system_jobs import record_end
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
from bot.db.tables import jobs as job_rows
from bot.domain import DAY_SECONDS, Lane
from bot.errors import JobFailed
from bot.maintenance.retention import (
    FORGOTTEN_TEXT,
    POLL_SECONDS,
    ForgetChatRunner,
    RetentionPolicy,
    RetentionTask,
)
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import Timing
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN, GatewayHarness, long_story, open_harness, running_gateway

CANARY = "zanzibar-canary"
FAR_RULE = "DTSTART:20260105T033000\nRRULE:FREQ=DAILY"
WAITING_TEXT = "zanzibar-canary in line"


async def send_canary_everywhere(gateway: GatewayHarness) -> None:
    """Send a word that gets everywhere: messages, a file and its name, tools and results, notes, answers."""
    gateway.ann.send(f"Is {CANARY} there? @@say:Yes, {CANARY}.@@")
    await gateway.api.wait_until(lambda: any(CANARY in text for text in gateway.texts()))
    gateway.ann.send(
        f'@@tool:remember {{"note": "{CANARY} likes tea"}}@@'
        f'@@tool:calculate {{"expression": "{CANARY}"}}@@@@tool:{CANARY} {{}}@@@@say:Kept.@@'
    )
    await gateway.api.wait_until(lambda: "Kept." in gateway.texts())
    gateway.ann.send_document(
        f"{CANARY}.txt", caption="@@say:Read.@@", content=f"All about {CANARY}.".encode()
    )
    await gateway.api.wait_until(lambda: "Read." in gateway.texts())
    gateway.ann.send(f"/deep {CANARY}")
    gateway.ann.send("/notes")
    await gateway.api.wait_until(lambda: any("likes tea" in text for text in gateway.texts()))


def find_traces(folder: Path) -> list[str]:
    """Return the files below this folder that hold the canary, plain or as Telegram's JSON writes it."""
    return [
        str(file) for file in folder.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()
    ]


async def count_rows(gateway: GatewayHarness, table: Table) -> int:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return int((await tx.execute(select(func.count()).select_from(table))).scalar_one())


async def ask_forget(gateway: GatewayHarness) -> ChatMessage:
    """Send /forget; return the question."""
    gateway.ann.send("/forget")
    await gateway.api.wait_until(lambda: list_questions(gateway))
    return list_questions(gateway)[-1]


def list_questions(gateway: GatewayHarness) -> list[ChatMessage]:
    return [
        message
        for message in gateway.api.chat(ADMIN).bot_messages
        if "Keep it" in [button["text"] for button in message.buttons]
    ]


async def forget_all(gateway: GatewayHarness) -> str:
    """Send /forget and confirm it; return the text of the question."""
    question = await ask_forget(gateway)
    text = question.text
    gateway.ann.tap(question, "Forget it all")
    await gateway.api.wait_until(lambda: FORGOTTEN_TEXT in gateway.texts())
    return text


@pytest.mark.sqlite
async def test_forget_leaves_no_byte_of_a_text_in_any_file_and_every_figure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG, "bot")
    async with running_gateway(tmp_path) as gateway:
        await send_canary_everywhere(gateway)
        gateway.ann.send(f'/tools try calculate {{"expression": "{CANARY}"}}')
        await gateway.api.wait_until(
            lambda: any("calculate" in text and "error after" in text for text in gateway.texts())
        )
        gateway.ann.send(f"/remind in 2 hours {CANARY}")
        await gateway.api.wait_until(lambda: any("I'll remind you" in text for text in gateway.texts()))
        assert find_traces(tmp_path)
        before = {table.name: await count_rows(gateway, table) for table in (turns, model_calls, tool_calls)}
        question = await forget_all(gateway)
        assert find_traces(tmp_path) == []
        assert "I don't have backups of this" in question
        assert {
            table.name: await count_rows(gateway, table) for table in (turns, model_calls, tool_calls)
        } == before
        for table in (messages, attachments, notes):
            assert await count_rows(gateway, table) == 0
        gateway.ann.send("@@say:Afresh.@@")
        await gateway.api.wait_until(lambda: "Afresh." in gateway.texts())
        assert CANARY not in gateway.endpoint.requests[-1].prompt
        assert any(CANARY in text for text in gateway.texts())  # messages at Telegram stay there
    assert find_traces(tmp_path) == []
    assert CANARY not in caplog.text


async def test_a_running_turn_is_stopped_and_waiting_messages_are_dropped(tmp_path: Path):
    async with running_gateway(
        tmp_path, ScriptedEndpoint(timing=Timing(canvas_seconds=0.25), seats=1)
    ) as gateway:
        gateway.ann.send(long_story().replace("word0 ", f"{CANARY} "))
        await gateway.wait_for_first_block()
        for _ in range(2):
            gateway.ann.send(WAITING_TEXT)
        await forget_all(gateway)
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)
        assert len(gateway.endpoint.requests) == 1
        assert gateway.endpoint.requests[0].cancelled
        assert find_traces(tmp_path) == []
        gateway.endpoint.release()
        gateway.ann.send("@@say:Afresh.@@")
        await gateway.api.wait_until(lambda: "Afresh." in gateway.texts())
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        states = set((await tx.execute(select(inbox.c.state).distinct())).scalars())
        assert states == {"done"}


@pytest.mark.sqlite
async def test_keeping_it_keeps_everything_and_a_second_tap_forgets_once(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        await send_canary_everywhere(gateway)
        copy = tmp_path / "gateway.db.before-0002.bak"
        copy.touch()
        os.utime(copy, (1_795_000_000,) * 2)
        first = await ask_forget(gateway)
        assert "My backups still hold all that until 18 Dec 2026" in first.text
        copy.unlink()
        gateway.ann.tap(first, "Keep it")
        await gateway.api.wait_until(lambda: "I'll keep this chat as it is." in gateway.texts())
        assert await count_rows(gateway, notes) == 1
        gateway.endpoint.hold()
        gateway.ann.send("hello")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        question = await ask_forget(gateway)
        gateway.ann.tap(question, "Forget it all")
        gateway.ann.tap(question, "Forget it all")
        gateway.endpoint.release()
        await gateway.api.wait_until(lambda: FORGOTTEN_TEXT in gateway.texts())
        gateway.ann.send("@@say:Afresh.@@")
        await gateway.api.wait_until(lambda: "Afresh." in gateway.texts())
        assert gateway.texts().count(FORGOTTEN_TEXT) == 1
        assert find_traces(tmp_path) == []


@pytest.mark.sqlite
async def test_other_chats_keep_their_texts(tmp_path: Path):
    async with running_gateway(tmp_path, access="open") as gateway:
        bob = gateway.api.person(8, "Bob")
        bob.send(f"Is {CANARY} there? @@say:Not here.@@")
        await gateway.wait_for_texts(chat=8)
        gateway.ann.send("@@say:Hello.@@")
        await gateway.wait_for_texts()
        await forget_all(gateway)
        assert find_traces(tmp_path)
        assert await count_rows(gateway, messages) == 2


@pytest.mark.sqlite
async def test_texts_older_than_the_setting_are_deleted_at_start_and_younger_ones_kept(tmp_path: Path):
    async with open_harness(tmp_path, keep_text_days="30") as gateway:
        async with gateway.run():
            await send_canary_everywhere(gateway)
            # A gateway writes its jobs down when it has run for two seconds.
            await wait_for_row(gateway, select(job_rows.c.id).where(job_rows.c.name == "retention"))
        await make_older(gateway, 31)
        copy = tmp_path / "gateway.db.before-0002.bak"
        copy.write_bytes(CANARY.encode())
        os.utime(copy, (time.time() - 31 * DAY_SECONDS,) * 2)
        await store_moment(gateway, time.time() - 2.5 * DAY_SECONDS)  # no leap of the clock
        async with gateway.run():
            gateway.ann.send("@@say:Still here.@@")
            await gateway.api.wait_until(lambda: "Still here." in gateway.texts())
            is_retention = (inbox.c.kind == "system") & inbox.c.body.contains("retention")
            await wait_for_row(gateway, select(inbox.c.id).where(is_retention, inbox.c.state == "done"))
        assert find_traces(tmp_path) == []
        assert not copy.exists()
        assert await count_rows(gateway, messages) == 2


async def store_moment(gateway: GatewayHarness, moment: float) -> None:
    """Store that something was received then."""
    async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
        item = await inbox_rows.add(
            tx, kind="system", lane=None, sender=None, body={"job": "sums"}, now=moment
        )
        await inbox_rows.mark_done(tx, [item], now=moment)


@pytest.mark.sqlite
async def test_after_a_leap_of_the_clock_a_start_deletes_nothing_and_tells_admins(tmp_path: Path):
    async with open_harness(tmp_path, keep_text_days="30") as gateway:
        async with gateway.run():
            gateway.ann.send("@@say:Hello.@@")
            await gateway.wait_for_texts()
            await wait_for_row(gateway, select(job_rows.c.id).where(job_rows.c.name == "retention"))
        await make_older(gateway, 400)
        copy = tmp_path / "gateway.db.before-0002.bak"
        copy.touch()
        os.utime(copy, (time.time() - 400 * DAY_SECONDS,) * 2)
        async with gateway.run():
            await gateway.api.wait_until(
                lambda: any("nothing was stored for 400 days" in text for text in gateway.texts())
            )
        assert copy.exists()
        assert await count_rows(gateway, messages) == 2


async def test_deleting_waits_for_two_nights_after_a_leap_and_then_tells_what_it_took(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "bot")
    leap = 1_795_000_000.0
    folder = tmp_path / "backups"
    folder.mkdir()
    for day in (1, 2):
        (folder / f"gateway-2026090{day}T033000Z.db").touch()
    policy = RetentionPolicy(tmp_path / "gateway.db", 30, BackupDirectory(tmp_path / "gateway.db", folder, 9))
    async with database.transaction() as tx:
        body = {"job": "sums"}
        for moment in (leap - 40 * DAY_SECONDS, leap, leap + DAY_SECONDS, leap + 99 * DAY_SECONDS):
            item = await inbox_rows.add(tx, kind="system", lane=None, sender=None, body=body, now=moment)
            await inbox_rows.mark_done(tx, [item], now=moment)
    for night in (0, 1):
        with pytest.raises(JobFailed, match="nothing was stored for 40 days"):
            await RetentionTask(database, policy, partial(float, leap + night * DAY_SECONDS))()
    assert len(list(folder.iterdir())) == 2
    await RetentionTask(database, policy, lambda: leap + 2 * DAY_SECONDS + 1)()
    assert [file.name for file in folder.iterdir()] == ["gateway-20260902T033000Z.db"]
    assert "deleted what was too old: texts in 1 rows, 1 backups and copies" in caplog.text


async def test_deleting_waits_for_the_backup_and_one_night_if_that_failed(database: Database, tmp_path: Path):
    now = 1_795_000_000.0
    backup_directory = BackupDirectory(tmp_path / "gateway.db", tmp_path, 9)
    retention_task = RetentionTask(
        database, RetentionPolicy(tmp_path / "gateway.db", None, backup_directory), lambda: now
    )
    copies = [tmp_path / f"gateway.db.before-000{number}.bak" for number in (1, 2)]
    for number, copy in enumerate(copies):
        copy.touch()
        os.utime(copy, (now - 40 * DAY_SECONDS + number,) * 2)
    async with database.transaction() as tx:
        new = jobs.NewJob("system", now - 1, "UTC", FAR_RULE, text="a backup", name="backup")
        await jobs.put_system_job(tx, new, now=now)
    async with asyncio.TaskGroup() as tasks:
        retention_run = tasks.create_task(retention_task())
        await asyncio.wait([retention_run], timeout=3 * POLL_SECONDS)
        assert not retention_run.done()
        async with database.transaction() as tx:
            await tx.execute(update(job_rows).values(next_due=now + DAY_SECONDS))
    assert [copy.exists() for copy in copies] == [False, True]  # there is no backup, so the newest copy stays
    copies[0].touch()
    os.utime(copies[0], (now - 41 * DAY_SECONDS,) * 2)
    async with database.transaction() as tx:
        await record_end(tx, "backup", failed=True, now=now)
    with pytest.raises(JobFailed, match="a night later"):
        await retention_task()
    assert copies[0].exists()
    async with database.transaction() as tx:
        await record_end(tx, "backup", failed=True, now=now)
    await retention_task()
    assert [copy.exists() for copy in copies] == [False, True]


async def wait_for_row(gateway: GatewayHarness, query: Select[Any]) -> None:
    """Wait until the query finds a row."""
    async with open_database(gateway.settings.database_url) as database, asyncio.timeout(100):
        row = None
        while row is None:
            await asyncio.sleep(0.05)  # no event says so
            async with database.read_transaction() as tx:
                row = (await tx.execute(query)).first()


async def make_older(gateway: GatewayHarness, days: int) -> None:
    """Move everything that is stored so many days back."""
    async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
        for table in metadata.sorted_tables:
            times = [
                column for column in table.columns if column.name.endswith("_at") or column.name == "next_due"
            ]
            if times:
                earlier = {column.name: column - days * DAY_SECONDS for column in times}
                await tx.execute(update(table).values(earlier))


async def test_forgetting_waits_for_work_that_may_still_store_a_text(database: Database):
    async with database.transaction() as tx:
        summary_body = {"job": "summary", "lane": "7"}
        await inbox_rows.add(tx, kind="system", lane=None, sender=None, body=summary_body, now=1.0)
        body = {"job": "forget", "asked_at": 2.0, "tell": False}
        await inbox_rows.add(tx, kind="system", lane=Lane(7), sender=None, body=body, now=2.0)
        (summary,), items = (await inbox_rows.claim(tx, now=3.0)).groups
    async with asyncio.TaskGroup() as tasks:
        forgetting = tasks.create_task(ForgetChatRunner(database)(items))
        await asyncio.wait([forgetting], timeout=3 * POLL_SECONDS)
        assert not forgetting.done()
        async with database.transaction() as tx:
            await inbox_rows.mark_done(tx, [summary.id], now=4.0)
    async with database.read_transaction() as tx:
        assert (await tx.execute(select(outbox))).all() == []


async def test_a_job_can_be_restored_until_the_next_night_even_where_texts_are_kept_forever(
    database: Database, tmp_path: Path
):
    async with database.transaction() as tx:
        new = jobs.NewJob("reminder", 2e9, "UTC", text=CANARY, person=7, lane=Lane(7))
        deleted, kept = [await jobs.add(tx, new, now=1.0) for _ in range(2)]
        await jobs.mark_deleted(tx, deleted)
    await RetentionTask(database, RetentionPolicy(tmp_path / "gateway.db", None))()
    async with database.read_transaction() as tx:
        assert [await jobs.find(tx, job) is not None for job in (deleted, kept)] == [False, True]


async def test_the_newest_copy_has_a_day_when_it_is_deleted(tmp_path: Path):
    file = tmp_path / "gateway.db"
    assert RetentionPolicy(file, None).find_copies_expiry() is None
    copy = tmp_path / "gateway.db.before-0001.bak"
    copy.touch()
    os.utime(copy, (1_000_000, 1_000_000))
    assert RetentionPolicy(file, None).find_copies_expiry() == 1_000_000 + 30 * DAY_SECONDS
    assert RetentionPolicy(file, 7).find_copies_expiry() == 1_000_000 + 7 * DAY_SECONDS
    assert RetentionPolicy(file, 90).find_copies_expiry() == 1_000_000 + 30 * DAY_SECONDS


async def test_a_backup_is_a_copy_and_expires_once_there_is_a_newer_one(database: Database, tmp_path: Path):
    file = tmp_path / "gateway.db"
    backup_directory = BackupDirectory(file, tmp_path / "backups", max_backups=9)
    backup_directory.folder.mkdir()
    assert RetentionPolicy(file, None, backup_directory).find_copies_expiry() is None
    for day in (1, 20):
        (backup_directory.folder / f"gateway-202611{day:02}T033000Z.db").touch()
    made_at = datetime(2026, 11, 20, 3, 30, tzinfo=UTC).timestamp()
    policy = RetentionPolicy(file, None, backup_directory)
    assert policy.find_copies_expiry() == made_at + 30 * DAY_SECONDS
    await RetentionTask(database, policy, lambda: made_at + 99 * DAY_SECONDS)()
    assert [file.name for file in backup_directory.list_backups()] == ["gateway-20261120T033000Z.db"]
    (backup_directory.folder / "gateway-20261101T033000Z.db").mkdir()  # no file
    with pytest.raises(JobFailed, match="cannot be deleted"):
        await RetentionTask(database, policy, lambda: made_at + 15 * DAY_SECONDS)()
