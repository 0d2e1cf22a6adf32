"""A check of several servers behind a router that keeps a session where it is, as vllm-router does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.check.findings import CheckReport
from bot.check.judges.server import judge_router
from bot.check.observations import Observations, RouteResponse
from bot.http_server import serve
from tests.support.endpoint_check import LOAD_LIMITS, build_crowded_endpoint, check_url


@dataclass
class StickyRouter:
    """A new session goes to the next server, and stays there; all else goes to the first one."""

    servers: tuple[ASGIApp, ...]
    addresses: tuple[str, ...]
    sessions: dict[bytes, ASGIApp] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/list_workers":
            await JSONResponse({"urls": list(self.addresses)})(scope, receive, send)
            return
        server = self.servers[0]
        session = dict(scope["headers"]).get(b"x-session-id")
        if session is not None:
            next_server = self.servers[len(self.sessions) % len(self.servers)]
            server = self.sessions.setdefault(session, next_server)
        await server(scope, receive, send)


@asynccontextmanager
async def serve_router() -> AsyncIterator[tuple[str, tuple[str, ...]]]:
    """A router in front of two servers of four seats: its address, and theirs."""
    first, second = (build_crowded_endpoint() for _ in range(2))
    async with serve(first.app) as first_url, serve(second.app) as second_url:
        addresses = (first_url, second_url)
        async with serve(StickyRouter((first.app, second.app), addresses)) as router:
            yield router, addresses


async def test_a_router_is_found_and_its_servers_are_to_be_named() -> None:
    async with serve_router() as (router, servers):
        finding = (await check_url(router)).get_finding("router")
    assert finding.status == "warn"
    assert finding.seen == "A vllm-router with 2 servers; the counters of 1 are read."
    assert finding.mend == f"MODEL_METRICS_URLS={','.join(servers)}"


async def test_the_seats_of_all_servers_behind_a_router_are_seen() -> None:
    async with serve_router() as (router, servers):
        report: CheckReport = await check_url(router, servers=servers, seats=8, limits=LOAD_LIMITS)
    assert report.get_finding("router").seen == "The counters of 2 servers are read."
    assert report.get_finding("seats").seen == "8 of 9 calls ran at once, the others waited."
    assert report.get_finding("abort").status == "pass"
    assert report.calls <= report.max_calls == 60


TWO_ENGINES = RouteResponse(200, {"urls": ["http://a@0", "http://a@1"]})
NO_ROUTER = RouteResponse(404, {"detail": "Not Found"})


@pytest.mark.parametrize(
    ("observations", "status", "seen"),
    [
        (Observations("u"), "unknown", "Not told: not asked."),
        (Observations("u", router=NO_ROUTER), "pass", "One server, as far as it shows."),
        (Observations("u", router=TWO_ENGINES), "pass", "One server, as far as it shows."),
        (
            Observations("u", router=NO_ROUTER, servers=("a", "b")),
            "pass",
            "The counters of 2 servers are read.",
        ),
        (
            Observations("u", router=NO_ROUTER, servers=("a", "b"), silent_servers=("b",)),
            "warn",
            "No counters come from b, so none are compared.",
        ),
    ],
)
def test_what_is_said_of_a_router(observations: Observations, status: str, seen: str) -> None:
    verdict = judge_router(observations)
    assert (verdict.status, verdict.seen) == (status, seen)
