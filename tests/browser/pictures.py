"""Takes the pictures of README, in full colour: `python -m tests.browser.pictures` writes them to `.github`.

They are read at 560 pixels, so none is much wider than that before it is enlarged for sharp screens.
"""

import asyncio
import contextlib
import io
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from PIL import Image
from playwright.async_api import Browser, Page, expect

from bot.demo.environment import CANVAS_SECONDS, PREFILL_TOKENS_PER_SECOND, Demo
from bot.sim.demo_model.showcase import SHOWCASE_QUESTIONS
from bot.sim.vllm.server import Timing
from tests.browser.conftest import CANDIDATES, PATIENCE, launch
from tests.browser.demo_page import DemoPage, kill_in_story, open_page
from tests.support.admin_page import log_in, open_admin_page

FOLDER = Path(__file__).parents[2] / ".github"
SCALE = 2
HEIGHT = 640
PHONE_WIDTH = 390
DESKTOP_WIDTH = 1280
ADMIN_WIDTH = 860
ADMIN_HEIGHT = 440
GAP = 16


@contextlib.asynccontextmanager
async def open_tab(browser: Browser, address: str, width: int) -> AsyncIterator[Page]:
    """The page at an address in a window of this width."""
    context = await browser.new_context(
        viewport={"width": width, "height": HEIGHT}, device_scale_factor=SCALE, color_scheme="light"
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.goto(address)
    yield page
    await context.close()


async def take_pictures(browser: Browser, folder: Path) -> None:
    """Ask the demo what it can show, and kill its gateway in the middle of a story."""
    timing = Timing.canvas(CANVAS_SECONDS, prefill_tokens_per_s=PREFILL_TOKENS_PER_SECOND)
    # After the news, a reminder would ask first; the last question asks back.
    story, news, _reminder, *others, _ = SHOWCASE_QUESTIONS
    async with open_page(timing=timing) as page:
        ben, ann = page.demo.other_person, page.demo.person
        for person, question in (*((ben, question) for question in others), (ann, news)):
            update = person.send(question)
            await page.demo.wait_until_settled(update.update_id, asyncio.Event())
        await _take_demo_picture(browser, page, story, folder / "demo.png")
        await page.demo.wait_for_breakdowns()
        await _take_turns_picture(browser, page.demo, folder / "turns.png")


async def _take_demo_picture(browser: Browser, demo_page: DemoPage, story: str, file: Path) -> None:
    """A story that is told whole although the gateway was killed: as a phone shows it, and step by step."""
    async with (
        open_tab(browser, demo_page.address, DESKTOP_WIDTH) as desktop,
        open_tab(browser, demo_page.address, PHONE_WIDTH) as phone,
    ):
        answered = await desktop.locator(".account").count()
        await expect(desktop.locator(".keys")).to_be_visible()
        button = desktop.get_by_role("button", name=story, exact=True)
        await kill_in_story(desktop, demo_page, 3, button.click())
        await expect(desktop.locator("#gateway")).to_contain_text("nothing was lost")
        await expect(phone.locator(".brief")).to_have_count(answered + 1)
        await expect(phone.locator("#sign")).to_be_hidden()
        await desktop.mouse.move(0, 0)
        _join([await phone.screenshot(), await desktop.locator("#live").screenshot()], file)


async def _take_turns_picture(browser: Browser, demo: Demo, file: Path) -> None:
    """The turns of the demo as admins see them."""
    url = demo.gateway.order.result()["settings"]["database_url"]
    async with (
        open_admin_page(demo.database, url) as harness,
        open_tab(browser, f"{harness.url}/admin/login/none", ADMIN_WIDTH) as page,
    ):
        await log_in(page, harness)
        await page.set_viewport_size({"width": ADMIN_WIDTH, "height": ADMIN_HEIGHT})
        await page.goto(f"{harness.url}/admin/turns")
        await page.screenshot(path=file)


def _join(screenshots: list[bytes], file: Path) -> None:
    """Write pictures side by side."""
    images = [Image.open(io.BytesIO(screenshot)).convert("RGB") for screenshot in screenshots]
    gap = GAP * SCALE
    width = sum(image.width for image in images) + gap * (len(images) - 1)
    joined = Image.new("RGB", (width, max(image.height for image in images)), "white")
    left = 0
    for image in images:
        joined.paste(image, (left, 0))
        left += image.width + gap
    joined.save(file, optimize=True)


async def main() -> None:
    """Write all pictures."""
    executable = next(filter(None, map(shutil.which, CANDIDATES)))
    async with launch(executable) as browser:
        await take_pictures(browser, FOLDER)


if __name__ == "__main__":
    asyncio.run(main())
