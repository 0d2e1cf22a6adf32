"""The demo's page with the whole gateway behind it, and how a person writes there."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass

from playwright.async_api import Locator, Page, expect

from bot.demo.environment import Demo, open_demo
from bot.demo.page import serve_page
from bot.sim.demo_model.showcase import answer_showcase
from bot.sim.vllm.server import Brain, Timing
from tests.support.endpoint.server import ScriptedEndpoint

PHONE = {"width": 390, "height": 800}


@dataclass
class DemoPage:
    """A demo with its page's address, and its simulated endpoint."""

    demo: Demo
    endpoint: ScriptedEndpoint
    address: str


@contextlib.asynccontextmanager
async def open_page(brain: Brain = answer_showcase, timing: Timing | None = None) -> AsyncIterator[DemoPage]:
    endpoint = ScriptedEndpoint(timing=timing or Timing.instant(), brain=brain)
    async with open_demo(endpoint=endpoint) as demo, serve_page(demo) as address:
        yield DemoPage(demo, endpoint, address)


async def kill_in_story(
    page: Page, gateway: DemoPage, canvases: int, begin: Coroutine[None, None, None]
) -> None:
    """Begin the story, and press the button once it has so many canvases; the model waits until then."""

    async def hold_in_time() -> None:
        await gateway.endpoint.wait_until(
            lambda: any(
                request.canvases >= canvases and request.finished_at is None
                for request in gateway.endpoint.requests
            )
        )
        gateway.endpoint.hold()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold_in_time())  # however long the page takes to begin it
        tasks.create_task(begin)
    shown = page.locator("#live.running li").filter(has_text=f"canvas {canvases}")
    await expect(shown).to_be_visible()
    await page.get_by_role("button", name="Kill the gateway").click()
    killed = re.compile(r"Killed at \d\d:\d\d:\d\d\.")
    await expect(page.locator("#gateway")).to_contain_text(killed)
    gateway.endpoint.release()


async def ask(page: Page, text: str) -> None:
    await expect(page.locator(".keys").first).to_be_visible()  # the greeting has come
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


def answers(page: Page) -> Locator:
    """The bot's messages but its greeting."""
    return page.locator(".row:not(.mine)").filter(has_not=page.get_by_text("To begin, tap an example"))
