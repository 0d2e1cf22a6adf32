"""A restored backup does nothing again that was done since it was made, and keeps what was promised since."""

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from bot.db import lock
from bot.db import migrate as migrating
from bot.db.engine import Database, open_database, parse_database_path
from bot.db.maintenance.backup import BackupDirectory
from bot.db.people import people
from bot.db.queues import inbox as inbox_room
from bot.db.queues import outbox
from bot.db.tables import inbox, jobs, messages
from bot.db.tables import outbox as outbox_table
from bot.domain import Lane, Part
from bot.errors import GatewayRunning, RestoreRefused, SchemaUnknown
from bot.maintenance.restore import RestoreReport, restore_backup
from bot.maintenance.retention import FORGOTTEN_TEXT
from tests.db.test_migrate import downgrade
from tests.gateway.test_approval_waits import ring_prompt, tap_buttons, wait_for_message, wait_for_question
from tests.support import breakdown_clock as books
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.gateway import ADMIN, GatewayHarness, open_harness

BOB = 8
NOW = 1_795_000_000.0


def open_backup_directory(gateway: GatewayHarness, tmp_path: Path) -> BackupDirectory:
    return BackupDirectory(
        parse_database_path(gateway.settings.database_url), tmp_path / "backups", max_backups=3
    )


async def restore_into(
    gateway: GatewayHarness, backup: Path, *, answer_waiting: bool = False
) -> RestoreReport:
    return await restore_backup(
        gateway.settings.database_url, backup, answer_waiting=answer_waiting, now=time.time()
    )


async def send_and_wait(gateway: GatewayHarness, text: str, chat: int = ADMIN) -> None:
    gateway.api.person(chat, "Ann" if chat == ADMIN else "Bob").send(f"@@say:{text}@@")
    await gateway.api.wait_until(lambda: text in gateway.texts(chat))


def query_rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(parse_database_path(url))) as connection:
        return connection.execute(query).fetchall()


def query_ids(file: Path, query: str) -> set[int]:
    return {row[0] for row in query_rows(f"sqlite:///{file}", query)}


