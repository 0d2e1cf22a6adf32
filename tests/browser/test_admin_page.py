"""An admin at the page in a real browser: every screen, on a phone and a desktop, in light and dark."""

import contextlib
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Page, Request, Route, expect

from bot.admin.screens import load_screens
from bot.db.engine import open_database
from bot.db.people import groups, people
from bot.db.people.groups import Group
from tests.admin.test_now import fill_queues
from tests.browser.conftest import Visit
from tests.support.admin_page import (
    WIDTHS,
    AdminPageHarness,
    build_running_gateway,
    list_axe_violations,
    log_in,
    measure_sideways_scroll,
    open_admin_page,
)
from tests.support.empty_database import place_empty_database
from tests.support.random_month import fill_month
from tests.support.registered_tools import RegisteredToolsHarness, build_definition

pytestmark = pytest.mark.asyncio(loop_scope="session")
GROUP = -100200
MAX_TAB_STOPS = 12
PAPER_WIDTH = 718  # pixels of A4 between margins of a centimetre
DETAIL_PAGES = (  # what no navigation leads to
    "/admin/tools/shop_list",
    "/admin/tools/shop",
    "/admin/turn/1",
    "/admin/people/9/let-in",
    f"/admin/people/groups/{GROUP}/leave",
)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SELECT_AT_REFRESH = """() => new Promise(done => {
    document.addEventListener("htmx:afterSwap", () => {
        document.getSelection().selectAllChildren(document.querySelector(".live h2"));
        done();
    }, {once: true});
})"""
OUTAGE = re.compile(r"The gateway does not answer\. What you see is from (\d\d:\d\d:\d\d)\.")
HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@contextlib.asynccontextmanager
async def open_filled_page(tmp_path: Path) -> AsyncIterator[AdminPageHarness]:
    """The page on a database in which something of everything stands."""
    url = place_empty_database(tmp_path / "canvasgram.db")
    async with open_database(url) as database:
        now = time.time()
        await fill_queues(database, now=now)
        async with database.transaction() as tx:
            await people.register_stranger(tx, 9, "Cleo", now=now)
            await groups.put(tx, Group(GROUP, "Team", "asked", now))
        tool_rows = RegisteredToolsHarness(database)
        await tool_rows.add_source()
        await tool_rows.add_tool("shop_list", pending=build_definition("shop_list", "Lists.", city="Where."))
        gateway = build_running_gateway(database)
        async with open_admin_page(database, url, gateway=gateway) as harness:
            yield harness


async def test_every_screen_fits_reads_well_and_complains_of_nothing(visit: Visit, tmp_path: Path):
    left_behind = "failed: {}/admin/now/live"  # a refresh under way when the page is left
    async with (
        open_filled_page(tmp_path) as harness,
        visit(
            f"{harness.url}/admin/login/none", forgiven=("400", "403", left_behind.format(harness.url))
        ) as page,
    ):
        await expect(page.get_by_role("heading")).to_have_text("This link does not work")
        await log_in(page, harness)
        navigation = page.get_by_role("navigation", name="Screens")
        for screen in load_screens():
            if screen.title:
                link = navigation.get_by_role("link", name=screen.title, exact=True)
                await link.click()
                await expect(link).to_have_attribute("aria-current", "page")
                await expect(page.get_by_text("Adding up …")).to_have_count(0)
                await assert_fits_and_reads_well(page, screen.name)
        for path in DETAIL_PAGES:
            await page.goto(f"{harness.url}{path}")
            await assert_fits_and_reads_well(page, path)

        await let_in_by_keyboard(page, harness.url)


async def assert_fits_and_reads_well(page: Page, name: str) -> None:
    """Assert that a page has no sideways scroll and no violation, in each scheme and at each width."""
    await page.wait_for_load_state()
    await page.evaluate(HIDE, arg=True)  # so that it does not refresh itself meanwhile
    await expect(page.locator(".htmx-request")).to_have_count(0)  # nor a refresh that had begun ends
    for scheme, width in zip(SCHEMES, WIDTHS, strict=True):
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": 900})
        assert await measure_sideways_scroll(page) == 0, (name, scheme, width)
        assert await list_axe_violations(page) == [], (name, scheme, width)


