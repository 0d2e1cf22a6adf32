"""A restored backup repeats nothing that was done since it was made, and keeps later decisions."""

import asyncio
import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from bot.db.conversations import chat_settings
from bot.db.conversations.chat_settings import CONTENT_KINDS
from bot.db.database_url import parse_database_path
from bot.db.engine import Database, open_database
from bot.db.maintenance.backup import BackupDirectory
from bot.db.people import page_sessions, people
from bot.db.queues import hooks, outbox
from bot.db.queues import inbox as inbox_rows
from bot.db.queues.hooks import Hook
from bot.db.schema import find_newest_revision
from bot.db.sqlite import lock, migrate
from bot.db.tables import group_texts, groups, inbox, jobs, kept_files, kept_words, lives, messages
from bot.db.tables import outbox as outbox_table
from bot.db.transaction import Transaction
from bot.domain import Lane, Part
from bot.errors import GatewayRunning, RestoreRefused, SchemaUnknown
from bot.maintenance.restore import RestoreReport, format_summary, restore_backup
from bot.maintenance.retention import FORGOTTEN_TEXT
from tests.db.sqlite.test_migrate import downgrade
from tests.gateway.test_approval_waits import ring_prompt, tap_buttons, wait_for_message, wait_for_question
from tests.support import breakdown_clock
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
    """Have somebody write, and wait until the answer has come and the database knows that."""
    gateway.api.person(chat, "Ann" if chat == ADMIN else "Bob").send(f"@@say:{text}@@")
    await gateway.api.wait_until(lambda: text in gateway.texts(chat))
    unsent = "SELECT 1 FROM outbox WHERE state IN ('new', 'sending', 'open')"
    async with asyncio.timeout(60):
        while query_rows(gateway.settings.database_url, unsent):  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(0.01)


async def keep_file(tx: Transaction, chat: int, text: str) -> None:
    """Store a kept file, and an index that is its text as well."""
    row = {"chat": chat, "person": chat, "name": "a.txt", "hash": text, "size": len(text)}
    stored = await tx.execute(
        insert(kept_files)
        .values(row | {"text": text, "kept_at": 1.0, "used_at": 2e9})
        .returning(kept_files.c.id)
    )
    await tx.execute(insert(kept_words).values(file=stored.scalar_one(), bucket=-1, words=text.encode()))


def query_rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(parse_database_path(url))) as connection:
        return connection.execute(query).fetchall()


def query_ids(file: Path, query: str) -> set[int]:
    return {row[0] for row in query_rows(f"sqlite:///{file}", query)}