async def test_nothing_that_was_said_since_the_backup_arrives_twice(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as house:
        async with house.run():
            await send_and_wait(house, "one")
            await send_and_wait(house, "to Bob", BOB)
            backup = await open_backup_directory(house, tmp_path).make_backup(now=time.time())
            await send_and_wait(house, "two")
            house.ann.send("@@say:three@@")
            await house.api.wait_until(lambda: "three" in house.texts())
            house.ann.send("/people")
            await house.wait_for_texts(4)
            said = house.texts()
            requests = len(house.endpoint.requests)
        made = await restore_into(house, backup)
        assert made.settled.dropped == 0
        assert made.replaced_file is not None
        assert stat.S_IMODE(parse_database_path(house.settings.database_url).stat().st_mode) == 0o600
        async with house.run():
            await send_and_wait(house, "after", BOB)
            await send_and_wait(house, "four")
            assert house.texts() == [*said, "four"]
            assert house.texts(BOB) == ["to Bob", "after"]
            assert len(house.endpoint.requests) == requests + 2
            assert "two" not in house.endpoint.requests[-1].prompt  # what was said since is gone
            assert "one" in house.endpoint.requests[-1].prompt
    assert query_rows(house.settings.database_url, "PRAGMA integrity_check") == [("ok",)]
    check_ids_continue(backup, made.replaced_file, parse_database_path(house.settings.database_url))


def check_ids_continue(backup: Path, replaced: Path, restored: Path) -> None:
    """No number is given twice, and what Telegram may hand over again is known."""
    for table in ("inbox", "outbox"):
        then, since, now = (query_ids(one, f"SELECT id FROM {table}") for one in (backup, replaced, restored))
        assert since > then
        assert now & since == then
    then, since, now = (query_ids(one, "SELECT update_id FROM inbox") for one in (backup, replaced, restored))
    assert now > since > then


@pytest.mark.parametrize("waiting", [False, True])
async def test_what_ran_and_waited_in_the_backup_is_answered_again_only_if_that_is_said(
    tmp_path: Path, waiting: bool
):
    async with open_harness(tmp_path) as house:
        async with house.run():
            house.endpoint.hold()
            house.ann.send("@@say:one@@")
            await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
            house.ann.send("@@say:two@@")
            url = house.settings.database_url
            await house.api.wait_until(
                lambda: query_rows(url, "SELECT 1 FROM inbox WHERE update_id = 2 OR state = 'new'")
            )
            backup = await open_backup_directory(house, tmp_path).make_backup(now=time.time())
            house.endpoint.release()
            await house.api.wait_until(lambda: house.texts() == ["one", "two"])
        made = await restore_into(house, backup, answer_waiting=waiting)
        assert made.settled.dropped == (0 if waiting else 2)
        async with house.run():
            if waiting:
                await house.api.wait_until(lambda: house.texts() == ["one", "two", "one", "two"])
            await send_and_wait(house, "three")
        assert house.texts() == ["one", "two", *(["one", "two"] if waiting else []), "three"]
    assert query_rows(url, "SELECT 1 FROM inbox WHERE state <> 'done'") == []
    assert query_rows(url, "SELECT 1 FROM turns WHERE state = 'running'") == []
    assert query_rows(url, "SELECT 1 FROM model_calls WHERE outcome IS NULL") == []


async def test_who_was_shut_out_stays_out_and_what_was_forgotten_is_forgotten_again(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as house:
        async with house.run():
            await send_and_wait(house, "a canary")
            await send_and_wait(house, "hello", BOB)
            async with open_database(house.settings.database_url) as database, database.transaction() as tx:
                await tx.execute(
                    insert(jobs).values(person=BOB, kind="reminder", text="old", made_at=1.0, next_due=2e9)
                )
            backup = await open_backup_directory(house, tmp_path).make_backup(now=time.time())
            house.ann.send("/forget")
            await house.api.wait_until(lambda: house.api.chat(ADMIN).bot_messages[-1].buttons)
            house.ann.tap(house.api.chat(ADMIN).bot_messages[-1], "Forget it all")
            await house.api.wait_until(lambda: FORGOTTEN_TEXT in house.texts(), 30)
        url = house.settings.database_url
        async with open_database(url) as database, database.transaction() as tx:
            await people.put(tx, BOB, "Bob", "blocked", now=time.time())
            await tx.execute(delete(jobs).where(jobs.c.text == "old"))
            await tx.execute(
                insert(jobs).values(person=BOB, kind="reminder", text="new", made_at=1.0, next_due=2e9)
            )
        made = await restore_into(house, backup)
        assert made.changes_since is not None
        assert len(made.changes_since.forget_items) == 1
        assert query_rows(url, f"SELECT role FROM people WHERE id = {BOB}") == [("blocked",)]
        assert query_rows(url, "SELECT text FROM jobs WHERE person IS NOT NULL") == [
            ("new",)
        ]  # not the one deleted since
        assert query_rows(url, "SELECT count(*) FROM messages") == [(4,)]
        async with house.run():
            house.api.person(BOB, "Bob").send("@@say:let me in@@")
            await send_and_wait(house, "afresh")
        assert house.texts(BOB) == ["hello"]
        assert house.texts().count(FORGOTTEN_TEXT) == 1
        assert b"a canary" not in parse_database_path(url).read_bytes()
        assert query_rows(url, "SELECT count(*) FROM messages") == [(4,)]  # Bob's, and the new ones


async def test_a_backup_of_another_house_brings_its_own_people(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as house:
        async with house.run():
            await send_and_wait(house, "hello", BOB)
            backup = await open_backup_directory(house, tmp_path).make_backup(now=time.time())
        file = parse_database_path(house.settings.database_url)
        file.unlink()
        async with house.run():  # the disk was lost, and somebody started without it
            await send_and_wait(house, "who are you?")
        made = await restore_into(house, backup)
        assert made.changes_since is not None
        assert made.changes_since.rows_by_table is None
        assert query_rows(house.settings.database_url, f"SELECT id FROM people WHERE id = {BOB}") == [(BOB,)]


async def test_every_row_in_doubt_is_settled_and_no_due_time_is_met_again(
    database: Database, database_url: str
):
    async with database.transaction() as tx:
        for number, state in enumerate(("new", "sending", "open", "done", "failed", "unknown")):
            [row] = await outbox.add(tx, item=number + 1, lane=Lane(7), parts=(Part("x"),), now=NOW - 9)
            await tx.execute(update(outbox_table).where(outbox_table.c.id == row).values(state=state))
        await inbox_room.add(tx, kind="house", lane=None, sender=None, body={"job": "backup"}, now=NOW - 9)
        forget = {"job": "forget", "person": 7, "asked_at": NOW - 9, "tell": True}
        await inbox_room.add(tx, kind="house", lane=Lane(7), sender=None, body=forget, now=NOW - 9)
        made = {"kind": "reminder", "text": "stretch", "made_at": NOW - 99}
        daily = "DTSTART:20261101T080000\nRRULE:FREQ=DAILY"
        await tx.execute(
            insert(jobs),
            [
                {**made, "next_due": NOW - 5, "rule": daily, "state": "active"},
                {**made, "next_due": NOW - 5, "rule": None, "state": "active"},
                {**made, "next_due": NOW + 5, "rule": None, "state": "active"},
                {**made, "next_due": NOW - 5, "rule": None, "state": "paused"},
            ],
        )
    backup = await BackupDirectory(
        parse_database_path(database_url), parse_database_path(database_url).parent / "backups", 1
    ).make_backup(now=NOW - 1)
    made_of = await restore_backup(database_url, backup, answer_waiting=False, now=NOW)
    assert (made_of.made_at, made_of.settled.unknown, made_of.settled.dropped) == (NOW - 1, 2, 1)
    assert made_of.skipped_due_times == 2
    assert [row[0] for row in query_rows(database_url, "SELECT state FROM outbox ORDER BY id")] == [
        *("unknown", "unknown", "done", "done", "failed", "unknown")
    ]
    assert query_rows(database_url, "SELECT state, kind FROM inbox ORDER BY id") == [
        ("done", "house"),
        ("new", "house"),
    ]
    due = query_rows(database_url, "SELECT state, next_due FROM jobs ORDER BY id")
    assert due[0][0] == "active"
    assert due[0][1] > NOW
    assert due[1:] == [("done", None), ("active", NOW + 5), ("paused", NOW - 5)]


async def test_what_is_no_sound_backup_is_refused_and_the_database_stays(database_url: str, tmp_path: Path):
    file = parse_database_path(database_url)
    before = file.read_bytes()
    (tmp_path / "text").write_text("no database at all" * 100)
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE t (x)")
    newer = tmp_path / "newer"
    newer.write_bytes(before)
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for backup, refusal, why in (
        (tmp_path / "missing", RestoreRefused, "No such file"),
        (tmp_path / "text", RestoreRefused, "is not sound"),
        (tmp_path / "other", RestoreRefused, "no database of Canvasgram"),
        (file, RestoreRefused, "the database itself"),
        (newer, SchemaUnknown, "Use the newer version"),
    ):
        with pytest.raises(refusal, match=why):
            await restore_backup(database_url, backup, answer_waiting=False, now=NOW)
    with lock.hold_lock(file), pytest.raises(GatewayRunning):
        await restore_backup(database_url, newer, answer_waiting=False, now=NOW)
    sound = tmp_path / "sound"
    sound.write_bytes(before)
    Path(f"{file}.restoring-wal").write_bytes(b"left by one that was killed")
    (tmp_path / f"{file.name}.before-restore-20261118T110640.000000Z.bak").touch()
    with pytest.raises(RestoreRefused, match="cannot be replaced: File exists"):
        await restore_backup(database_url, sound, answer_waiting=False, now=NOW)
    assert file.read_bytes() == before
    assert not list(tmp_path.glob("*.restoring*"))


async def test_in_the_place_of_a_ruin_or_of_nothing_a_backup_stands_whole(
    database: Database, database_url: str, tmp_path: Path
):
    async with database.transaction() as tx:
        await people.put(tx, BOB, "Bob", "member", now=NOW)
    file = parse_database_path(database_url)
    backup = await BackupDirectory(file, tmp_path / "backups", 1).make_backup(now=NOW)
    ruin = tmp_path / "ruin.db"
    ruin.write_bytes(b"not a database" * 1000)
    Path(f"{ruin}-wal").write_bytes(b"nor is this a log")
    for place in (ruin, tmp_path / "new" / "house.db"):
        url = f"sqlite+aiosqlite:///{place}"
        made = await restore_backup(url, backup, answer_waiting=False, now=NOW)
        assert made.changes_since is None
        assert query_rows(url, "SELECT name FROM people") == [("Bob",)]
    aside = tmp_path / "ruin.db.before-restore-20261118T110640.000000Z.bak"
    assert aside.read_bytes().startswith(b"not a database")
    assert migrating.list_copies(ruin) == [aside]
    assert not Path(f"{ruin}-wal").exists() or Path(f"{ruin}-wal").read_bytes() != b"nor is this a log"
    migrating.delete_copies(ruin, before=NOW + 1)
    assert not list(tmp_path.glob("ruin.db.before*"))


async def test_an_older_schema_is_brought_up(database_url: str, tmp_path: Path):
    file = parse_database_path(database_url)
    old = tmp_path / "house.db.before-0003.bak"
    old.write_bytes(file.read_bytes())
    downgrade(f"sqlite+aiosqlite:///{old}", "0003")
    os.utime(old, (NOW - 9, NOW - 9))
    made = await restore_backup(database_url, old, answer_waiting=False, now=NOW)
    assert made.made_at == NOW - 9
    assert migrating.read_current_revision(file) == migrating.find_newest_revision()


async def test_a_backup_with_its_log_beside_it_is_taken_with_it(database_url: str, tmp_path: Path):
    live = tmp_path / "live.db"
    live.write_bytes(parse_database_path(database_url).read_bytes())
    async with open_database(f"sqlite+aiosqlite:///{live}") as database:
        async with database.transaction() as tx:
            await people.put(tx, BOB, "Bob", "member", now=NOW)
        assert Path(f"{live}-wal").stat().st_size
        await restore_backup(database_url, live, answer_waiting=False, now=NOW)
    async with open_database(database_url) as database, database.read_transaction() as tx:
        assert [one.name for one in await people.list_people(tx)] == ["Bob"]
        assert (await tx.execute(select(messages.c.id))).all() == []
        assert (await tx.execute(select(inbox.c.id))).all() == []


@pytest.mark.parametrize("waiting", [False, True])
async def test_a_call_that_was_asked_about_in_the_backup_is_not_run_again_unasked(
    tmp_path: Path, waiting: bool
):
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        async with house.run():
            house.ann.send(ring_prompt("one"))
            asked = await wait_for_question(house, "one")
            backup = await open_backup_directory(house, tmp_path).make_backup(now=time.time())
            await tap_buttons(house, house.ann, asked, "Allow here")
            await wait_for_message(house, "rang one")
            house.ann.send("/grant ring everyone")
            await house.api.wait_until(
                lambda: any(text.startswith("ring may be used by") for text in house.texts())
            )
        made = await restore_into(house, backup, answer_waiting=waiting)
        assert made.settled.dropped == (0 if waiting else 1)
        url = house.settings.database_url
        assert query_rows(url, "SELECT whom FROM grants WHERE tool = 'ring'") == [("everyone",)]
        assert query_rows(url, "SELECT tool FROM allowances") == [("ring",)]
        async with house.run():
            await send_and_wait(house, "after")
            assert load_rung_bells(tmp_path) == ["one"]
            if waiting:
                house.ann.send("/stop")
                await house.api.wait_until(lambda: any(text.endswith("Stopped.") for text in house.texts()))
            house.ann.send(ring_prompt("one", then="allowed"))
            await wait_for_message(house, "allowed one")
    assert load_rung_bells(tmp_path) == ["one", "one"]
    assert query_rows(url, "SELECT 1 FROM inbox WHERE state <> 'done'") == []
    assert query_rows(url, "SELECT answer FROM approvals") == [("stopped",)]
    books.check_breakdowns(tmp_path / "house.db")
