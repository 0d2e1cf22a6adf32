"""OpenAPI documents: fetched, listed for an admin to pick from, and made into tools.

Reading one is hostile work and happens in a process of its own (`tools/openapi/worker.py`), which alone
imports what understands it. Whatever is wrong with a document is a ToolDefinitionError that says what to do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tools.base import ToolError
from tools.http.routes import HttpRoute, route_from_json
from tools.http.service import NO_CREDENTIALS, PUBLIC_ONLY, Credentials, HttpRequest, HttpService, parse_url
from tools.net.policy import NetworkPolicy, host_of
from tools.openapi import worker as reading
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox
from tools.schemas.signature import ToolDefinitionError

MAX_DOCUMENT_BYTES = 5 * 1024 * 1024
MAX_PICKED = 100
SMALLER_ADVICE = "Give one with only the operations that are needed."
ACCEPT_HEADER = "application/json, application/yaml, */*;q=0.5"
READ_LIMITS = SandboxLimits(
    wall_seconds=30, cpu_seconds=20, memory_bytes=1024 * 1024 * 1024, max_result_bytes=8 * 1024 * 1024
)


@dataclass(frozen=True, slots=True)
class OperationSummary:
    """An operation to pick by its `operation` (its operationId, else "METHOD /path"); `host` is asked."""

    operation: str
    method: str
    path: str
    name: str
    summary: str
    host: str


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """A document that was read. `foreign` are hosts other than its own that operations are asked of: an admin
    confirms them. `needs` is what the service wants to be shown, `problems` what cannot be used; a few words
    each.
    """

    address: str
    base_url: str
    title: str
    version: str
    operations: tuple[OperationSummary, ...]
    foreign_hosts: tuple[str, ...]
    auth_needs: tuple[str, ...]
    problems: tuple[str, ...]
    body: bytes = field(repr=False)

    @property
    def host(self) -> str:
        """The host the document was asked for at."""
        return host_of(httpx.URL(self.address))


@dataclass(frozen=True, slots=True)
class RouteSelection:
    """Routes to what was picked, and by operation why the others cannot be used."""

    routes: tuple[HttpRoute, ...]
    rejections: Mapping[str, str]


async def fetch_document(
    address: str, *, credentials: Credentials = NO_CREDENTIALS, policy: NetworkPolicy = PUBLIC_ONLY
) -> OpenApiDocument:
    """The document at a URL. Raises ToolDefinitionError, also when it cannot be fetched."""
    try:
        service = HttpService("The document", frozenset({host_of(parse_url(address))}), credentials, policy)
        answer = await service.send(
            HttpRequest("GET", address, {"Accept": ACCEPT_HEADER}), MAX_DOCUMENT_BYTES
        )
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error
    if answer.status != 200:
        raise ToolDefinitionError(
            f"{address[:100]} answered {answer.status} {answer.reason}".strip() + ", no document"
        )
    return await read_document(answer.body, address, base_url=answer.address)


async def read_document(body: bytes | str, address: str, *, base_url: str | None = None) -> OpenApiDocument:
    """The document of these bytes, which came from `address`; relative servers are resolved against `base`,
    where it was found in the end. Raises ToolDefinitionError.
    """
    body = body.encode("utf-8", "replace") if isinstance(body, str) else body
    if len(body) >= MAX_DOCUMENT_BYTES:
        raise ToolDefinitionError(
            f"The document is larger than {MAX_DOCUMENT_BYTES // 1024 // 1024} MB. {SMALLER_ADVICE}"
        )
    try:
        own = host_of(parse_url(address))
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error
    base_url = base_url or address
    found = await _run_in_sandbox(reading.outline_document, body, base=base_url)
    return OpenApiDocument(
        address=address,
        base_url=base_url,
        title=found["title"],
        version=found["version"],
        operations=tuple(OperationSummary(**each) for each in found["operations"]),
        foreign_hosts=tuple(host for host in found["hosts"] if host != own),
        auth_needs=tuple(found["needs"]),
        problems=tuple(found["problems"]),
        body=body,
    )


async def build_usable_routes(
    document: OpenApiDocument, picked: Sequence[str], prefix: str = ""
) -> RouteSelection:
    """The routes to the operations picked, each by its `operation`, "METHOD /path" or name; names begin with
    `prefix`.

    Raises ToolDefinitionError for what is not there, and for two that would share a name.
    """
    if not picked or len(picked) > MAX_PICKED:
        raise ToolDefinitionError(f"Pick between one and {MAX_PICKED} of the document's operations.")
    found = await _run_in_sandbox(
        reading.build_picked_routes, document.body, base=document.base_url, picked=list(picked), prefix=prefix
    )
    routes = [route_from_json(each) for each in found["routes"]]
    named: dict[str, HttpRoute] = {}
    for route in routes:
        other = named.setdefault(route.name, route)
        if other is not route:
            raise ToolDefinitionError(
                f"{other.operation} and {route.operation} would both be called {route.name}; pick one of them."
            )
    return RouteSelection(tuple(routes), found["left_out"])


async def build_routes(document: OpenApiDocument, picked: Sequence[str], prefix: str = "") -> list[HttpRoute]:
    """The same when all of them can be used; raises ToolDefinitionError, saying why, for the first that
    cannot.
    """
    found = await build_usable_routes(document, picked, prefix)
    for why in found.rejections.values():
        raise ToolDefinitionError(f"{why}.")
    return list(found.routes)


async def _run_in_sandbox(
    function: Callable[..., dict[str, Any]], body: bytes, **arguments: Any
) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await run_in_sandbox(function, body, READ_LIMITS, **arguments)
    except SandboxStopped as why:
        raise ToolDefinitionError(f"The document cannot be read: {why}. {SMALLER_ADVICE}") from why
    if "unreadable" in found:
        raise ToolDefinitionError(f"The document cannot be used: {found['unreadable']}.")
    return found
