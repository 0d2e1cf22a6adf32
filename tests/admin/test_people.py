"""People: figures are the report's and the rows', limits and links those of the chat, refusals pages."""

import csv
import io
import random
import re
import time
from html import unescape

import pytest

from bot.db.engine import Database
from bot.db.people import groups, limits, people
from bot.db.people.groups import Group
from bot.db.people.limits import QuotaRule
from bot.db.tools import audit
from bot.db.tools.audit import AuditEntry
from bot.usage.queries import load_report
from bot.usage.query_args import parse_scope
from bot.usage.report import ReportQuery
from tests.support.admin_page import ANN, AdminPageHarness, build_running_gateway, open_admin_page
from tests.support.usage_rows import UsageRows

BOB = 8
CY = 9
GROUP = -100200
HOSTILE = '<img src=x onerror="alert(1)"></td><script>'
FIRST_DAY = 1_790_812_800.0  # 2026-10-01 in UTC
MONTH = "from=2026-10-01&to=2026-10-30"


async def let_in(database: Database, *, now: float) -> None:
    async with database.transaction() as tx:
        await people.put(tx, BOB, HOSTILE, "member", let_in_by=ANN, now=now)
        await people.put(tx, CY, "Cy", "blocked", now=now)
        await people.set_reachable(tx, BOB, reachable=False)
        await groups.put(tx, Group(GROUP, HOSTILE, "in", now, let_in_by=ANN, speakers="everyone"))
        await groups.put(tx, Group(GROUP - 1, "Choir", "asked", now, hears_all=False))
        await people.register_stranger(tx, 10, HOSTILE, now=now)


async def read_table(page: AdminPageHarness, name: str, query: str = "") -> dict[str, dict[str, str]]:
    """The rows of a table as they are exported, by their number."""
    text = await page.get_text(f"/admin/people?{query}&export=csv&table={name}")
    return {row["number"].lstrip("'"): row for row in csv.DictReader(io.StringIO(text))}


async def list_changes(database: Database) -> list[AuditEntry]:
    async with database.read_transaction() as tx:
        entries = await audit.list_entries(tx)
    return [entry for entry in reversed(entries) if not entry.what.startswith("logged")]


async def test_figures_are_those_of_the_report_and_of_the_rows(database: Database, database_url: str):
    seed = 1
    print(f"seed {seed}")
    rng = random.Random(seed)
    rows = UsageRows(database)
    turns = dict.fromkeys((ANN, BOB), 0)
    canvases = dict.fromkeys((ANN, BOB), 0)
    for _ in range(40):
        person = rng.choice((ANN, BOB))
        received_at = FIRST_DAY + rng.random() * 30 * 86_400
        turn = await rows.add_turn(person=person, received_at=received_at, began_at=received_at)
        turns[person] += 1
        for step in range(rng.randrange(3)):
            tokens = rng.randrange(1, 2000)
            await rows.add_call(turn, step=step, completion_tokens=tokens, created_at=received_at)
            canvases[person] += (tokens + 255) // 256
    turn = await rows.add_turn(person=BOB, received_at=FIRST_DAY, began_at=FIRST_DAY)
    turns[BOB] += 1
    await rows.add_call(turn, completion_tokens=None, purpose="decision", created_at=FIRST_DAY)
    await rows.add_turn(person=BOB, received_at=FIRST_DAY + 31 * 86_400)
    await let_in(database, now=time.time())
    async with open_admin_page(database, database_url) as page:
        shown = await read_table(page, "people", MONTH)
        scope = parse_scope("2026-10-01", "2026-10-30", None, None, None, now=FIRST_DAY + 40 * 86_400)
        async with database.read_transaction() as tx:
            report = await load_report(tx, ReportQuery(scope, "user"))
        for person in (ANN, BOB):
            [group] = [group for group in report.groups if group.key == person]
            row = shown[str(person)]
            assert group.turns is not None
            assert int(row["turns"]) == group.turns.turns == turns[person]
            reported = group.calls.canvases if group.calls is not None else 0
            assert int(row["canvases"]) == reported == canvases[person]
            unknown = 0 if group.calls is None else group.calls.calls - group.calls.output_known
            assert int(row["unknown_calls"]) == unknown == (person == BOB)  # as on Usage, reads as well
        assert (shown[str(CY)]["turns"], shown[str(CY)]["canvases"]) == ("0", "0")
        text = await page.get_text(f"/admin/people?{MONTH}")
        assert f"/admin/turns?from=2026-10-01&amp;to=2026-10-30&amp;user={BOB}" in text


