"""The demo's web: a simulated search engine, and its pages, which `fetch_page` may open."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from bot.http_server import serve
from bot.sim.demo_model.web_pages import WEB_HOSTS, build_web_pages
from bot.sim.search_engine import JSON_ENABLED, SimulatedSearchEngine
from tools.net.addresses import resolve_host
from tools.net.pages import PAGE_PORTS, PageReader


@dataclass(frozen=True, slots=True)
class DemoWeb:
    """Where its search engine is, and what reads its pages."""

    search_url: str
    page_reader: PageReader

    def find_shown_address(self, address: str) -> str:
        """Where a browser finds what is at an address: a page of this web has another one there."""
        name = address.partition("//")[2]
        if name.partition("/")[0] in self.page_reader.private:
            return f"{self.search_url}/{name}"
        return address


@contextlib.asynccontextmanager
async def serve_web() -> AsyncIterator[DemoWeb]:
    """Serve the search engine and its pages while the block runs.

    The names of their hosts lead to this machine here, and only by name and port: no other private host
    may be opened for that.
    """
    engine = SimulatedSearchEngine(formats=JSON_ENABLED)
    async with serve(engine.app) as url:
        port = httpx.URL(url).port
        assert port is not None
        engine.pages = build_web_pages(port, datetime.now(UTC).date())

        async def resolve(host: str, port: int) -> list[str]:
            if host in WEB_HOSTS:
                return ["127.0.0.1"]
            return await resolve_host(host, port)

        hosts = frozenset(f"{host}:{port}" for host in WEB_HOSTS)
        yield DemoWeb(url, PageReader(resolve=resolve, ports=PAGE_PORTS | {port}, private=hosts))