async def let_in_by_keyboard(page: Page, url: str) -> None:
    """Cleo is let in without a mouse: the link in her row, then the button of the question."""
    await page.goto(f"{url}/admin/people")
    await page.get_by_role("link", name="Let in Cleo").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Let in Cleo?")
    await page.get_by_role("main").focus()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Let in")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_have_text("Cleo now has access.")
    await expect(page.get_by_role("link", name="Block Cleo")).to_be_visible()
    await refuse_a_limit(page)


async def refuse_a_limit(page: Page) -> None:
    """A form that is refused says so where the focus is, and leads back to what was typed."""
    await page.get_by_label("Canvases a day").focus()
    await page.keyboard.type("plenty")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Back to the form")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("People")


async def test_now_refreshes_itself_and_rests_while_the_tab_is_hidden(visit: Visit, tmp_path: Path):
    forgiven = ("/admin/now/live", "Failed to load resource", "htmx:afterRequest", "htmx:sendError")
    async with (
        open_filled_page(tmp_path) as harness,
        visit(await harness.create_link(), forgiven=forgiven, timezone_id="America/Lima") as page,
    ):
        await page.get_by_role("button", name="Log in as Ann").click()
        async with page.expect_request("**/admin/now/live"):
            pass
        await page.evaluate(HIDE, arg=True)
        requests: list[Request] = []
        page.on("request", lambda request: requests.append(request))
        for _ in range(3):
            await page.evaluate("htmx.trigger(document.querySelector('.live'), 'seen')")
        assert requests == []
        async with page.expect_response("**/admin/now/live") as refreshed:
            await page.evaluate(HIDE, arg=False)
        assert (await refreshed.value).status == 200
        await check_reading(page)
        await expect(page.get_by_text("Messages waiting")).to_be_visible()
        await check_outage(page)
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_role("heading")).to_have_text("Logged out")


async def check_reading(page: Page) -> None:
    """Who reads in *Now* is not disturbed: the focus and what was scrolled stay, and a selection is kept."""
    rows = page.get_by_role("region", name="Waiting", exact=True)
    link = rows.get_by_role("link").first
    await page.set_viewport_size({"width": 200, "height": 800})
    await link.focus()
    await rows.evaluate("rows => rows.scrollLeft = 30")
    await page.evaluate(SELECT_AT_REFRESH)  # then none is under way that would take the selection away
    await expect(link).to_be_focused()
    await expect(rows).to_have_js_property("scrollLeft", 30)
    requests: list[Request] = []
    page.on("request", lambda request: requests.append(request))
    for _ in range(3):
        await page.evaluate("htmx.trigger(document.querySelector('.live'), 'seen')")
    assert requests == []
    async with page.expect_response("**/admin/now/live"):
        await page.evaluate("document.getSelection().removeAllRanges()")


async def end_connection(route: Route) -> None:
    """A gateway that is gone."""
    await route.abort()


async def answer_as_proxy(route: Route) -> None:
    """A proxy before a gateway that is gone."""
    await route.fulfill(status=502, body="Bad Gateway")


async def check_outage(page: Page) -> None:
    """While the gateway is away, *Now* keeps its figures and says from when they are, in the admin's zone."""
    live = "**/admin/now/live"
    line = page.get_by_role("alert")
    for handle in (answer_as_proxy, end_connection):
        await page.route(live, handle)
        await expect(line).to_have_text(OUTAGE)
        match = OUTAGE.fullmatch(await line.inner_text())
        assert match
        shown_at = datetime.combine(datetime.now(UTC), time_of_day.fromisoformat(match[1]), UTC)
        assert (datetime.now(UTC) - shown_at) % timedelta(days=1) < timedelta(hours=1)
        await expect(page.get_by_text("Messages waiting")).to_be_visible()
        await page.unroute(live)
        await expect(line).to_have_count(0)


