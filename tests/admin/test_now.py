"""Now shows what runs and waits, with every name escaped; and it says what it cannot know."""

import asyncio
import re
import time
from html import unescape

from sqlalchemy import insert

from bot.db.engine import Database
from bot.db.people import groups, people
from bot.db.people.groups import Group
from bot.db.shares import LockHolders, OwnShares
from bot.db.tables import approvals, inbox, jobs, lives, notices, outbox, share_holds, turns
from bot.domain import TASKS_PRIORITY
from bot.llm.seats import SeatLimiter
from tests.support.admin_page import ANN, AdminPageHarness, build_running_gateway, open_admin_page
from tests.support.registered_tools import RegisteredToolsHarness, build_definition
from tests.support.usage_rows import NOON, UsageRows

HOSTILE = '<img src=x onerror="alert(1)"></td><script>alert(2)</script>'
BOB = 8


async def fill_queues(database: Database, *, now: float) -> None:
    """One row of each kind, about Bob, whose name is hostile."""
    turn = {
        "item": 1,
        "lane": "8",
        "person": BOB,
        "conversation": 1,
        "state": "parked",
        "tools": "[]",
        "thinking": False,
        "thinking_why": "",
        "received_at": now,
        "began_at": now,
    }
    item = {"kind": "update", "shape": "text", "lane": "8", "sender": BOB, "received_at": now - 65}
    approval = {
        "turn": 1,
        "step": 1,
        "call_id": "c",
        "tool": f"tool{HOSTILE}",
        "arguments": "{}",
        "hash": "",
        "asker": BOB,
        "lane": "8",
        "who": "admins",
        "why": "",
        "asked_at": now - 30,
        "expires_at": now + 600,
    }
    part = {"lane": "8:3", "final": True, "state": "unknown", "made_at": now - 90, "error": HOSTILE}
    async with database.transaction() as tx:
        await people.put(tx, BOB, HOSTILE, "member", now=now)
        await tx.execute(insert(lives).values(began_at=now - 100, seen_at=now))
        await tx.execute(insert(turns).values(turn))
        await tx.execute(insert(inbox).values(item | {"state": "new"}))
        await tx.execute(insert(inbox).values(item | {"state": "running", "taken_at": now - 5}))
        await tx.execute(insert(inbox).values(item | {"state": "parked"}))
        await tx.execute(insert(approvals).values(approval))
        await tx.execute(insert(outbox).values(part))
        await tx.execute(insert(outbox).values(part | {"made_at": now - 8 * 86_400}))
        await tx.execute(insert(notices).values(subject="s", text=HOSTILE * 20, told_at=now))
        row = {"kind": "task", "person": BOB, "text": "the words of a person", "next_due": now + 3600}
        await tx.execute(insert(jobs).values(row | {"made_at": now}))


async def test_what_waits_is_shown_and_every_name_is_escaped(database: Database, database_url: str):
    now = time.time()
    await fill_queues(database, now=now)
    async with database.transaction() as tx:
        await people.register_stranger(tx, 9, "Cleo", now=now)
        await groups.put(tx, Group(-100200, "Team", "asked", now))
    tool_rows = RegisteredToolsHarness(database)
    await tool_rows.add_source()
    await tool_rows.add_tool("shop_list", pending=build_definition("shop_list", "Lists.", city="Where."))
    async with open_admin_page(database, database_url) as page:
        text = await page.get_text("/admin/now")
        assert "<img src=x" not in text
        assert text.count("<script") == 2
        assert text.count("&lt;img src=x onerror=&#34;alert(1)&#34;&gt;") >= 5
        assert "the words of a person" not in text
        assert get_figures(text) == {
            "Messages waiting": "1",
            "Turns waiting for a person": "1",
            "Deliveries unknown": "1",
            "People asking for access": "1",
            "Groups asking for access": "1",
            "Tools to accept": "1",
        }
        assert "● The gateway runs · seats: only on its own page · no turn failed in 24 hours" in text
        assert "Besides, " not in text  # there is one of each kind
        for table in ("waiting", "approvals", "unknown"):
            assert f'href="#{table}"' in text
        assert "Times are those of UTC." in text
        assert 'id="seats"' not in text


def get_figures(text: str) -> dict[str, str]:
    """The figures of a page by their labels."""
    return dict(re.findall(r"<dt>([^<]*)</dt><dd>(?:<a[^>]*>)?([^<]*)", text))


async def read_table(page: AdminPageHarness, name: str) -> list[list[str]]:
    """The rows of a table, as texts without their last column, the seconds."""
    answer = await page.http.get("/admin/now/live", headers={"hx-request": "true"})
    table = answer.text.partition(f'id="{name}"')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = [row.split("<td") for row in table.split("<tr>")[1:]]
    return [[re.sub("<[^>]*>", "", cell.partition(">")[2]) for cell in row[1:-1]] for row in rows]