@pytest.mark.sqlite
async def test_nothing_that_was_sent_since_the_backup_is_sent_twice(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as gateway:
        async with gateway.run():
            await send_and_wait(gateway, "one")
            await send_and_wait(gateway, "to Bob", BOB)
            backup = await open_backup_directory(gateway, tmp_path).make_backup(now=time.time())
            await send_and_wait(gateway, "two")
            gateway.ann.send("@@say:three@@")
            await gateway.api.wait_until(lambda: "three" in gateway.texts())
            gateway.ann.send("/people")
            await gateway.wait_for_texts(4)
            texts = gateway.texts()
            requests = len(gateway.endpoint.requests)
        report = await restore_into(gateway, backup)
        assert report.settled.dropped == 0
        assert report.replaced_file is not None
        assert stat.S_IMODE(parse_database_path(gateway.settings.database_url).stat().st_mode) == 0o600
        async with gateway.run():
            await send_and_wait(gateway, "after", BOB)
            await send_and_wait(gateway, "four")
            assert gateway.texts() == [*texts, "four"]
            assert gateway.texts(BOB) == ["to Bob", "after"]
            assert len(gateway.endpoint.requests) == requests + 2
            assert "two" not in gateway.endpoint.requests[-1].prompt  # messages since then are gone
            assert "one" in gateway.endpoint.requests[-1].prompt
    assert query_rows(gateway.settings.database_url, "PRAGMA integrity_check") == [("ok",)]
    check_ids_continue(backup, report.replaced_file, parse_database_path(gateway.settings.database_url))


def check_ids_continue(backup: Path, replaced: Path, restored: Path) -> None:
    """No id is given twice, and updates that Telegram may deliver again are known."""
    files = (backup, replaced, restored)
    for table in ("inbox", "outbox"):
        backed_up, until_restore, after = (query_ids(file, f"SELECT id FROM {table}") for file in files)
        assert until_restore > backed_up
        assert after & until_restore == backed_up
    backed_up, until_restore, after = (query_ids(file, "SELECT update_id FROM inbox") for file in files)
    assert after > until_restore > backed_up


@pytest.mark.parametrize("waiting", [False, True])
async def test_messages_that_ran_and_waited_in_the_backup_are_answered_again_only_on_request(
    tmp_path: Path, waiting: bool
):
    async with open_harness(tmp_path) as gateway:
        async with gateway.run():
            gateway.endpoint.hold()
            gateway.ann.send("@@say:one@@")
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
            gateway.ann.send("@@say:two@@")
            url = gateway.settings.database_url
            await gateway.api.wait_until(
                lambda: query_rows(url, "SELECT 1 FROM inbox WHERE update_id = 2 OR state = 'new'")
            )
            backup = await open_backup_directory(gateway, tmp_path).make_backup(now=time.time())
            gateway.endpoint.release()
            await gateway.api.wait_until(lambda: gateway.texts() == ["one", "two"])
        report = await restore_into(gateway, backup, answer_waiting=waiting)
        assert report.settled.dropped == (0 if waiting else 2)
        async with gateway.run():
            if waiting:
                await gateway.api.wait_until(lambda: gateway.texts() == ["one", "two", "one", "two"])
            await send_and_wait(gateway, "three")
        repeated = ["one", "two"] if waiting else []
        assert gateway.texts() == ["one", "two", *repeated, "three"]
    assert query_rows(url, "SELECT 1 FROM inbox WHERE state <> 'done'") == []
    assert query_rows(url, "SELECT 1 FROM turns WHERE state = 'running'") == []
    assert query_rows(url, "SELECT 1 FROM model_calls WHERE outcome IS NULL") == []


async def test_somebody_blocked_since_stays_blocked_and_a_forgotten_chat_is_forgotten_again(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as gateway:
        async with gateway.run():
            await send_and_wait(gateway, "a canary")
            await send_and_wait(gateway, "hello", BOB)
            async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
                await tx.execute(
                    insert(jobs).values(person=BOB, kind="reminder", text="old", made_at=1.0, next_due=2e9)
                )
                await keep_file(tx, ADMIN, "a canary")
                await keep_file(tx, BOB, "a finch")
            backup = await open_backup_directory(gateway, tmp_path).make_backup(now=time.time())
            gateway.ann.send("/forget")
            await gateway.api.wait_until(lambda: gateway.api.chat(ADMIN).bot_messages[-1].buttons)
            gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[-1], "Forget it all")
            await gateway.api.wait_until(lambda: FORGOTTEN_TEXT in gateway.texts())
        url = gateway.settings.database_url
        async with open_database(url) as database, database.transaction() as tx:
            await people.put(tx, BOB, "Bob", "blocked", now=time.time())
            await tx.execute(delete(jobs).where(jobs.c.text == "old"))
            await tx.execute(
                insert(jobs).values(person=BOB, kind="reminder", text="new", made_at=1.0, next_due=2e9)
            )
        report = await restore_into(gateway, backup)
        assert report.changes_since is not None
        assert len(report.changes_since.forget_items) == 1
        assert query_rows(url, f"SELECT role FROM people WHERE id = {BOB}") == [("blocked",)]
        # Not the one deleted since.
        assert query_rows(url, "SELECT text FROM jobs WHERE person IS NOT NULL") == [("new",)]
        assert query_rows(url, "SELECT count(*) FROM messages") == [(4,)]
        kept = "SELECT text, words FROM kept_files JOIN kept_words ON file = id ORDER BY id"
        assert query_rows(url, kept) == [("a canary", b"a canary"), ("a finch", b"a finch")]
        async with gateway.run():
            gateway.api.person(BOB, "Bob").send("@@say:let me in@@")
            await send_and_wait(gateway, "afresh")
        assert gateway.texts(BOB) == ["hello"]
        assert gateway.texts().count(FORGOTTEN_TEXT) == 1
        assert query_rows(url, kept) == [("a finch", b"a finch")]
        assert b"a canary" not in parse_database_path(url).read_bytes()
        assert query_rows(url, "SELECT count(*) FROM messages") == [(4,)]  # Bob's, and the new ones


@pytest.mark.sqlite
async def test_a_restore_brings_back_no_withdrawn_consent_and_no_right_of_a_group(
    database: Database, database_url: str, tmp_path: Path
):
    file = parse_database_path(database_url)
    host = "models.example.com"
    fam, club = -100, -200
    answers_then = {1: CONTENT_KINDS, 2: (), 3: ("text", "notes"), 4: ("text",)}
    answers_since = {1: (), 2: CONTENT_KINDS, 3: ("text", "files"), 5: ("text",), 6: ()}
    async with database.transaction() as tx:
        await tx.execute(insert(lives).values(began_at=NOW - 99, seen_at=NOW))
        for chat, kinds in answers_then.items():
            await chat_settings.store_consent(tx, chat, host, kinds)
            await chat_settings.store_speech_consent(tx, chat, host, allowed=bool(kinds))
        for chat in (fam, club):
            values = {"chat": chat, "title": "Fam", "state": "in", "since": NOW - 50}
            await tx.execute(insert(groups).values(values | {"speakers": "everyone", "reads_along": True}))
        told = {"lane": str(fam), "person": 9, "name": "Eve", "text": "aside", "written_at": NOW}
        await tx.execute(insert(group_texts).values(told))
    backup = await BackupDirectory(file, tmp_path / "backups", 1).make_backup(now=NOW)
    async with database.transaction() as tx:
        for chat, kinds in answers_since.items():
            await chat_settings.store_consent(tx, chat, host, kinds)
            await chat_settings.store_speech_consent(tx, chat, host, allowed=bool(kinds))
        await tx.execute(update(groups).values(speakers="members", reads_along=False))
        await tx.execute(update(groups).where(groups.c.chat == club).values(state="left"))
        await tx.execute(delete(group_texts))
    await database.close()
    await restore_backup(database_url, backup, answer_waiting=True, now=NOW)
    assert query_rows(
        database_url, "SELECT chat, state, speakers, reads_along FROM groups ORDER BY chat DESC"
    ) == [(fam, "in", "members", 0), (club, "left", "members", 0)]
    assert query_rows(database_url, "SELECT 1 FROM group_texts") == []
    assert query_rows(database_url, "SELECT lane, consent FROM lanes ORDER BY lane") == [
        ("1", f"{host} no"),
        ("2", f"{host} no"),
        ("3", f"{host} text"),
        ("4", f"{host} text"),
        ("5", None),  # it is asked again
        ("6", f"{host} no"),
    ]
    speech = ["no", "no", "speech", "speech", None, "no"]
    assert query_rows(database_url, "SELECT speech_consent FROM lanes ORDER BY lane") == [
        (answer and f"{host} {answer}",) for answer in speech
    ]


@pytest.mark.sqlite
async def test_a_restore_tells_only_what_there_is_to_tell(
    database: Database, database_url: str, tmp_path: Path
):
    async with database.transaction() as tx:
        body = {"message": {"text": "hello"}}
        await inbox_rows.add(tx, kind="update", lane=Lane(7), sender=7, body=body, now=NOW - 9)
    backup = tmp_path / "renamed.db"
    made = await BackupDirectory(parse_database_path(database_url), tmp_path, 1).make_backup(now=NOW)
    made.rename(backup)
    os.utime(backup, (NOW + 9e6,) * 2)  # it was copied later
    file = tmp_path / "new" / "gateway.db"
    report = await restore_backup(f"sqlite+aiosqlite:///{file}", backup, answer_waiting=False, now=NOW)
    assert list(format_summary(report, file)) == [
        f"{file} is as it was on 18 November 2026 at 11:06 UTC.",
        "Messages that waited then and are not answered any more: 1.",
        "What people wrote since then is gone here; it is in their chats still.",
        "No database stood there, so people, groups and consents are those of the backup, and what was "
        "forgotten since then is there again: see /people and /groups. The last messages may be answered "
        "twice.",
    ]


@pytest.mark.sqlite
async def test_a_backup_of_another_gateway_brings_its_own_people(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as gateway:
        async with gateway.run():
            await send_and_wait(gateway, "hello", BOB)
            backup = await open_backup_directory(gateway, tmp_path).make_backup(now=time.time())
        file = parse_database_path(gateway.settings.database_url)
        file.unlink()
        async with gateway.run():  # the disk was lost, and somebody started without it
            await send_and_wait(gateway, "who are you?")
        report = await restore_into(gateway, backup)
        assert report.changes_since is not None
        assert report.changes_since.rows_by_table is None
        assert query_rows(gateway.settings.database_url, f"SELECT id FROM people WHERE id = {BOB}") == [
            (BOB,)
        ]


@pytest.mark.sqlite
async def test_every_row_in_doubt_is_settled_and_no_due_time_runs_again(
    database: Database, database_url: str
):
    async with database.transaction() as tx:
        for number, state in enumerate(("new", "sending", "open", "done", "failed", "unknown")):
            [row] = await outbox.add(tx, item=number + 1, lane=Lane(7), parts=(Part("x"),), now=NOW - 9)
            await tx.execute(update(outbox_table).where(outbox_table.c.id == row).values(state=state))
        await inbox_rows.add(tx, kind="system", lane=None, sender=None, body={"job": "backup"}, now=NOW - 9)
        forget = {"job": "forget", "asked_at": NOW - 9, "tell": True}
        await inbox_rows.add(tx, kind="system", lane=Lane(7), sender=None, body=forget, now=NOW - 9)
        job_values = {"kind": "reminder", "text": "stretch", "made_at": NOW - 99}
        daily = "DTSTART:20261101T080000\nRRULE:FREQ=DAILY"
        await tx.execute(
            insert(jobs),
            [
                {**job_values, "next_due": NOW - 5, "rule": daily, "state": "active"},
                {**job_values, "next_due": NOW - 5, "rule": None, "state": "active"},
                {**job_values, "next_due": NOW + 5, "rule": None, "state": "active"},
                {**job_values, "next_due": NOW - 5, "rule": None, "state": "paused"},
            ],
        )
    backup = await BackupDirectory(
        parse_database_path(database_url), parse_database_path(database_url).parent / "backups", 1
    ).make_backup(now=NOW - 1)
    report = await restore_backup(database_url, backup, answer_waiting=False, now=NOW)
    assert (report.made_at, report.settled.unknown, report.settled.dropped) == (NOW - 1, 2, 1)
    assert report.skipped_due_times == 2
    assert [row[0] for row in query_rows(database_url, "SELECT state FROM outbox ORDER BY id")] == [
        *("unknown", "unknown", "done", "done", "failed", "unknown")
    ]
    assert query_rows(database_url, "SELECT state, kind FROM inbox ORDER BY id") == [
        ("done", "system"),
        ("new", "system"),
    ]
    due = query_rows(database_url, "SELECT state, next_due FROM jobs ORDER BY id")
    assert due[0][0] == "active"
    assert due[0][1] > NOW
    assert due[1:] == [("done", None), ("active", NOW + 5), ("paused", NOW - 5)]


@pytest.mark.sqlite
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_backup_revives_no_login_at_the_admin_page_and_no_hook(
    database: Database, database_url: str, tmp_path: Path, is_lost: bool
):
    file = parse_database_path(database_url)
    async with database.transaction() as tx:
        await tx.execute(insert(lives).values(began_at=NOW - 99, seen_at=NOW))  # the same gateway
        link = await page_sessions.insert_link(tx, 7, now=NOW)
        session = await page_sessions.insert_session(tx, 7, now=NOW)
        former = await hooks.add(tx, Hook(0, "former", BOB, Lane(BOB), "Do it.", 5, 1000, NOW)) or ""
        await hooks.store_post(tx, (await hooks.list_hooks(tx))[0], "Hello", "key", now=NOW)
    backup = await BackupDirectory(file, tmp_path / "backups", 1).make_backup(now=NOW)
    async with database.transaction() as tx:
        assert await page_sessions.end_all(tx, now=NOW) == 1
        await hooks.end_of_person(tx, BOB)
        later = await hooks.add(tx, Hook(0, "later", 7, Lane(7), None, 5, 1000, NOW)) or ""
    await database.close()
    if is_lost:
        file.unlink()
    report = await restore_backup(database_url, backup, answer_waiting=True, now=NOW)
    assert (report.changes_since is None) is is_lost
    async with open_database(database_url) as restored, restored.read_transaction() as tx:
        assert await page_sessions.find_session(tx, session, now=NOW) is None
        assert await page_sessions.find_link(tx, link, now=NOW) is None
        assert await hooks.find_by_secret(tx, "former", former) is None
        assert (await hooks.find_by_secret(tx, "later", later) is None) is is_lost
        stored = {hook.name: hook.why_ended for hook in await hooks.list_hooks(tx)}
    assert stored == ({} if is_lost else {"former": hooks.ADMIN_LOST, "later": None})
    contents = file.read_bytes() + backup.read_bytes()
    assert not any(secret.encode() in contents for secret in (former, later))


@pytest.mark.sqlite
async def test_an_unusable_backup_is_refused_and_the_database_stays(database_url: str, tmp_path: Path):
    file = parse_database_path(database_url)
    before = file.read_bytes()
    (tmp_path / "text").write_text("no database at all" * 100)
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE t (x)")
    newer = tmp_path / "newer"
    newer.write_bytes(before)
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for backup, refusal, reason in (
        (tmp_path / "missing", RestoreRefused, "No such file"),
        (tmp_path / "text", RestoreRefused, "is not sound"),
        (tmp_path / "other", RestoreRefused, "no database of Canvasgram"),
        (file, RestoreRefused, "the database itself"),
        (newer, SchemaUnknown, "Use the newer version"),
    ):
        with pytest.raises(refusal, match=reason):
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


@pytest.mark.sqlite
async def test_a_damaged_or_missing_database_is_replaced_by_the_backup(
    database: Database, database_url: str, tmp_path: Path
):
    async with database.transaction() as tx:
        await people.put(tx, BOB, "Bob", "member", now=NOW)
    file = parse_database_path(database_url)
    backup = await BackupDirectory(file, tmp_path / "backups", 1).make_backup(now=NOW)
    ruin = tmp_path / "ruin.db"
    ruin.write_bytes(b"not a database" * 1000)
    Path(f"{ruin}-wal").write_bytes(b"nor is this a log")
    for file_to_replace in (ruin, tmp_path / "new" / "gateway.db"):
        url = f"sqlite+aiosqlite:///{file_to_replace}"
        report = await restore_backup(url, backup, answer_waiting=False, now=NOW)
        assert report.changes_since is None
        assert query_rows(url, "SELECT name FROM people") == [("Bob",)]
    replaced_file = tmp_path / "ruin.db.before-restore-20261118T110640.000000Z.bak"
    assert replaced_file.read_bytes().startswith(b"not a database")
    assert migrate.list_copies(ruin) == [replaced_file]
    assert not Path(f"{ruin}-wal").exists() or Path(f"{ruin}-wal").read_bytes() != b"nor is this a log"
    migrate.delete_copies(ruin, before=NOW + 1)
    assert not list(tmp_path.glob("ruin.db.before*"))


@pytest.mark.sqlite
async def test_the_log_of_a_database_that_was_removed_is_not_read_as_the_restored_ones(
    database_url: str, tmp_path: Path
):
    file = parse_database_path(database_url)
    backup = await BackupDirectory(file, tmp_path / "backups", max_backups=3).make_backup(now=NOW)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO notices (subject, text, told_at) VALUES ('later', '', 0)")
        connection.commit()
        file.unlink()  # and what is left beside it stays as it is after a kill
        await restore_backup(database_url, backup, answer_waiting=False, now=NOW)
        assert query_rows(database_url, "SELECT subject FROM notices WHERE subject = 'later'") == []
        assert query_rows(database_url, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.sqlite
async def test_a_backup_of_an_older_schema_is_upgraded(database_url: str, tmp_path: Path):
    file = parse_database_path(database_url)
    old = tmp_path / "gateway.db.before-0003.bak"
    old.write_bytes(file.read_bytes())
    downgrade(f"sqlite+aiosqlite:///{old}", "0003")
    os.utime(old, (NOW - 9, NOW - 9))
    report = await restore_backup(database_url, old, answer_waiting=False, now=NOW)
    assert report.made_at == NOW - 9
    assert migrate.read_current_revision(file) == find_newest_revision()


@pytest.mark.sqlite
async def test_a_backup_is_restored_with_the_log_beside_it(database_url: str, tmp_path: Path):
    live = tmp_path / "live.db"
    live.write_bytes(parse_database_path(database_url).read_bytes())
    async with open_database(f"sqlite+aiosqlite:///{live}") as database:
        async with database.transaction() as tx:
            await people.put(tx, BOB, "Bob", "member", now=NOW)
        assert Path(f"{live}-wal").stat().st_size
        await restore_backup(database_url, live, answer_waiting=False, now=NOW)
    async with open_database(database_url) as database, database.read_transaction() as tx:
        assert [person.name for person in await people.list_people(tx)] == ["Bob"]
        assert (await tx.execute(select(messages.c.id))).all() == []
        assert (await tx.execute(select(inbox.c.id))).all() == []


@pytest.mark.parametrize("waiting", [False, True])
async def test_a_call_that_awaited_approval_in_the_backup_does_not_run_again_without_it(
    tmp_path: Path, waiting: bool
):
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        async with gateway.run():
            gateway.ann.send(ring_prompt("one"))
            question = await wait_for_question(gateway, "one")
            backup = await open_backup_directory(gateway, tmp_path).make_backup(now=time.time())
            await tap_buttons(gateway, gateway.ann, question, "Allow here")
            await wait_for_message(gateway, "rang one")
            gateway.ann.send("/grant ring everyone")
            await gateway.api.wait_until(
                lambda: any(text.startswith("ring may be used by") for text in gateway.texts())
            )
        report = await restore_into(gateway, backup, answer_waiting=waiting)
        assert report.settled.dropped == (0 if waiting else 1)
        url = gateway.settings.database_url
        assert query_rows(url, "SELECT whom FROM grants WHERE tool = 'ring'") == [("everyone",)]
        assert query_rows(url, "SELECT tool FROM allowances") == [("ring",)]
        async with gateway.run():
            await send_and_wait(gateway, "after")
            assert load_rung_bells(tmp_path) == ["one"]
            if waiting:
                gateway.ann.send("/stop")
                await gateway.api.wait_until(
                    lambda: any(text.endswith("Stopped.") for text in gateway.texts())
                )
            gateway.ann.send(ring_prompt("one", then="allowed"))
            await wait_for_message(gateway, "allowed one")
    assert load_rung_bells(tmp_path) == ["one", "one"]
    assert query_rows(url, "SELECT 1 FROM inbox WHERE state <> 'done'") == []
    assert query_rows(url, "SELECT answer FROM approvals") == [("stopped",)]
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")
