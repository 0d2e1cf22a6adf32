"""The demo's web: a simulated search engine, and its pages, which `fetch_page` may open."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from bot.http_server import serve
from bot.sim.demo_model.web_pages import WEB_HOSTS, build_web_pages
from bot.sim.search_engine import JSON_ENABLED, SimulatedSearchEngine


@dataclass(frozen=True, slots=True)
class DemoWeb:
    """Where its search engine is, and the `hosts` of its pages, each with its port."""

    search_url: str
    hosts: tuple[str, ...]

    def find_shown_address(self, address: str) -> str:
        """Where a browser finds what is at an address: a page of this web has another one there."""
        name = address.partition("//")[2]
        if name.partition("/")[0] in self.hosts:
            return f"{self.search_url}/{name}"
        return address


@contextlib.asynccontextmanager
async def serve_web() -> AsyncIterator[DemoWeb]:
    """Serve the search engine and its pages while the block runs."""
    engine = SimulatedSearchEngine(formats=JSON_ENABLED)
    async with serve(engine.app) as url:
        port = httpx.URL(url).port
        assert port is not None
        engine.pages = build_web_pages(port, datetime.now(UTC).date())
        yield DemoWeb(url, tuple(f"{host}:{port}" for host in WEB_HOSTS))
