"""A real headless Chromium, and pages in it that must not complain.

Where none is installed the tests say so and are skipped; in CI, where there must be one, they fail.
"""

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest_asyncio
from playwright.async_api import Browser, Page, Request, async_playwright, expect

from tests.support.missing_programs import skip_for_missing

CANDIDATES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MISSING = (
    f"no Chromium is installed here (looked for {', '.join(CANDIDATES)}), so nothing was tried in a browser"
)

PATIENCE = 300_000  # milliseconds; a busy machine is no finding

Visit = Callable[..., AbstractAsyncContextManager[Page]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The browser of all tests, each of which has a context of its own in it."""
    executable = next(filter(None, map(shutil.which, CANDIDATES)), None)
    if executable is None:
        skip_for_missing(MISSING)
    async with launch(executable) as browser:
        yield browser


@contextlib.asynccontextmanager
async def launch(executable: str) -> AsyncIterator[Browser]:
    """A headless browser of its own, closed when the block ends."""
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, args=ARGUMENTS, timeout=PATIENCE
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(chromium: Browser) -> Visit:
    """`async with visit(address) as page`, in a fresh context; whatever the page complained of fails the
    test.

    What holds one of the words in `forgiven` was to be expected.
    """

    @contextlib.asynccontextmanager
    async def visit(
        address: str, *, width: int = 1000, height: int = 800, forgiven: tuple[str, ...] = (), **more: Any
    ) -> AsyncIterator[Page]:
        context = await chromium.new_context(viewport={"width": width, "height": height}, **more)
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        complaints: list[str] = []
        page.on(
            "console",
            lambda console_message: (
                complaints.append(console_message.text)
                if console_message.type in {"error", "warning"}
                else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("requestfailed", lambda failed: complaints.extend(_list_failures(failed)))
        try:
            await page.goto(address)
            yield page
            expected = ("/events", *forgiven)
            assert [
                complaint for complaint in complaints if not any(word in complaint for word in expected)
            ] == []
        finally:
            await context.close()

    return visit


def _list_failures(request: Request) -> list[str]:
    """What failed; a page that is left while its icon still loads ends that by itself."""
    if request.url.endswith("/icon.svg") and request.failure == "net::ERR_ABORTED":
        return []
    return [f"failed: {request.url}"]
