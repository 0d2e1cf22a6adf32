"""What admins change about people and limits is audited in the same transaction: who, before, after."""

import re

import pytest

from bot.db.engine import Database
from bot.db.tools import audit
from bot.db.tools.audit import AuditEntry
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

STRANGER = 77


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


async def load_changes(harness: UpdateHarness) -> list[AuditEntry]:
    async with harness.database.read_transaction() as tx:
        return (await audit.list_entries(tx))[::-1]


async def list_changes(harness: UpdateHarness) -> list[tuple[str, str, object, object]]:
    return [(entry.what, entry.subject, entry.before, entry.after) for entry in await load_changes(harness)]


async def test_who_let_whom_in_and_out_is_recorded(harness: UpdateHarness):
    await harness.send_text(f"/people add {BOB}", person=ADMIN)
    await harness.tap(f"people:block:{BOB}", person=ADMIN)
    await harness.send_text(f"/people remove {BOB}", person=ADMIN)
    await harness.send_text(f"/people remove {BOB}", person=ADMIN)
    subject = f"person {BOB}"
    assert await list_changes(harness) == [
        ("let in", subject, None, {"role": "member"}),
        ("blocked", subject, {"role": "member", "name": f"Person {BOB}"}, {"role": "blocked"}),
        ("removed", subject, {"role": "blocked", "name": f"Person {BOB}"}, None),
    ]
    assert {(entry.who, entry.via, entry.at) for entry in await load_changes(harness)} == {
        (ADMIN, "telegram", harness.now)
    }


async def test_a_link_and_who_came_in_by_it_are_written_down_but_not_its_code(harness: UpdateHarness):
    (sent,) = await harness.send_text("/invite admin", person=ADMIN)
    code = re.findall(r"start=(\S+)", sent.text)[0]
    await harness.send_text(f"/start {code}", person=ANNA)
    await harness.send_text(f"/start {code}", person=STRANGER)
    assert await list_changes(harness) == [
        ("made a link", "for one admin", None, {"role": "admin", "hours": 24}),
        (
            *("came in by a link", f"person {ANNA}"),
            *({"role": "member", "name": "Anna"}, {"role": "admin", "name": "Anna"}),
        ),
    ]
    assert code not in str(await load_changes(harness))


async def test_a_limit_is_recorded_when_it_is_set_and_when_it_is_removed(harness: UpdateHarness):
    for args in (f"{ANNA} 100", f"{ANNA} none", f"{ANNA} default", "all 7"):
        await harness.send_text(f"/limits {args}", person=ADMIN)
    a_day = "canvases a day"
    assert [(before, after) for _, _, before, after in await list_changes(harness)] == [
        (None, {a_day: 100}),
        ({a_day: 100}, {a_day: None}),
        ({a_day: None}, None),
        (None, {a_day: 7}),
    ]
    assert [entry.subject for entry in await load_changes(harness)][-2:] == [f"person {ANNA}", "every member"]


async def test_what_was_refused_is_no_change(harness: UpdateHarness):
    await harness.send_text("/limits all 5", person=ANNA)
    await harness.send_text(f"/people remove {ADMIN}", person=ADMIN)
    await harness.send_text(f"/people add {ANNA}", person=ADMIN)
    assert await load_changes(harness) == []