async def test_usage_draws_its_chart_and_is_used_with_the_keyboard(visit: Visit, tmp_path: Path):
    url = place_empty_database(tmp_path / "canvasgram.db")
    async with (
        open_database(url) as database,
        open_admin_page(database, url) as harness,
        visit(f"{harness.url}/admin/login/none", forgiven=("403",)) as page,
    ):
        month = await fill_month(database, 7)
        await log_in(page, harness)
        await page.set_viewport_size({"width": 1280, "height": 900})
        await page.goto(f"{harness.url}/admin/usage?period=30d")
        await page.get_by_text("As a table").click()
        rows = await page.locator("#times-rows tbody tr").all_inner_texts()
        for name, kind in (("Canvases", "canvas"), ("Turns", "turn")):
            columns = page.get_by_role("group", name=f"{name} by day").locator(f"rect.{kind}")
            heights = [
                (await column.bounding_box() or {"height": 0})["height"] for column in await columns.all()
            ]
            assert max(heights) > 40
            titles = await columns.locator("title").all_text_contents()
            days = [title.partition(":")[0] for title in titles]
            assert days == [row.split()[0] for row in rows]
            assert len(days) == 31
        await page.set_viewport_size({"width": 360, "height": 900})
        await check_tabs(page)
        await check_forms(page, harness.url)
        await check_first_screenful(page, harness.url)
        turn = max(month.turns, key=lambda turn: len(month.list_calls(turn["id"])))
        await check_paper(page, harness.url, f"turn/{turn['id']}", "turns?period=90d", "audit")


async def check_first_screenful(page: Page, url: str) -> None:
    """Of *Turns* a desktop shows twenty, a few keys away, and a phone how each ended and how long it took."""
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.goto(f"{url}/admin/turns?period=90d")
    row = page.locator("#turns-rows tbody tr").nth(19)
    box = await row.bounding_box()
    assert box
    assert box["y"] + box["height"] <= 900
    for _ in range(MAX_TAB_STOPS):
        await page.keyboard.press("Tab")
    first_link = page.locator("#turns-rows tbody tr").first.get_by_role("link").first
    await expect(first_link).to_be_focused()
    await page.set_viewport_size({"width": 360, "height": 900})
    for place in range(3):
        box = await page.locator("#turns-rows tbody tr").first.locator("td").nth(place).bounding_box()
        assert box
        assert box["x"] + box["width"] <= 360


async def check_forms(page: Page, url: str) -> None:
    """Filters on a phone: folded away, opened, filled in and sent with the keyboard, then left open."""
    await page.goto(f"{url}/admin/turns?period=90d")
    model = page.get_by_label("Model")
    await expect(model).to_be_hidden()
    await page.get_by_text("Filters", exact=True).focus()
    await page.keyboard.press("Enter")
    await expect(model).to_be_visible()
    await page.get_by_label("Longer than (s)").focus()
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("More steps than")).to_be_focused()
    await page.keyboard.type("70000")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/admin/turns?period=90d&steps=70000")
    await expect(page.get_by_text("No turn in this time fits all filters.")).to_be_visible()
    await expect(model).to_be_visible()
    await page.get_by_role("link", name="Clear").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/admin/turns")
    await page.goto(f"{url}/admin/usage?from=2024-01-01&to=2024-01-02")
    await expect(page.get_by_text("Nothing was used in this time.")).to_be_visible()


async def check_paper(page: Page, url: str, *paths: str) -> None:
    """What is printed on A4 is not cut on the right."""
    await page.emulate_media(media="print")
    await page.set_viewport_size({"width": PAPER_WIDTH, "height": 1000})
    for path in paths:
        await page.goto(f"{url}/admin/{path}")
        assert await measure_sideways_scroll(page) == 0, path


async def check_tabs(page: Page) -> None:
    """Each table is reached with the keyboard and says which it is; nothing is wider than a phone."""
    tabs = page.get_by_role("navigation", name="Tables")
    for title in ("Chat", "Model", "Person × model", "Tool"):
        link = tabs.get_by_role("link", name=title, exact=True)
        await link.focus()
        await page.keyboard.press("Enter")
        heading = page.get_by_role("heading", name=f"By {title.lower()}")
        await expect(heading).to_be_visible()
        await expect(link).to_have_attribute("aria-current", "true")
        assert await measure_sideways_scroll(page) == 0
        assert await list_axe_violations(page) == []
