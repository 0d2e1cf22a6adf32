"""Takes the pictures of README, in full colour: `python -m tests.browser.pictures` writes them to `.github`.

They are read at 560 pixels, so none is much wider than that before it is enlarged for sharp screens.
"""

import asyncio
import contextlib
import io
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.async_api import Browser, Page, expect

from bot.db.engine import open_database
from bot.demo.environment import CANVAS_SECONDS, PREFILL_TOKENS_PER_SECOND
from bot.sim.demo_model.showcase import SHOWCASE_QUESTIONS
from bot.sim.vllm.server import Timing
from tests.browser.conftest import CANDIDATES, launch
from tests.browser.demo_page import open_page
from tests.support.admin_page import log_in, open_admin_page
from tests.support.empty_database import place_empty_database
from tests.support.random_month import fill_month

FOLDER = Path(__file__).parents[2] / ".github"
SCALE = 2
HEIGHT = 640
PHONE_WIDTH = 390
DESKTOP_WIDTH = 1280
ADMIN_WIDTH = 672
GAP = 16


@contextlib.asynccontextmanager
async def open_tab(browser: Browser, address: str, width: int) -> AsyncIterator[Page]:
    """The page at an address in a window of this width."""
    context = await browser.new_context(
        viewport={"width": width, "height": HEIGHT}, device_scale_factor=SCALE, color_scheme="light"
    )
    page = await context.new_page()
    await page.goto(address)
    yield page
    await context.close()


async def take_demo_picture(browser: Browser, file: Path) -> None:
    """A story that is told whole although the gateway was killed: as a phone shows it, and step by step."""
    timing = Timing.canvas(CANVAS_SECONDS, prefill_tokens_per_s=PREFILL_TOKENS_PER_SECOND)
    async with (
        open_page(timing=timing) as demo,
        open_tab(browser, demo.address, DESKTOP_WIDTH) as desktop,
        open_tab(browser, demo.address, PHONE_WIDTH) as phone,
    ):
        await desktop.locator(".keys").get_by_text(SHOWCASE_QUESTIONS[0]).click()
        await expect(desktop.locator("#steps li").filter(has_text="canvas 3")).to_be_visible()
        await desktop.get_by_role("button", name="Kill the gateway").click()
        await expect(desktop.locator("#gateway")).to_contain_text("nothing was lost", timeout=60_000)
        await expect(phone.locator(".brief")).to_be_visible()
        await expect(phone.locator("#sign")).to_be_hidden(timeout=60_000)
        await desktop.mouse.move(0, 0)
        _join([await phone.screenshot(), await desktop.locator("#live").screenshot()], file)


async def take_turns_picture(browser: Browser, file: Path) -> None:
    """What admins see of the turns of a month."""
    with TemporaryDirectory() as folder:
        url = place_empty_database(Path(folder, "canvasgram.db"))
        async with open_database(url) as database:
            await fill_month(database, 7)
            async with (
                open_admin_page(database, url) as harness,
                open_tab(browser, f"{harness.url}/admin/login/none", ADMIN_WIDTH) as page,
            ):
                await log_in(page, harness)
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
        await take_demo_picture(browser, FOLDER / "demo.png")
        await take_turns_picture(browser, FOLDER / "turn.png")


if __name__ == "__main__":
    asyncio.run(main())
