"""Who gets in to the admins' page, and who does not: through the whole gateway, over real HTTP."""

import asyncio
import contextlib
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot.admin.app import WRONG_LINKS_PER_MINUTE
from bot.admin.cookies import name_cookie
from bot.db.database_url import parse_database_path
from bot.db.engine import Database, open_database
from bot.db.people import page_sessions, people
from bot.db.tools import audit
from tests.support.admin_page import ANN, PATIENCE, open_admin_page
from tests.support.free_ports import find_free_port
from tests.support.gateway import GatewayHarness, running_gateway


async def ask_for_link(gateway: GatewayHarness) -> str:
    """The link that /admin sends."""
    gateway.ann.send("/admin")
    text = (await gateway.wait_for_texts())[-1]
    link = re.search(r"http://127\.0\.0\.1:\d+/admin/login/\S+", text)
    assert link, text
    return link[0]


async def test_an_admin_logs_in_by_a_link_that_works_once(tmp_path: Path):
    port = find_free_port()
    origin = f"http://127.0.0.1:{port}"
    async with (
        running_gateway(tmp_path, http_port=port, admin_page="on") as gateway,
        httpx.AsyncClient(base_url=origin, headers={"origin": origin}, timeout=PATIENCE) as http,
    ):
        link = await ask_for_link(gateway)
        for _ in range(2):  # what a preview fetches uses nothing up
            assert "Log in as Ann" in (await http.get(link)).text
        answer = await http.post(link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"canvasgram-session-{port}=")
        assert {"HttpOnly", "SameSite=strict", "Path=/admin", "Max-Age=43200"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        page = await http.get("/admin/", follow_redirects=True)
        assert page.status_code == 200
        assert " seats in use" in page.text
        assert page.headers["cache-control"] == "no-store"
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert not re.search(r"<style|<script(?! src=\"/admin/static/)|\sstyle=|\son\w+=", page.text)

        async with httpx.AsyncClient(base_url=origin, headers={"origin": origin}, timeout=PATIENCE) as other:
            for response in (await other.get(link), await other.post(link)):
                assert response.status_code == 403
                assert "used already" in response.text
            answer = await other.get("/admin/now?a=%22%3E")
            assert (answer.status_code, 'href="/admin/now?a=%22%3E"' in answer.text) == (401, True)
            other.cookies.set(name_cookie(origin, "session"), "forged", path="/admin")
            assert (await other.get("/admin/now")).status_code == 401

        assert (await http.get("/healthz")).json()["live"]
        gateway.ann.send("/admin off")
        assert "1 session" in (await gateway.wait_for_texts(2))[-1]
        answer = await http.get("/admin/now")
        assert (answer.status_code, "canvasgram admin --link" in answer.text) == (401, True)
        entries = await load_audit(gateway.settings.database_url)
        assert [(entry.who, entry.via, entry.what) for entry in entries] == [
            (ANN, "telegram", "ended all sessions"),
            (ANN, "page", "logged in"),
        ]


async def load_audit(database_url: str) -> list[audit.AuditEntry]:
    async with open_database(database_url) as database, database.read_transaction() as tx:
        return await audit.list_entries(tx)


async def test_admin_without_the_page_says_how_to_turn_it_on(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("/admin")
        assert "ADMIN_PAGE=on" in (await gateway.wait_for_texts())[0]
        gateway.ann.send("/admin please")
        assert "/admin off" in (await gateway.wait_for_texts(2))[1]


async def test_who_is_no_admin_any_more_is_out_at_once(database: Database, database_url: str):
    async with open_admin_page(database, database_url) as page:
        await page.get_text("/admin/now")
        async with database.transaction() as tx:
            await people.put(tx, ANN, "Ann", "member", now=time.time())
        await page.get_text("/admin/now", 401)
        answer = await page.http.get("/admin/now/live", headers={"hx-request": "true"})
        assert (answer.status_code, answer.headers["hx-refresh"]) == (401, "true")
        assert (await page.http.post(await page.create_link())).status_code == 403
        async with database.transaction() as tx:
            await people.put(tx, ANN, "Ann", "admin", now=time.time())
        await page.get_text("/admin/now", 401)  # the old cookie stays worthless
        link = await page.create_link()
        async with database.transaction() as tx:
            await people.remove(tx, ANN, now=time.time())
            await people.put(tx, ANN, "Ann", "admin", now=time.time())
        assert (await page.http.post(link)).status_code == 403


@pytest.mark.sqlite
async def test_a_held_database_is_said_in_plain_words_and_leaves_the_link_usable(database_url: str):
    stop = asyncio.Event()
    async with (
        open_database(database_url, stop=stop) as database,
        open_admin_page(database, database_url) as page,
    ):
        link = await page.create_link()
        stop.set()  # it waits for other programs only a quarter of a second then
        with contextlib.closing(sqlite3.connect(parse_database_path(database_url))) as other_program:
            other_program.execute("BEGIN IMMEDIATE")
            answer = await page.http.post(link)
            assert (answer.status_code, "your link still works" in answer.text) == (503, True)
            logout = await page.http.post("/admin/logout", data={"csrf": page.csrf_token})
            assert "The database is busy. Try again in a moment.<" in logout.text
        assert (await page.http.post(link)).status_code == 303


async def test_a_link_and_a_session_end_in_time(database: Database):
    async with database.transaction() as tx:
        link = await page_sessions.insert_link(tx, ANN, now=1000.0)
        session = await page_sessions.insert_session(tx, ANN, now=1000.0)
        assert await page_sessions.find_link(tx, link, now=1299.0)
        assert await page_sessions.find_link(tx, link, now=1300.0) is None
        assert await page_sessions.use_link(tx, link, now=1300.0) is None
        assert await page_sessions.find_session(tx, session, now=44_199.0)
        assert await page_sessions.find_session(tx, session, now=44_200.0) is None
        newer = await page_sessions.insert_link(tx, ANN, now=1100.0)
        assert await page_sessions.use_link(tx, link, now=1100.0) is None
        assert await page_sessions.use_link(tx, newer, now=1100.0)
        assert await page_sessions.use_link(tx, newer, now=1100.0) is None


async def test_of_two_who_use_a_link_at_once_one_gets_in(database: Database, database_url: str):
    async with open_admin_page(database, database_url) as page:
        link = await page.create_link()
        answers = await asyncio.gather(*(page.http.post(link) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [303, *[403] * 7]


async def test_wrong_links_are_limited_and_right_ones_work_still(database: Database, database_url: str):
    async with open_admin_page(database, database_url) as page:
        statuses = [
            (await page.http.get(f"/admin/login/wrong{number}")).status_code
            for number in range(WRONG_LINKS_PER_MINUTE + 2)
        ]
        assert statuses == [*[403] * WRONG_LINKS_PER_MINUTE, 429, 429]
        async with database.transaction():  # a stranger waits for no writer, and holds none up
            assert (await page.http.post("/admin/login/wrong")).status_code == 429
        assert (await page.http.post(await page.create_link())).status_code == 303


WRONG_FORMS: tuple[tuple[dict[str, str], dict[str, str] | None], ...] = (
    ({}, {}),
    ({}, {"csrf": "0" * 64}),
    ({"x-csrf-token": "ä"}, {}),
    ({"origin": "https://evil.example"}, None),
    ({"origin": ""}, None),
    ({"origin": "null"}, None),
)
"""Headers and fields of forms that are refused; None: the right token."""


async def test_a_form_needs_its_token_and_the_page_it_came_from(database: Database, database_url: str):
    async with open_admin_page(database, database_url) as page:
        token = re.search(r'name="csrf" value="(\w+)"', await page.get_text("/admin/now"))
        assert token
        for headers, form in WRONG_FORMS:
            fields = {"csrf": token[1]} if form is None else form
            encoded = httpx.Headers(headers, encoding="utf-8")
            answer = await page.http.post("/admin/logout", headers=encoded, data=fields)
            assert answer.status_code == 403, (headers, form)
            assert ("ADMIN_URL" in answer.text) == ("origin" in headers), (headers, form)
        await page.get_text("/admin/now")
        assert (await page.http.post("/admin/logout", data={"csrf": token[1]})).status_code == 200
        await page.get_text("/admin/now", 401)


async def test_the_token_may_come_in_the_header_and_a_large_form_is_refused(
    database: Database, database_url: str
):
    async with open_admin_page(database, database_url) as page:
        text = await page.get_text("/admin/now")
        token = re.search(r'name="csrf" value="(\w+)"', text)
        assert token
        assert f"X-CSRF-Token&#34;: &#34;{token[1]}" in text
        assert (await page.http.post("/admin/logout", content=b"x" * 70_000)).status_code == 413
        answer = await page.http.post("/admin/logout", headers={"x-csrf-token": token[1]})
        assert answer.status_code == 200


HOST = "bot.example.com"
PUBLIC: dict[str, Any] = {"http_port": 8080, "admin_page": "on", "admin_url": f"https://{HOST}"}


ADDRESSES = (
    ("evil.example", "https", 421, "another address"),
    ("bot.example.com", "http", 403, "plain HTTP"),
    ("bot.example.com", None, 403, "plain HTTP"),
    ("bot.example.com:8443", "https", 421, "another address"),
    ("", "https", 421, "another address"),
    ("[", "https", 421, "another address"),
    ("127.0.0.1:99999", None, 421, "another address"),
    ("bot.example.com", "https", 200, "Now"),
    ("BOT.example.com", "https", 200, "Now"),
    ("localhost:8080", None, 200, "Now"),
    ("[::1]:8080", None, 200, "Now"),
)
"""Host, what the proxy says of TLS, and what comes of it."""


async def test_only_the_own_address_is_answered_and_elsewhere_only_behind_tls(
    database: Database, database_url: str
):
    async with open_admin_page(database, database_url, **PUBLIC) as page:
        (session,) = page.http.cookies.values()
        origins = ("http://localhost:8080", PUBLIC["admin_url"])
        cookies = "; ".join(f"{name_cookie(origin, 'session')}={session}" for origin in origins)
        for host, scheme, status, words in ADDRESSES:
            headers = {"host": host, "cookie": cookies} | ({"x-forwarded-proto": scheme} if scheme else {})
            answer = await page.http.get("/admin/now", headers=headers)
            assert (answer.status_code, words in answer.text) == (status, True), (host, scheme)
            assert "content-security-policy" in answer.headers
        headers = {"host": HOST, "origin": PUBLIC["admin_url"], "x-forwarded-proto": "https"}
        for path, host, status in (("", HOST, 303), ("", "evil.example", 421), ("/now/", HOST, 404)):
            answer = await page.http.get(f"/admin{path}", headers=headers | {"host": host})
            assert (answer.status_code, answer.headers["cache-control"]) == (status, "no-store")
            assert answer.headers.get("location", "/admin/") == "/admin/"
        answer = await page.http.post(await page.create_link(), headers=headers)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-canvasgram-session-443=")
        assert {"Secure", "Path=/"} <= set(cookie.split("; "))
        assert "domain" not in cookie.lower()


async def test_without_an_address_the_page_is_for_its_machine_alone(database: Database, database_url: str):
    async with open_admin_page(database, database_url) as page:
        answer = await page.http.get("/admin/now", headers={"host": "203.0.113.9"})
        assert (answer.status_code, "ADMIN_URL" in answer.text) == (421, True)
