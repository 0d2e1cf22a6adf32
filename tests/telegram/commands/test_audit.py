"""What admins do about people and limits is written down in the same transaction: who, before, after."""

import re

import pytest

from bot.db.engine import Database
from bot.db.tools import audit
from bot.db.tools.audit import Change
from tests.support.update_harness import ADMIN, ANNA, BOB, Front

STRANGER = 77


@pytest.fixture
async def front(database: Database) -> Front:
    front = Front(database)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    return front


async def changes(front: Front) -> list[Change]:
    async with front.database.reading() as tx:
        return (await audit.changes(tx))[::-1]


async def told(front: Front) -> list[tuple[str, str, object, object]]:
    return [(one.what, one.subject, one.before, one.after) for one in await changes(front)]


async def test_who_let_whom_in_and_out_is_written_down(front: Front):
    await front.write(f"/people add {BOB}", person=ADMIN)
    await front.tap(f"people:block:{BOB}", person=ADMIN)
    await front.write(f"/people remove {BOB}", person=ADMIN)
    await front.write(f"/people remove {BOB}", person=ADMIN)
    subject = f"person {BOB}"
    assert await told(front) == [
        ("let in", subject, None, {"role": "member"}),
        ("blocked", subject, {"role": "member", "name": f"Person {BOB}"}, {"role": "blocked"}),
        ("removed", subject, {"role": "blocked", "name": f"Person {BOB}"}, None),
    ]
    assert {(one.who, one.via, one.at) for one in await changes(front)} == {(ADMIN, "telegram", front.now)}


async def test_a_link_and_who_came_in_by_it_are_written_down_but_not_its_code(front: Front):
    (sent,) = await front.write("/invite admin", person=ADMIN)
    code = re.findall(r"start=(\S+)", sent.text)[0]
    await front.write(f"/start {code}", person=ANNA)
    await front.write(f"/start {code}", person=STRANGER)
    assert await told(front) == [
        ("made a link", "for one admin", None, {"role": "admin", "hours": 24}),
        (
            *("came in by a link", f"person {ANNA}"),
            *({"role": "member", "name": "Anna"}, {"role": "admin", "name": "Anna"}),
        ),
    ]
    assert code not in str(await changes(front))


async def test_a_limit_is_written_down_when_it_is_set_and_when_it_is_taken_back(front: Front):
    for words in (f"{ANNA} 100", f"{ANNA} none", f"{ANNA} default", "all 7"):
        await front.write(f"/limits {words}", person=ADMIN)
    a_day = "canvases a day"
    assert [(before, after) for _, _, before, after in await told(front)] == [
        (None, {a_day: 100}),
        ({a_day: 100}, {a_day: None}),
        ({a_day: None}, None),
        (None, {a_day: 7}),
    ]
    assert [one.subject for one in await changes(front)][-2:] == [f"person {ANNA}", "every member"]


async def test_what_was_refused_is_no_change(front: Front):
    await front.write("/limits all 5", person=ANNA)
    await front.write(f"/people remove {ADMIN}", person=ADMIN)
    await front.write(f"/people add {ANNA}", person=ADMIN)
    assert await changes(front) == []
