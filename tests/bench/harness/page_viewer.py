"""An admin at the gateway's page: every screen in turn, while Now refreshes itself; each answer is timed."""

import asyncio
import contextlib
import itertools
import random
import socket
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx

from bot.admin.page_request import Screen
from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.harness.statistics import median
from bot.db.engine import open_database
from bot.db.people import page_sessions
from bot.db.people.page_sessions import ADMIN_PATH

VIEW_SECONDS = 2.0  # from one screen to the next, and from one refresh of Now to the next
FIRST_TURN = "1"  # there is one in each ledger
LONGEST_PERIOD = "90d"  # of filters: the whole ledger of the bench
_LIVE_PATH = f"{ADMIN_PATH}/now/live"
_CONNECT_RETRIES = 5
_PORTS = (20_000, 32_000)
_PATIENCE_SECONDS = 60.0
_TOO_SLOW_STATUS = 503  # the page ended its own query: a figure, no failure


class PageViewer:
    """Opens the page's screens with the session of `http`; `seconds` are those of each answer by its path."""

    def __init__(self, http: httpx.AsyncClient, paths: Sequence[str]) -> None:
        self._http = http
        self._paths = itertools.cycle(paths)
        self.seconds: dict[str, list[float]] = {path: [] for path in (_LIVE_PATH, *paths)}

    async def watch(self) -> None:
        """View the page until cancelled."""
        while True:
            began_at = time.monotonic()
            await self.open(_LIVE_PATH)
            await self.open(next(self._paths))
            await asyncio.sleep(max(0.0, VIEW_SECONDS - (time.monotonic() - began_at)))

    async def open_all(self) -> None:
        """Open every screen once, one after the other."""
        for path in self.seconds:
            await self.open(path)

    def find_slowest(self) -> tuple[str, float]:
        """The screen whose answer takes longest, and the median of its seconds."""
        medians = ((path, median(seconds)) for path, seconds in self.seconds.items())
        known = [(path, seconds) for path, seconds in medians if seconds is not None]
        return max(known, key=lambda pair: pair[1])

    async def open(self, path: str) -> None:
        """Open one of its pages."""
        began_at = time.monotonic()
        answer = await self._http.get(path)
        if answer.status_code not in {200, _TOO_SLOW_STATUS}:
            raise BenchFailed(f"{path} answered {answer.status_code}: {answer.text[:200]}")
        self.seconds[path].append(time.monotonic() - began_at)


def build_page_settings() -> dict[str, str]:
    """Settings of a gateway that serves the page on a free port, of those that no system gives by itself."""
    while True:
        port = random.randrange(*_PORTS)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return {"ADMIN_PAGE": "on", "HTTP_PORT": str(port)}


@contextlib.asynccontextmanager
async def open_page(
    database_file: Path, settings: dict[str, str], paths: Sequence[str]
) -> AsyncIterator[PageViewer]:
    """Log in to the page of the gateway that runs with these settings on this database, to view `paths`."""
    url = f"http://127.0.0.1:{settings['HTTP_PORT']}"
    async with (
        open_database(f"sqlite+aiosqlite:///{database_file}") as database,
        database.transaction() as tx,
    ):
        token = await page_sessions.insert_link(tx, None, now=time.time())
    async with httpx.AsyncClient(
        base_url=url,
        headers={"origin": url},
        timeout=_PATIENCE_SECONDS,
        transport=httpx.AsyncHTTPTransport(retries=_CONNECT_RETRIES),
    ) as http:
        answer = await http.post(page_sessions.build_login_url(url, token))
        if answer.status_code != 303:
            raise BenchFailed(f"the page let nobody in: {answer.status_code}")
        yield PageViewer(http, paths)


def list_paths(screens: Sequence[Screen], period: str = LONGEST_PERIOD) -> list[str]:
    """The addresses of all screens, over a period of their filters, and of one turn."""
    paths = [screen.path + path for screen in screens for path in screen.views]
    shown = (path.replace("{turn}", FIRST_TURN) for path in paths)
    return [f"{path}?period={period}" for path in shown if path != _LIVE_PATH and "{" not in path]
