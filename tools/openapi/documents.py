"""OpenAPI documents: fetched, listed for an admin to pick from, and made into routes.

Reading one is hostile work and happens in a process of its own (`tools/openapi/worker.py`), the only one that
imports the parsers. Every defect of a document is a ToolDefinitionError that says what to do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from tools.base import ToolError
from tools.http.routes import HttpRoute, route_from_json
from tools.http.service import NO_CREDENTIALS, PUBLIC_ONLY, Credentials, HttpRequest, HttpService, parse_url
from tools.net.policy import ENCRYPTION_ADVICE, NetworkPolicy, host_of
from tools.openapi import worker
from tools.openapi.authentication import AuthRequirement
from tools.openapi.names import choose_distinct_name
from tools.openapi.servers import DOCUMENT_SERVERS, ServerSettings
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox
from tools.schemas.signature import ToolDefinitionError
from tools.threads import run_in_thread

MAX_DOCUMENT_BYTES = 50 * 1024 * 1024
MAX_PICKED = 1000  # at once; each is a tool with two schemas
FETCH_TIMEOUT_SECONDS = 120.0
SMALLER_ADVICE = "Give one with only the operations that are needed, as a file or at a URL."
ACCEPT_HEADER = "application/json, application/yaml, */*;q=0.5"
# Measured: 50 MB of JSON take 3 seconds and 220 MB, 1,000 routes of it 4 seconds, 20 MB of YAML 9.
READ_LIMITS = SandboxLimits(
    wall_seconds=90, cpu_seconds=60, memory_bytes=1536 * 1024 * 1024, max_result_bytes=64 * 1024 * 1024
)


@dataclass(frozen=True, slots=True)
class OperationSummary:
    """An operation that can be picked.

    `operation` is its key (its operationId, else "METHOD /path"), `name` the name of its tool, `host` the
    host that is called.
    """

    operation: str
    method: str
    path: str
    name: str
    summary: str
    host: str


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """A document that was read.

    `base_url` is where it was found in the end, after redirects.
    `foreign_hosts` are hosts other than its own that operations call: an admin confirms them.
    `unusable` are operations that cannot be picked, each with the reason.
    `auth_needs` is what the service wants to see, `problems` what cannot be used, or was taken for granted, a
    few words each. `settings` is what an admin said of its server.
    """

    address: str
    base_url: str
    operations: tuple[OperationSummary, ...]
    foreign_hosts: tuple[str, ...]
    auth_needs: tuple[AuthRequirement, ...]
    problems: tuple[str, ...]
    unusable: Mapping[str, str]
    settings: ServerSettings
    body: bytes = field(repr=False)

    @property
    def host(self) -> str:
        """The host the document was requested from; empty for a file."""
        return _find_own_host(self.address)


@dataclass(frozen=True, slots=True)
class RouteSelection:
    """Routes to the operations picked, and by operation why the others cannot be used."""

    routes: tuple[HttpRoute, ...]
    rejections: Mapping[str, str]


async def fetch_document(
    address: str,
    *,
    credentials: Credentials = NO_CREDENTIALS,
    policy: NetworkPolicy = PUBLIC_ONLY,
    settings: ServerSettings = DOCUMENT_SERVERS,
) -> OpenApiDocument:
    """The document at a URL.

    Raises ToolDefinitionError, also when it cannot be fetched, or only with credentials unencrypted.
    """
    try:
        url = parse_url(address)
        if credentials and policy.can_expose_secrets(url):
            raise ToolDefinitionError(
                f"{address[:100]} would be asked for with secrets unencrypted: {ENCRYPTION_ADVICE}"
            )
        service = HttpService(
            "The document",
            frozenset({host_of(url)}),
            credentials,
            policy,
            FETCH_TIMEOUT_SECONDS,
        )
        response = await service.send(
            HttpRequest("GET", address, {"Accept": ACCEPT_HEADER}), MAX_DOCUMENT_BYTES
        )
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error
    if response.status != 200:
        raise ToolDefinitionError(
            f"{address[:100]} answered {response.status} {response.reason}".strip() + ", no document"
        )
    return await read_document(response.body, address, base_url=response.address, settings=settings)


async def load_document_file(address: str, *, settings: ServerSettings = DOCUMENT_SERVERS) -> OpenApiDocument:
    """The document in a file of this machine, named by a file: URL. Raises ToolDefinitionError."""
    path = Path(unquote(urlsplit(address).path))
    try:
        body = await run_in_thread(_read_file, path)
    except OSError as error:
        reason = error.strerror or "unknown why"
        raise ToolDefinitionError(f"{path} cannot be read: {reason}.") from error
    return await read_document(body, address, settings=settings)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_DOCUMENT_BYTES)


async def read_document(
    body: bytes | str,
    address: str,
    *,
    base_url: str | None = None,
    settings: ServerSettings = DOCUMENT_SERVERS,
    limits: SandboxLimits = READ_LIMITS,
) -> OpenApiDocument:
    """The document of these bytes, which came from `address`.

    Relative servers are resolved against `base_url`, where it was found in the end; None: `address`.
    Raises ToolDefinitionError.
    """
    if isinstance(body, str):
        body = body.encode("utf-8", "replace")
    if len(body) >= MAX_DOCUMENT_BYTES:
        raise ToolDefinitionError(
            f"The document is larger than {MAX_DOCUMENT_BYTES // 1024 // 1024} MB. {SMALLER_ADVICE}"
        )
    own_host = _find_own_host(address)
    base_url = base_url or address
    outline = await _run_in_sandbox(
        worker.outline_document, body, limits, base=base_url, server=asdict(settings)
    )
    return OpenApiDocument(
        address=address,
        base_url=base_url,
        operations=tuple(OperationSummary(**operation) for operation in outline["operations"]),
        foreign_hosts=tuple(host for host in outline["hosts"] if host != own_host),
        auth_needs=tuple(AuthRequirement(**need) for need in outline["needs"]),
        problems=(*outline["assumptions"], *outline["problems"]),
        unusable=outline["unusable"],
        settings=settings,
        body=body,
    )


async def build_usable_routes(
    document: OpenApiDocument,
    picked: Sequence[str],
    prefix: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
) -> RouteSelection:
    """The routes to the operations picked, each by its `operation`.

    The names of their tools begin with `prefix`; operations that are tools already keep theirs (`names`, by
    operation). Where two would share one, the later gets another. Raises ToolDefinitionError for what does
    not exist.
    """
    if not picked or len(picked) > MAX_PICKED:
        raise ToolDefinitionError(
            f"Pick between one and {MAX_PICKED} operations at once, not {len(picked)}. "
            "Search for those you need; more can be picked later."
        )
    result = await _run_in_sandbox(
        worker.build_picked_routes,
        document.body,
        READ_LIMITS,
        base=document.base_url,
        server=asdict(document.settings),
        picked=list(picked),
        prefix=prefix,
    )
    routes = [route_from_json(route) for route in result["routes"]]
    return RouteSelection(tuple(_name_routes(routes, prefix, names)), result["left_out"])


def _name_routes(routes: Sequence[HttpRoute], prefix: str, names: Mapping[str, str]) -> Iterator[HttpRoute]:
    """The routes, each with a name of its own; a name that had to be changed is reported."""
    taken = set(names.values())
    for route in routes:
        name = names.get(route.operation)
        if name is None:
            name = choose_distinct_name(f"{prefix}{route.operation}", route.name, taken)
        taken.add(name)
        reported = route.reported
        if name != route.name and route.operation not in names:
            reported += (f"another operation is {route.name}, so {route.operation} is {name}",)
        yield replace(route, name=name, reported=reported)


def _find_own_host(address: str) -> str:
    """The host of a document; empty for a file. Raises ToolDefinitionError."""
    if address.startswith("file:"):
        return ""
    try:
        return host_of(parse_url(address))
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error


async def _run_in_sandbox(
    function: Callable[..., dict[str, Any]], body: bytes, limits: SandboxLimits, **arguments: Any
) -> dict[str, Any]:
    try:
        result: dict[str, Any] = await run_in_sandbox(function, body, limits, **arguments)
    except SandboxStopped as error:
        raise ToolDefinitionError(f"The document cannot be read: {error}. {SMALLER_ADVICE}") from error
    if "unreadable" in result:
        raise ToolDefinitionError(f"The document cannot be used: {result['unreadable']}.")
    return result
