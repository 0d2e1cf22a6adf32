"""`canvasgram admin`: the page without a gateway, and links for the page of a running one."""

import asyncio
import re
import socket
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from bot.app.admin_page import create_login_link, serve_admin_page
from bot.db.engine import Database
from bot.errors import QuestionRefused, SchemaUnknown, SettingsRefused, StoreUnavailable
from bot.settings import Settings, build_settings
from tests.support.admin_page import PATIENCE


def build(database_url: str, **values: object) -> Settings:
    return build_settings(telegram_token="1:x", database_url=database_url, **values)


async def test_the_page_is_served_alone_until_it_is_stopped(database_url: str):
    stop = asyncio.Event()
    lines: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        served = tasks.create_task(serve_admin_page(build(database_url), 0, lines.put_nowait, stop))
        link = re.search(r"http://127\.0\.0\.1:\d+/admin/login/\S+", await lines.get())
        assert link
        origin = link[0].partition("/admin")[0]
        async with httpx.AsyncClient(
            headers={"origin": origin}, follow_redirects=True, timeout=PATIENCE
        ) as http:
            assert "Log in as the owner of this machine" in (await http.get(link[0])).text
            page = await http.post(link[0])
        assert (page.status_code, "has never run" in page.text) == (200, True)
        stop.set()
    assert served.result() == 0


async def test_a_link_leads_to_the_page_of_the_gateway(database_url: str):
    with pytest.raises(SettingsRefused, match="The page is off"):
        await create_login_link(build(database_url))
    link = await create_login_link(build(database_url, http_port=8080, admin_page="on"))
    assert link.startswith("http://127.0.0.1:8080/admin/login/")
    address = "https://bot.example.com"
    for written in (address, "https://Bot.example.com:443/"):  # browsers send Host and Origin as the first
        settings = build(database_url, http_port=8080, admin_page="on", admin_url=written)
        assert (await create_login_link(settings)).startswith(f"{address}/admin/login/")
    settings = build(database_url, http_port=8080, admin_page="on", admin_url="https://Bücher.example:8443")
    assert settings.admin_url == "https://xn--bcher-kva.example:8443"  # as browsers send Host and Origin
    settings = build(database_url, http_host="::1", http_port=8080, admin_page="on")
    assert (await create_login_link(settings)).startswith("http://[::1]:8080/admin/login/")


async def test_no_link_is_made_without_a_database_of_this_version(
    tmp_path: Path, database: Database, database_url: str
):
    settings = {"http_port": 8080, "admin_page": "on"}
    with pytest.raises(StoreUnavailable, match="There is no database"):
        await create_login_link(build(f"sqlite+aiosqlite:///{tmp_path}/none.db", **settings))
    assert not (tmp_path / "none.db").exists()
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    with pytest.raises(SchemaUnknown, match="Restart the gateway"):
        await create_login_link(build(database_url, **settings))


@pytest.mark.sqlite
async def test_what_cannot_be_served_is_one_clear_line(database_url: str):
    stop = asyncio.Event()
    with pytest.raises(StoreUnavailable, match="There is no database"):
        await serve_admin_page(build(f"{database_url}.none"), 0, print, stop)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(QuestionRefused, match="Leave --port out"):
            await serve_admin_page(build(database_url), port, print, stop)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"admin_page": "on"}, "ADMIN_PAGE does nothing without HTTP_PORT"),
        ({"admin_url": "https://a.example"}, "ADMIN_URL does nothing without ADMIN_PAGE"),
        ({"http_port": 80, "admin_page": "on", "admin_url": "http://a.example"}, "must begin with https://"),
        ({"http_port": 80, "admin_page": "on", "admin_url": "https://a.example/x"}, "address alone"),
        ({"http_port": 80, "admin_page": "on", "admin_url": "https://ü\u2028.example"}, "a website can have"),
    ],
)
def test_settings_that_serve_no_safe_page_are_refused(values: dict[str, object], words: str):
    with pytest.raises(SettingsRefused, match=words):
        build("sqlite+aiosqlite:///x.db", **values)
