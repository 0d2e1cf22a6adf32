"""The admins' page over real HTTP, without a gateway: quick to start on a database that a test has filled.

`log_in` logs a browser in. The page of a running gateway is in tests/admin/test_sessions.py.
"""

import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Page

from bot.admin.app import build_admin_app
from bot.admin.page_request import PageDependencies, RunningGateway, Screen
from bot.app.admin_page import build_access_changes
from bot.chat.actions import ActionDependencies
from bot.db.bounded_reader import BoundedReader, open_bounded_reader
from bot.db.engine import Database
from bot.db.people import page_sessions, people
from bot.db.shares import OwnShares
from bot.http_server import serve
from bot.llm.endpoint_watch import EndpointWatch, WatchedEndpoint
from bot.llm.seats import SeatLimiter
from bot.settings import build_settings
from bot.tool_registry.loader import build_builtin_tools
from bot.tool_registry.registry import ToolRegistry
from tests.support.update_harness import UpdateHarness
from tools.base import Tool

ANN = 7
PATIENCE = 300.0  # seconds until an answer is given up; the machine may be busy
AXE_SCRIPT = Path(__file__).parent.parent / "fixtures/axe/axe.min.js"
WIDTHS = (360, 1280)


@dataclass(frozen=True)
class AdminPageHarness:
    """The served page; `http` is logged in as Ann, an admin, with the origin that forms need."""

    url: str
    database: Database
    http: httpx.AsyncClient
    csrf_token: str
    running_gateway: RunningGateway | None

    @property
    def gateway(self) -> RunningGateway:
        """The gateway that the page was opened with."""
        assert self.running_gateway is not None
        return self.running_gateway

    async def create_link(self, person: int | None = ANN) -> str:
        """A login link."""
        async with self.database.transaction() as tx:
            token = await page_sessions.insert_link(tx, person, now=time.time())
        return page_sessions.build_login_url(self.url, token)

    async def get_text(self, path: str, status: int = 200) -> str:
        """The text of a page, which must come with this status."""
        answer = await self.http.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    async def post(self, path: str, fields: Mapping[str, str]) -> httpx.Response:
        """Send a form of the page."""
        return await self.http.post(path, data={**fields, "csrf": self.csrf_token})


def build_running_gateway(
    database: Database,
    *,
    seats: Mapping[str, SeatLimiter] | None = None,
    tools: Iterable[Tool] = (),
    on_limits_changed: Callable[[], None] = lambda: None,
    deps: ActionDependencies | None = None,
    own_shares: OwnShares | None = None,
) -> RunningGateway:
    """What stands for the running gateway, with an endpoint that was never reached and a fake Telegram."""
    watch = EndpointWatch(WatchedEndpoint("http://gpu:8000/v1", None, None, 2))
    registry = ToolRegistry(database, tools, lambda person: person == ANN)
    access = build_access_changes(deps or UpdateHarness(database).deps)
    return RunningGateway(seats or {}, watch, registry, "canvas_bot", on_limits_changed, access, own_shares)


def find_csrf_token(text: str) -> str:
    """The token of the forms of a page."""
    match = re.search(r'name="csrf" value="(\w+)"', text)
    assert match is not None
    return match[1]


@contextlib.asynccontextmanager
async def open_admin_page(
    database: Database,
    database_url: str,
    *,
    gateway: RunningGateway | None = None,
    screens: Sequence[Screen] | None = None,
    **settings: Any,
) -> AsyncIterator[AdminPageHarness]:
    """Serve the page on a database while the block runs, with Ann as an admin.

    `gateway`: what stands for the running one (None: the page only shows). `screens` None: all there are.
    """
    async with database.transaction() as tx:
        await people.put(tx, ANN, "Ann", "admin", now=time.time())
    page_settings = build_settings(telegram_token="1:x", database_url=database_url, **settings)
    builtin_tools = build_builtin_tools(page_settings)

    def build_dependencies(reader: BoundedReader) -> PageDependencies:
        return PageDependencies(page_settings, database, reader, builtin_tools, gateway)

    async with (
        open_bounded_reader(database_url) as reader,
        serve(build_admin_app(build_dependencies(reader), screens)) as url,
        httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=PATIENCE) as http,
    ):
        harness = AdminPageHarness(url, database, http, "", gateway)
        assert (await http.post(await harness.create_link())).status_code == 303
        first_page = await http.get("/admin/", follow_redirects=True)
        yield replace(harness, csrf_token=find_csrf_token(first_page.text))


async def log_in(page: Page, harness: AdminPageHarness) -> None:
    """Log a browser in, as an admin does who opens a link."""
    await page.goto(await harness.create_link())
    await page.get_by_role("button", name="Log in as Ann").click()
    await page.wait_for_url("**/admin/now")


async def list_axe_violations(page: Page) -> list[str]:
    """What axe-core finds wrong with a page: each rule with the elements that break it."""
    if not await page.evaluate("'axe' in window"):  # half a megabyte
        await page.evaluate(AXE_SCRIPT.read_text(encoding="utf-8"))
    result = await page.evaluate("axe.run()")
    return [
        f"{violation['id']}: {[node['html'] for node in violation['nodes']]}"
        for violation in result["violations"]
    ]


async def measure_sideways_scroll(page: Page) -> int:
    """How many pixels a page is wider than its window."""
    root = "document.documentElement"
    return int(await page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))
