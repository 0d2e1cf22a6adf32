"""Who is no admin any more acts no more on the page, by whatever began before."""

import asyncio
import time
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import pytest
from htpy import p

from bot.admin import app as admin_app
from bot.admin.page_request import PageRequest, Redirect, Screen, ScreenPage
from bot.admin.screens import load_screens
from bot.db.engine import Database
from bot.db.people import people
from bot.db.tools import audit
from tests.support.admin_page import ANN, AdminPageHarness, build_running_gateway, open_admin_page

ACT_PATHS = [f"{screen.path}{path}" for screen in load_screens() for path in screen.acts]


async def take_role_away(database: Database) -> None:
    async with database.transaction() as tx:
        await people.put(tx, ANN, "Ann", "member", now=time.time())


async def list_changes(database: Database) -> list[str]:
    async with database.read_transaction() as tx:
        return [entry.what for entry in await audit.list_entries(tx, limit=9)]


async def begin_post(page: AdminPageHarness, path: str, missing: int = 5) -> tuple[asyncio.StreamReader, ...]:
    """Send a form but for its last bytes."""
    body = urlencode({"csrf": page.csrf_token, "role": "admin", "last": "12345"}).encode()
    cookies = "; ".join(f"{name}={value}" for name, value in page.http.cookies.items())
    host = urlsplit(page.url).netloc
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {page.url}\r\nCookie: {cookies}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(head.encode() + body[:-missing])
    await writer.drain()
    return reader, writer  # type: ignore[return-value]


async def test_a_form_that_began_before_the_role_was_lost_changes_nothing(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admin_app, "FORM_SECONDS", 300.0)  # the machine may be busy
    assert len(ACT_PATHS) >= 9
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        begun = [await begin_post(page, path.replace("{number}", "8")) for path in ACT_PATHS]
        await take_role_away(database)
        for reader, writer in begun:
            writer.write(b"12345")  # type: ignore[attr-defined]
            status = await reader.readline()
            assert status.split()[1] == b"401", status
            writer.close()  # type: ignore[attr-defined]
    assert await list_changes(database) == ["logged in"]


async def test_a_role_that_is_lost_while_an_act_runs_is_lost_in_its_transaction(
    database: Database, database_url: str
):
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def act(request: PageRequest, form: Mapping[str, str]) -> Redirect:
        began.set()
        await goes_on.wait()
        async with request.write() as tx:
            await people.put(tx, 99, "Eve", "admin", now=request.now)
        return Redirect("/admin/slow")

    async def show(request: PageRequest) -> ScreenPage:
        from bot.admin.components import act_form

        return ScreenPage("Slow", [p["Slow"], act_form(request, "/admin/slow", "Go")])

    screen = Screen("slow", "Slow", 1, {"": show}, {"": act})
    gateway = build_running_gateway(database)
    async with (
        open_admin_page(database, database_url, gateway=gateway, screens=[screen]) as page,
        asyncio.TaskGroup() as tasks,
    ):
        posting = tasks.create_task(page.post("/admin/slow", {}))
        await began.wait()
        await take_role_away(database)
        goes_on.set()
        answer = await posting
    assert (answer.status_code, "You are logged out." in answer.text) == (401, True)
    async with database.read_transaction() as tx:
        assert await people.find(tx, 99) is None


async def test_a_form_that_does_not_come_is_not_waited_for(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        monkeypatch.setattr(admin_app, "FORM_SECONDS", 0.05)
        reader, writer = await begin_post(page, "/admin/people/invite")
        assert (await reader.readline()).split()[1] == b"408"
        writer.close()  # type: ignore[attr-defined]


async def test_open_links_are_shown_and_can_be_revoked(database: Database, database_url: str):
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        assert "None is open." in await page.get_text("/admin/people")
        async with database.transaction() as tx:
            code = await people.insert_invite(tx, "admin", 60, made_by=ANN, now=time.time())
            [invite] = await people.list_open_invites(tx, now=time.time())
        text = await page.get_text("/admin/people")
        assert "For an admin, by Ann, until " in text
        assert code not in text
        answers = [await page.post("/admin/people/revoke", {"link": invite.code_hash}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [303, 409]
        async with database.transaction() as tx:
            assert await people.redeem_invite(tx, code, 99, "Eve", now=time.time()) is None
    assert "revoked a link" in await list_changes(database)
