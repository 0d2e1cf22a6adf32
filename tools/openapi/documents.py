"""OpenAPI documents: fetched, listed for an admin to pick from, and made into tools.

Reading one is hostile work and happens in a process of its own (`tools/openapi/worker.py`), which alone
imports what understands it. Whatever is wrong with a document is a ToolDefinitionError that says what to do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tools.base import ToolError
from tools.http.routes import Route, route_from
from tools.http.service import NONE, PUBLIC, Asked, Secrets, Service, checked
from tools.net.policy import Reach, host_of
from tools.openapi import worker as reading
from tools.sandbox.process import Limits, Stopped, run_apart
from tools.schemas.signature import ToolDefinitionError

BYTES = 5 * 1024 * 1024
PICKED = 100
SMALLER = "Give one with only the operations that are needed."
ACCEPT = "application/json, application/yaml, */*;q=0.5"
READING = Limits(seconds=30, processor=20, memory=1024 * 1024 * 1024, answer=8 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class Listed:
    """An operation to pick by its `operation` (its operationId, else "METHOD /path"); `host` is asked."""

    operation: str
    method: str
    path: str
    name: str
    summary: str
    host: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document that was read. `foreign` are hosts other than its own that operations are asked of: an admin
    confirms them. `needs` is what the service wants to be shown, `problems` what cannot be used; a few words
    each.
    """

    address: str
    base: str
    title: str
    version: str
    operations: tuple[Listed, ...]
    foreign: tuple[str, ...]
    needs: tuple[str, ...]
    problems: tuple[str, ...]
    body: bytes = field(repr=False)

    @property
    def host(self) -> str:
        """The host the document was asked for at."""
        return host_of(httpx.URL(self.address))


@dataclass(frozen=True, slots=True)
class Usable:
    """Routes to what was picked, and by operation why the others cannot be used."""

    routes: tuple[Route, ...]
    left_out: Mapping[str, str]


async def fetch_document(address: str, *, secrets: Secrets = NONE, reach: Reach = PUBLIC) -> Document:
    """The document at a URL. Raises ToolDefinitionError, also when it cannot be fetched."""
    try:
        service = Service("The document", frozenset({host_of(checked(address))}), secrets, reach)
        answer = await service.send(Asked("GET", address, {"Accept": ACCEPT}), BYTES)
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error
    if answer.status != 200:
        raise ToolDefinitionError(
            f"{address[:100]} answered {answer.status} {answer.reason}".strip() + ", no document"
        )
    return await read_document(answer.body, address, base=answer.address)


async def read_document(body: bytes | str, address: str, *, base: str | None = None) -> Document:
    """The document of these bytes, which came from `address`; relative servers are resolved against `base`,
    where it was found in the end. Raises ToolDefinitionError.
    """
    body = body.encode("utf-8", "replace") if isinstance(body, str) else body
    if len(body) >= BYTES:
        raise ToolDefinitionError(f"The document is larger than {BYTES // 1024 // 1024} MB. {SMALLER}")
    try:
        own = host_of(checked(address))
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error
    base = base or address
    found = await _apart(reading.outline, body, base=base)
    return Document(
        address=address,
        base=base,
        title=found["title"],
        version=found["version"],
        operations=tuple(Listed(**each) for each in found["operations"]),
        foreign=tuple(host for host in found["hosts"] if host != own),
        needs=tuple(found["needs"]),
        problems=tuple(found["problems"]),
        body=body,
    )


async def usable_routes(document: Document, picked: Sequence[str], prefix: str = "") -> Usable:
    """The routes to the operations picked, each by its `operation`, "METHOD /path" or name; names begin with
    `prefix`.

    Raises ToolDefinitionError for what is not there, and for two that would share a name.
    """
    if not picked or len(picked) > PICKED:
        raise ToolDefinitionError(f"Pick between one and {PICKED} of the document's operations.")
    found = await _apart(
        reading.routes, document.body, base=document.base, picked=list(picked), prefix=prefix
    )
    routes = [route_from(each) for each in found["routes"]]
    named: dict[str, Route] = {}
    for route in routes:
        other = named.setdefault(route.name, route)
        if other is not route:
            raise ToolDefinitionError(
                f"{other.operation} and {route.operation} would both be called {route.name}; pick one of them."
            )
    return Usable(tuple(routes), found["left_out"])


async def routes_of(document: Document, picked: Sequence[str], prefix: str = "") -> list[Route]:
    """The same when all of them can be used; raises ToolDefinitionError, saying why, for the first that
    cannot.
    """
    found = await usable_routes(document, picked, prefix)
    for why in found.left_out.values():
        raise ToolDefinitionError(f"{why}.")
    return list(found.routes)


async def _apart(work: Callable[..., dict[str, Any]], body: bytes, **arguments: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await run_apart(work, body, READING, **arguments)
    except Stopped as why:
        raise ToolDefinitionError(f"The document cannot be read: {why}. {SMALLER}") from why
    if "unreadable" in found:
        raise ToolDefinitionError(f"The document cannot be used: {found['unreadable']}.")
    return found
