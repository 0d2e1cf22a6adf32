"""Beside the demo's chat: the newest turn live, and the button that kills the gateway."""

import re

import pytest
from playwright.async_api import Locator, Page, expect

from bot.sim.demo_model.story import STORY
from bot.sim.vllm.server import Timing
from bot.usage.intervals import INTERVAL_LABELS
from tests.browser.conftest import Visit
from tests.browser.demo_page import ask, kill_in_story, open_page
from tests.support.admin_page import list_axe_violations
from tests.support.endpoint.server import reply_with

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("quick_demos")]

NAMES_AND_WIDTHS = """rows => rows.map((row) => [
  row.querySelector(".what").textContent,
  row.querySelector(".track i").getBoundingClientRect().width,
])"""
SCREENS = {"width": 1280, "height": 800}


def list_bars(page: Page) -> Locator:
    return page.locator("#steps li")


async def test_the_newest_turn_is_shown_live_step_by_step(visit: Visit):
    timing = Timing.canvas(0.1)  # so that the whole is told in seconds
    async with open_page(timing=timing) as gateway, visit(gateway.address, **SCREENS) as page:
        gateway.endpoint.hold()
        await ask(page, "Compare the time in Tokyo and New York")
        await expect(list_bars(page).filter(has_text="canvas 1")).to_be_visible()
        await expect(page.locator("#whole")).to_contain_text("so far")
        gateway.endpoint.release()
        await expect(page.locator("#whole")).to_contain_text("in all, stored and delivered")
        steps = await list_bars(page).evaluate_all(NAMES_AND_WIDTHS)
        names = {re.sub(r"\d+$", "", name) for name, _ in steps}
        # What takes no millisecond is not shown; the first canvas was held, and so is.
        assert {"canvas "} <= names <= {"canvas ", "clock × ", *INTERVAL_LABELS.values()}
        assert min(width for _, width in steps) >= 1
        (turn,) = await gateway.demo.load_delivered_turns()
        await expect(page.locator("#whole")).to_contain_text(f"{turn.account['whole']:.2f} s")


async def test_below_1100_pixels_there_is_the_chat_alone(visit: Visit):
    async with open_page() as gateway:
        for width, is_shown in ((1099, False), (1100, True)):
            async with visit(gateway.address, width=width) as page:
                await expect(page.locator(".keys").first).to_be_visible()
                await expect(page.get_by_role("button", name="Kill the gateway")).to_be_visible(
                    visible=is_shown
                )


async def test_a_gateway_killed_in_the_middle_of_a_story_tells_it_whole_and_once(visit: Visit):
    async with open_page(timing=Timing.canvas(0.5)) as gateway, visit(gateway.address, **SCREENS) as page:
        story = page.locator(".keys").get_by_text("Write a long story")
        await kill_in_story(page, gateway, 2, story.click())
        words = page.locator("#gateway")
        await expect(list_bars(page).filter(has_text="down")).to_be_visible()
        await expect(words).to_contain_text("nothing was lost")
        (outage,) = gateway.demo.gateway.outages
        assert outage.seconds is not None
        await expect(words).to_contain_text(f"It came back after {outage.seconds:.1f} s")
        await expect(page.locator(".account")).to_contain_text("down")
        # What the call that was killed had written is not known.
        await expect(page.locator(".account .brief")).to_contain_text(re.compile("≥ [0-9] canvases"))
        told = "\n".join(await page.locator(".row:not(.mine) .text").all_inner_texts())
        for words_of_one_place in (
            "Nobody came to Grey Point",
            "Trim the wick",
            "Boats home",
            "search the bay",
        ):
            assert told.count(words_of_one_place) == 1
        assert told.rstrip().endswith(re.sub(r"[*_`]", "", STORY).strip().splitlines()[-1])
        (turn,) = await gateway.demo.load_delivered_turns()
        assert {part.state for part in turn.parts} == {"done"}
        assert turn.account["down"] > 0


async def test_on_a_phone_an_account_is_one_line_that_opens(visit: Visit):
    async with open_page() as gateway, visit(gateway.address, width=360, height=740) as page:
        await ask(page, "What is new in Grey Point?")
        line = page.locator(".brief")
        await expect(line).to_have_text(re.compile(r"^\d+\.\d s · \d+ % [a-z ]+ · 3 canvases$"))
        box = await page.locator(".account").bounding_box()
        assert box is not None
        assert box["height"] < 30
        await expect(page.locator(".account .counts")).to_be_hidden()
        await line.click()
        await expect(line).to_have_attribute("aria-expanded", "true")
        await expect(page.locator(".account")).to_contain_text("tools (search_web, fetch_page)")
        await expect(page.locator(".account .counts")).to_be_visible()
        controls = await page.locator(".controls").bounding_box()
        assert controls is not None
        assert controls["height"] < 50
        await page.get_by_text("Demo", exact=True).click()
        await expect(page.locator("#notice-details")).to_contain_text("Model and Telegram are simulated.")


async def test_axe_finds_nothing_wrong(visit: Visit):
    async with open_page(reply_with("Yes.")) as gateway:
        for scheme, width in (("light", 360), ("dark", 768), ("light", 1280), ("dark", 1280)):
            options = {"color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}
            async with visit(gateway.address, width=width, **options) as page:
                if width == 360:
                    await ask(page, "hello")
                await expect(page.locator(".account").last).to_be_visible()
                assert await list_axe_violations(page) == [], (scheme, width)
