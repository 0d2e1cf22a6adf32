"""Admins are notified of a subject silently when its text has changed, and never twice of the same text."""

import json

from sqlalchemy import func, select

from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import PersonLanguages
from bot.db.queues import outbox
from bot.db.queues.admin_notices import AdminNotices, count_sending, record_if_changed
from bot.db.tables import outbox as outbox_table
from bot.domain import Lane
from bot.translations.translator import defer

NOW = 1000.0


async def notify_admins(database: Database, notices: AdminNotices, subject: str, text: str) -> list[Lane]:
    """Notify them; returns the lanes of those who get something to read."""
    async with database.transaction() as tx:
        await notices.notify(tx, subject, defer(text), now=NOW)
        return [*tx.changes.outbox_lanes]


async def test_every_reachable_admin_is_notified_silently(database: Database):
    async with database.transaction() as tx:
        roles: dict[int, people.Role] = {1: "admin", 2: "member", 3: "admin"}
        for person, role in roles.items():
            await people.put(tx, person, "P", role, let_in_by=0, now=NOW)
        await people.set_reachable(tx, 3, reachable=False)
    assert await notify_admins(database, AdminNotices({7}), "endpoint", "The endpoint is down.") == [
        Lane(1),
        Lane(7),
    ]
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(outbox_table).order_by(outbox_table.c.id))).all()
    assert [(row.item, row.lane, row.final) for row in rows] == [(None, "1", True), (None, "7", True)]
    assert all('"silent": true' in row.body and "The endpoint is down." in row.body for row in rows)


async def test_a_notice_that_was_being_sent_at_a_crash_is_sent_again(database: Database):
    await notify_admins(database, AdminNotices({7}), "endpoint", "The endpoint is down.")
    async with database.transaction() as tx:
        await outbox.take(tx, Lane(7))
        await outbox.recover(tx, now=NOW)
        repeated = await outbox.take(tx, Lane(7))
    assert repeated is not None
    assert (repeated.state, repeated.can_repeat) == ("sending", True)


async def test_each_admin_reads_a_notice_in_their_own_language(database: Database):
    languages = {1: PersonLanguages("de"), 2: PersonLanguages(None, "fr"), 3: PersonLanguages()}
    notice = defer("{endpoint} answers again.", endpoint=defer("The model server"))
    async with database.transaction() as tx:
        for person, chosen in languages.items():
            await people.put(tx, person, "P", "admin", let_in_by=0, now=NOW)
            await people.set_languages(tx, person, chosen)
        await AdminNotices().notify(tx, "endpoint", notice, now=NOW)
        rows = (await tx.execute(select(outbox_table).order_by(outbox_table.c.id))).all()
        await AdminNotices().notify(tx, "endpoint", notice, now=NOW)
        assert (await tx.execute(select(func.count()).select_from(outbox_table))).scalar_one() == len(rows)
    assert [json.loads(row.body)["text"] for row in rows] == [
        "Der Modellserver antwortet wieder.",
        "Le serveur du modèle répond de nouveau.",
        "The model server answers again.",
    ]


async def test_an_admin_by_settings_who_blocked_the_bot_is_left_alone(database: Database):
    async with database.transaction() as tx:
        await people.put(tx, 7, "P", "member", let_in_by=0, now=NOW)
        await people.set_reachable(tx, 7, reachable=False)
    assert await notify_admins(database, AdminNotices({7}), "endpoint", "down") == []


async def test_a_subject_is_reported_again_only_when_it_changes(database: Database):
    notices = AdminNotices({7})
    lanes_by_notice = [
        await notify_admins(database, notices, subject, text)
        for subject, text in (("a", "down"), ("a", "down"), ("b", "down"), ("a", "up"), ("a", "down"))
    ]
    assert [bool(lanes) for lanes in lanes_by_notice] == [True, False, True, True, True]


async def test_a_long_notice_is_cut_to_one_message(database: Database):
    await notify_admins(database, AdminNotices({7}), "a", "x" * 10_000)
    async with database.read_transaction() as tx:
        body = (await tx.execute(select(outbox_table.c.body))).scalar_one()
    assert len(body) < 4096


async def test_a_text_is_recorded_once(database: Database):
    async with database.transaction() as tx:
        assert await record_if_changed(tx, "group -1", "told", now=NOW)
        assert not await record_if_changed(tx, "group -1", "told", now=NOW + 1)


async def test_what_admins_are_told_is_counted_within_a_window(database: Database):
    moments = (1000.0, 1001.0, 1002.0, 1059.0, 1060.0, 1060.5, 1061.0)
    async with database.transaction() as tx:
        counted = [
            await count_sending(tx, "stranger card", max_count=2, window_seconds=60.0, now=now)
            for now in moments
        ]
        assert await count_sending(tx, "other", max_count=2, window_seconds=60.0, now=1061.0)
    assert counted == [True, True, False, False, True, False, True]