async def test_people_and_groups_are_shown_with_every_name_escaped(database: Database, database_url: str):
    await let_in(database, now=time.time())
    async with open_admin_page(database, database_url, admin_ids="7,77", canvases_a_day=50) as page:
        shown = await read_table(page, "people")
        assert {number: (row["role"], row["let_in_by"], row["limit"]) for number, row in shown.items()} == {
            "77": ("admin (ADMIN_IDS)", "–", "none"),
            str(ANN): ("admin (ADMIN_IDS)", "–", "none"),
            str(BOB): ("member, has blocked the bot", "Ann", "50"),
            str(CY): ("blocked", "–", "50"),
        }
        shown_groups = await read_table(page, "groups")
        assert shown_groups[str(GROUP)]["speakers"] == "everybody there"
        assert shown_groups[str(GROUP - 1)]["state"] == "waits to be let in"
        assert shown_groups[str(GROUP - 1)]["sees"] == "commands and replies"
        text = (await page.get_text("/admin/people")).partition("<main")[2]
        assert "<img" not in text
        assert "<script" not in text
        assert text.count("&lt;img src=x") >= 3


async def test_limits_are_set_as_in_the_chat(database: Database, database_url: str):
    await let_in(database, now=time.time())
    changes: list[str] = []
    gateway = build_running_gateway(database, on_limits_changed=lambda: changes.append("limit"))
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        for holder, value in ((BOB, "200"), (0, "90"), (GROUP, "300"), (BOB, "none"), (BOB, "default")):
            answer = await page.post("/admin/people/limit", {"holder": str(holder), "value": value})
            assert (answer.status_code, answer.headers["location"]) == (303, "/admin/people")
        assert len(changes) == 5
        entries = await list_changes(database)
        assert {(entry.who, entry.via, entry.what) for entry in entries} == {(ANN, "page", "set a limit")}
        assert [(entry.subject, entry.before, entry.after) for entry in entries] == [
            (f"person {BOB}", None, {"canvases a day": 200}),
            ("every member", None, {"canvases a day": 90}),
            (f"group {GROUP}", None, {"canvases a day": 300}),
            (f"person {BOB}", {"canvases a day": 200}, {"canvases a day": None}),
            (f"person {BOB}", {"canvases a day": None}, None),
        ]
        async with database.read_transaction() as tx:
            assert await limits.list_rules(tx) == [QuotaRule(GROUP, 300), QuotaRule(0, 90)]
        assert (await read_table(page, "people"))[str(BOB)]["limit"] == "90"


@pytest.mark.parametrize("role", ["member", "admin"])
async def test_a_link_lets_one_person_in_once(database: Database, database_url: str, role: str):
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        answer = await page.post("/admin/people/invite", {"role": role})
        [code] = re.findall(r"https://t\.me/canvas_bot\?start=([\w-]+)", answer.text)
        assert code not in await page.get_text("/admin/people")
        async with database.transaction() as tx:
            assert await people.redeem_invite(tx, code, 11, "Di", now=time.time()) == role
            assert await people.redeem_invite(tx, code, 12, "Ed", now=time.time()) is None
        [entry] = await list_changes(database)
        assert (entry.what, entry.subject, entry.after) == (
            "made a link",
            f"for one {role}",
            {"role": role, "hours": 24},
        )
        assert code not in str(entry)


REFUSALS: tuple[tuple[str, dict[str, str], int, str], ...] = (
    ("limit", {"holder": str(BOB), "value": "many"}, 400, "A limit is a number of canvases"),
    ("limit", {"holder": str(BOB)}, 400, "A limit is a number of canvases"),
    ("limit", {"holder": "4711", "value": "5"}, 404, "Nobody who is in has the number 4711."),
    ("limit", {"holder": HOSTILE, "value": "5"}, 404, "Nobody who is in has the number <img"),
    ("limit", {"holder": str(GROUP), "value": "none"}, 409, "Everybody may ask in this group"),
    ("invite", {"role": "owner"}, 400, "for a member or for an admin"),
    ("invite", {}, 400, "for a member or for an admin"),
)


async def test_refusals_are_pages_and_change_nothing(database: Database, database_url: str):
    await let_in(database, now=time.time())
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        for act, fields, status, words in REFUSALS:
            answer = await page.post(f"/admin/people/{act}", fields)
            assert answer.status_code == status, (act, fields)
            assert words in unescape(answer.text), (act, fields)
            assert "<img" not in answer.text
        assert await list_changes(database) == []
    async with open_admin_page(database, database_url) as page:
        for act, fields in (("invite", {"role": "member"}), ("limit", {"holder": "0", "value": "5"})):
            answer = await page.post(f"/admin/people/{act}", fields)
            assert answer.status_code == 403
            assert "only shows" in answer.text
