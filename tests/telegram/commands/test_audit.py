"""What admins do about people and limits is written down in the same transaction: who, before, after."""

import re

import pytest

from bot.db.engine import Database
from bot.db.tools import audit
from bot.db.tools.audit import AuditEntry
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

STRANGER = 77


@pytest.fixture
async def front(database: Database) -> UpdateHarness:
    front = UpdateHarness(database)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    return front


async def load_changes(front: UpdateHarness) -> list[AuditEntry]:
    async with front.database.read_transaction() as tx:
        return (await audit.list_entries(tx))[::-1]


async def list_changes(front: UpdateHarness) -> list[tuple[str, str, object, object]]:
    return [(one.what, one.subject, one.before, one.after) for one in await load_changes(front)]


async def test_who_let_whom_in_and_out_is_written_down(front: UpdateHarness):
    await front.send_text(f"/people add {BOB}", person=ADMIN)
    await front.tap(f"people:block:{BOB}", person=ADMIN)
    await front.send_text(f"/people remove {BOB}", person=ADMIN)
    await front.send_text(f"/people remove {BOB}", person=ADMIN)
    subject = f"person {BOB}"
    assert await list_changes(front) == [
        ("let in", subject, None, {"role": "member"}),
        ("blocked", subject, {"role": "member", "name": f"Person {BOB}"}, {"role": "blocked"}),
        ("removed", subject, {"role": "blocked", "name": f"Person {BOB}"}, None),
    ]
    assert {(one.who, one.via, one.at) for one in await load_changes(front)} == {
        (ADMIN, "telegram", front.now)
    }


async def test_a_link_and_who_came_in_by_it_are_written_down_but_not_its_code(front: UpdateHarness):
    (sent,) = await front.send_text("/invite admin", person=ADMIN)
    code = re.findall(r"start=(\S+)", sent.text)[0]
    await front.send_text(f"/start {code}", person=ANNA)
    await front.send_text(f"/start {code}", person=STRANGER)
    assert await list_changes(front) == [
        ("made a link", "for one admin", None, {"role": "admin", "hours": 24}),
        (
            *("came in by a link", f"person {ANNA}"),
            *({"role": "member", "name": "Anna"}, {"role": "admin", "name": "Anna"}),
        ),
    ]
    assert code not in str(await load_changes(front))


async def test_a_limit_is_written_down_when_it_is_set_and_when_it_is_taken_back(front: UpdateHarness):
    for words in (f"{ANNA} 100", f"{ANNA} none", f"{ANNA} default", "all 7"):
        await front.send_text(f"/limits {words}", person=ADMIN)
    a_day = "canvases a day"
    assert [(before, after) for _, _, before, after in await list_changes(front)] == [
        (None, {a_day: 100}),
        ({a_day: 100}, {a_day: None}),
        ({a_day: None}, None),
        (None, {a_day: 7}),
    ]
    assert [one.subject for one in await load_changes(front)][-2:] == [f"person {ANNA}", "every member"]


async def test_what_was_refused_is_no_change(front: UpdateHarness):
    await front.send_text("/limits all 5", person=ANNA)
    await front.send_text(f"/people remove {ADMIN}", person=ADMIN)
    await front.send_text(f"/people add {ANNA}", person=ADMIN)
    assert await load_changes(front) == []
