"""A real service on loopback, with a network policy for invented names and a tool that calls it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from bot.http_server import serve
from tools.arguments import check_arguments
from tools.base import Tool, ToolContext
from tools.http.routes import build_endpoint_route
from tools.http.service import Credentials, HttpService
from tools.http.tools import make_route_tool
from tools.net.policy import NetworkPolicy

API_KEY = "k-1234567890"
SHIP_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Which."},
        "tags": {"type": "array", "items": {"type": "string"}},
        "deep": {"type": "object"},
        "days": {"type": "integer", "minimum": 1, "default": 3},
    },
    "required": ["days"],
}


@dataclass(frozen=True)
class RecordedRequest:
    method: str
    path: str  # as it came, encoded
    query: str
    headers: dict[str, str]
    body: str


@dataclass
class HttpServiceHarness:
    """`responses` by path (as it came); every other request is echoed as JSON."""

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
        """A policy that takes 127.0.0.1 for the public internet.

        Knows `api.test`, `other.test` and `names`.
        """
        addresses_by_name = {"api.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]}
        addresses_by_name |= {name.replace("_", "."): addresses for name, addresses in names.items()}

        async def resolve(host: str, port: int) -> list[str]:
            if host not in addresses_by_name:
                raise OSError("unknown")
            return addresses_by_name[host]

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
    harness = HttpServiceHarness()
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    async with serve(Starlette(routes=[Route("/{path:path}", harness.handle, methods=methods)])) as url:
        harness.url = url
        try:
            yield harness
        finally:
            harness.release.set()


def redirect_response(location: str, status: int = 302) -> Response:
    return RedirectResponse(location, status)


def endless_response(media_type: str = "text/plain") -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)  # lets the loop notice that the reader has gone

    return StreamingResponse(pieces(), media_type=media_type)


def ship_tool(
    harness: HttpServiceHarness,
    method: str = "GET",
    path: str = "/ships/{id}",
    credentials: Credentials | None = None,
    **more: Any,
) -> Tool:
    service = HttpService(
        "shipyard",
        frozenset({harness.host_and_port("api.test")}),
        credentials or Credentials(),
        harness.network_policy(),
    )
    service = replace(service, **more)
    return make_route_tool(
        build_endpoint_route("ship", "About a ship.", method, harness.url_for("api.test", path), SHIP_SCHEMA),
        service,
    )


async def call_tool(tool: Tool, context: ToolContext, **arguments: object) -> Any:
    return await tool.function(check_arguments(tool, arguments), context)
