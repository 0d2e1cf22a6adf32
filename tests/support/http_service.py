"""A real service on loopback that writes down what it is asked, and a reach that knows made-up names."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from ipaddress import ip_address

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from bot.http_server import serve
from tools.net.policy import NetworkPolicy


@dataclass(frozen=True)
class RecordedRequest:
    method: str
    path: str  # as it came, encoded
    query: str
    headers: dict[str, str]
    body: str


@dataclass
class HttpServiceHarness:
    """`answers` by path (as it came), else the request is told back as JSON."""

    url: str = ""
    requests: list[RecordedRequest] = field(default_factory=list)
    responses: dict[str, Response] = field(default_factory=dict)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0

    def url_for(self, host: str, path: str = "") -> str:
        return f"http://{host}:{self.port}{path}"

    def host_and_port(self, host: str) -> str:
        return f"{host}:{self.port}"

    def network_policy(self, *private: str, **names: list[str]) -> NetworkPolicy:
        """Lets loopback's 127.0.0.1 pass for the public internet; knows `api.test`, `other.test` and `names`."""
        known = {"api.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]}
        known |= {name.replace("_", "."): addresses for name, addresses in names.items()}

        async def resolve(host: str, port: int) -> list[str]:
            if host not in known:
                raise OSError("unknown")
            return known[host]

        return NetworkPolicy(lambda address: address == ip_address("127.0.0.1"), resolve, frozenset(private))

    async def handle(self, request: Request) -> Response:
        raw = request.scope["raw_path"].decode()
        body = (await request.body()).decode()
        query = request.scope["query_string"].decode()
        self.requests.append(RecordedRequest(request.method, raw, query, dict(request.headers), body))
        if raw == "/hang":
            await self.release.wait()
        if raw in self.responses:
            return self.responses[raw]
        return JSONResponse({"method": request.method, "path": raw, "query": query, "body": body})


@contextlib.asynccontextmanager
async def running_http_service() -> AsyncIterator[HttpServiceHarness]:
    desk = HttpServiceHarness()
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    async with serve(Starlette(routes=[Route("/{path:path}", desk.handle, methods=methods)])) as url:
        desk.url = url
        try:
            yield desk
        finally:
            desk.release.set()


def redirect_response(location: str, status: int = 302) -> Response:
    return RedirectResponse(location, status)


def endless_response() -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)  # else nothing in this loop hears that the reader has gone

    return StreamingResponse(pieces(), media_type="text/plain")