async def test_seats_are_shown_with_who_holds_them_and_who_waits(database: Database, database_url: str):
    seats = SeatLimiter(2)
    gateway = build_running_gateway(database, seats={"main": seats})
    done = asyncio.Event()

    async def hold(lane: str, priority: int = 0) -> None:
        async with seats.hold(lane, priority):
            await done.wait()

    async with open_admin_page(database, database_url, gateway=gateway) as page, asyncio.TaskGroup() as tasks:
        tasks.create_task(hold(str(ANN)))
        tasks.create_task(hold("5:2", TASKS_PRIORITY))
        await asyncio.sleep(0)
        tasks.create_task(hold("warm-up", TASKS_PRIORITY))
        tasks.create_task(hold("9"))
        await asyncio.sleep(0)
        assert await read_table(page, "seats") == [
            ["main", "seat 1", "Ann", "a person"],
            ["main", "seat 2", "Chat 5, topic 2", "a task"],
            ["main", "waits, place 1", "Chat 9", "a person"],
            ["main", "waits, place 2", "warm-up", "a task"],
        ]
        text = await page.get_text("/admin/now")
        assert "○ http://gpu:8000/v1 is being asked whether it answers · 2 of 2 seats in use" in text
        gateway.endpoint_watch.is_up = True
        gateway.endpoint_watch.since = time.time()
        assert "● All is well · http://gpu:8000/v1 answers, for " in await page.get_text("/admin/now")
        assert get_figures(text)["Calls waiting for a seat"] == "2"
        done.set()
    assert list(seats.holders) == []


async def test_a_quiet_hour_is_two_lines_and_failures_of_a_day_are_counted(
    database: Database, database_url: str
):
    async with open_admin_page(database, database_url) as page:
        text = await page.get_text("/admin/now")
        assert "✕ The gateway has never run" in text
        assert "Besides, nothing is being done, no message waits, every message is accounted for" in text
        assert "<table" not in text
        rows = UsageRows(database)
        for ending, received_at in (("away", time.time()), ("stopped", time.time()), ("away", NOON)):
            await rows.add_turn(ending=ending, received_at=received_at)
        text = await page.get_text("/admin/now")
        assert get_figures(text) == {"Failed turns ✕": "1"}
        link = re.search(r'href="(/admin/turns\?[^"]*)"', text)
        assert link
        assert len((await page.http.get(f"{unescape(link[1])}&export=json")).json()) == 1


async def test_the_gateways_that_share_the_chats_are_shown(database: Database, database_url: str):
    now = time.time()
    async with database.transaction() as tx:
        for seen_at, ended_at in ((now - 900, None), (now - 10, None), (now, None), (now - 1, now - 1)):
            row = {"began_at": now - 3600, "seen_at": seen_at, "ended_at": ended_at}
            await tx.execute(insert(lives).values(row))
        for share, life in enumerate((1, 2, 2, 3, 4), start=1):
            hold = {"share": share, "epoch": 1, "life": life, "began_at": now}
            await tx.execute(insert(share_holds).values(hold))
    async with open_admin_page(database, database_url) as page:
        assert "The gateway runs" in await page.get_text("/admin/now")
        assert await read_table(page, "replicas") == [["2", "", "2"], ["3", "", "1"]]
    own_shares = OwnShares()
    own_shares.life = 3
    holders = LockHolders(73, replicas={2: 72, 3: 73, 5: 75}, shares={1: 72, 2: 72, 4: 73}, leader=73)
    own_shares.confirm(holders, time.monotonic() + 3600)  # certain for as long
    gateway = build_running_gateway(database, own_shares=own_shares)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        assert await read_table(page, "replicas") == [
            ["2", "", "2"],
            ["3", "leads, shows this page", "1"],
            ["5", "", "0"],
        ]


async def test_what_goes_wrong_is_a_page(database: Database, database_url: str):
    async with open_admin_page(database, database_url) as page:
        assert "There is no such page." in await page.get_text("/admin/nowhere", 404)
        assert (await page.http.post("/admin/now")).status_code == 405
        await page.get_text("/admin/static/000000000000/page.css", 404)
        async with database.transaction() as tx:
            await tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        assert "schema 9999" in await page.get_text("/admin/now", 503)
        answer = await page.http.get("/admin/now/live", headers={"hx-request": "true"})
        assert answer.text.startswith('<p class="error" role="alert">')


async def test_scripts_and_styles_are_cached_for_long_under_names_that_change(
    database: Database, database_url: str
):
    async with open_admin_page(database, database_url) as page:
        text = await page.get_text("/admin/now")
        names = [piece.partition('"')[0] for piece in text.split('="/admin/static/')[1:]]
        assert [name.partition("/")[2] for name in names] == [
            "icon.svg",
            "palette.css",
            "page.css",
            "htmx.min.js",
            "page.js",
        ]
        for name in names:
            answer = await page.http.get(f"/admin/static/{name}")
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
