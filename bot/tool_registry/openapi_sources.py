"""OpenAPI documents as sources: previewed, picked from, and refreshed.

Uses the network, stores nothing.

Beside what sources.py reads, the options hold `offered`, the operations to pick from, `unusable`, why others
cannot be picked, `chosen`, the places in that list which an admin has ticked and not added yet, and `search`,
the words that a list in a chat was narrowed to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.operation_search import DocumentOperation, search_operations
from bot.tool_registry.previews import (
    SourcePreview,
    SourceRequest,
    build_preview,
    check_source_name,
    to_sentence,
)
from bot.tool_registry.secret_references import MissingSecret
from bot.tool_registry.secret_suggestions import SecretSuggestion, suggest_secrets
from bot.tool_registry.service_access import (
    ServiceAccess,
    build_http_service,
    build_server_settings,
    check_access,
    read_access,
    write_access,
)
from bot.translations.formats import format_series
from tools.schemas.signature import ToolDefinitionError
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.http.routes import HttpRoute
    from tools.openapi.documents import OpenApiDocument, RouteSelection

ALL = "all"
FILE_SCHEME = "file:"
PICKED_AT_ONCE = 500
KEY_NAMES = frozenset({"token", "api_key", "apikey", "api-key", "x-api-key", "access_token", "auth_token"})
MAX_SIMILAR = 5  # operations that are named where a pick is not found


@dataclass(frozen=True, slots=True)
class DocumentPreview:
    """A document as a source without tools yet, and what an admin should know before they pick.

    `suggestions` are secrets that the service wants and that are not given yet.
    """

    source: Source
    document: "OpenApiDocument"
    warnings: tuple[str, ...]
    suggestions: tuple[SecretSuggestion, ...] = ()


def list_operations(source: Source) -> list[DocumentOperation]:
    """Return the operations to pick from, as the document was seen last."""
    return [DocumentOperation(**operation) for operation in source.options.get("offered", ())]


def search(source: Source, words: str) -> list[int]:
    """Return the places of the operations that have these words, the best first."""
    return search_operations(list_operations(source), words)


def list_registered_operations(source: Source) -> set[str]:
    """Return the operations that are tools of the source already."""
    return {route["operation"] for route in source.options.get("routes", ())}


def find_unconfirmed_hosts(source: Source, operations: Sequence[str]) -> list[str]:
    """Return the hosts that calls of these operations would go to and that nobody has confirmed."""
    confirmed = source.options.get("hosts", ())
    hosts = {operation.host for operation in list_operations(source) if operation.operation in operations}
    return sorted(hosts.difference(confirmed))


def resolve_operations(source: Source, names: Sequence[str]) -> list[str]:
    """Return the operations meant by names, "METHOD /path", numbers of the list, or `all`.

    Raises ChangeRefused.
    """
    operations = list_operations(source)
    if [name.lower() for name in names] == [ALL]:
        return [operation.operation for operation in operations]
    index = _index_operations(operations)
    return [_resolve_operation(source, index, name) for name in names]


def _resolve_operation(source: Source, operations: Mapping[str, DocumentOperation], name: str) -> str:
    operation = operations.get(name.casefold())
    if operation is not None:
        return operation.operation
    for key, reason in source.options.get("unusable", {}).items():
        if key.casefold() == name.casefold():
            raise ChangeRefused("{key} can't be picked: {reason}", key=key, reason=to_sentence(reason))
    offered = list_operations(source)
    similar = [offered[index].operation for index in search_operations(offered, name)[:MAX_SIMILAR]]
    shown_name = repr(name[:60])
    if not similar:
        raise ChangeRefused("The document doesn't have an operation {name}.", name=shown_name)
    raise ChangeRefused(
        "The document doesn't have an operation {name}. Similar: {names}.",
        name=shown_name,
        names=partial(format_series, words=similar),
    )


def _index_operations(operations: Sequence[DocumentOperation]) -> dict[str, DocumentOperation]:
    """Operations by all names that pick them, the first where two have one: keys before names of tools."""
    index: dict[str, DocumentOperation] = {}
    for operation in operations:
        index.setdefault(operation.operation.casefold(), operation)
        index.setdefault(f"{operation.method} {operation.path}".casefold(), operation)
    for number, operation in enumerate(operations, start=1):
        index.setdefault(operation.name.casefold(), operation)
        index.setdefault(str(number), operation)
    return index


def with_confirmed_hosts(source: Source, hosts: Sequence[str]) -> Source:
    """Return the source with these hosts confirmed, too."""
    return source.with_options(hosts=[*source.options.get("hosts", ()), *hosts])


def with_ticked_operations(source: Source, operations: Sequence[str]) -> Source:
    """Return the source with these operations ticked and no others."""
    chosen = [
        index for index, operation in enumerate(list_operations(source)) if operation.operation in operations
    ]
    return source.with_options(chosen=chosen)


async def preview_document(request: SourceRequest, secrets: Mapping[str, str]) -> DocumentPreview:
    """Fetch a document. Raises ChangeRefused with what is wrong with it."""
    check_access(request.access)
    options = {"routes": [], "chosen": [], **write_access(request.access)}
    source = Source(check_source_name(request.name), "openapi", request.address, options)
    document = await _fetch_document(source, secrets, request.private_hosts)
    return DocumentPreview(
        source.with_options(
            hosts=_list_own_hosts(document),
            **_list_offered(document),
            **request.time_limits.to_options("openapi"),
        ),
        document,
        _collect_warnings(document),
        tuple(suggest_secrets(request.name, document.auth_needs, request.access)),
    )


async def preview_operations(
    source: Source, document: "OpenApiDocument", operations: Sequence[str], private_hosts: frozenset[str]
) -> SourcePreview:
    """Preview the source with these operations as tools beside those it has.

    Operations that cannot be used are reported where others can. Raises ChangeRefused.
    """
    usable = await _load_usable_routes(source, document, operations)
    if not usable.routes:
        reasons = " ".join(map(to_sentence, usable.rejections.values()))
        raise ChangeRefused(reasons)
    new_operations = {route.operation for route in usable.routes}
    kept_routes = [
        route for route in source.options.get("routes", ()) if route["operation"] not in new_operations
    ]
    new_routes = await run_in_thread(_to_json, usable.routes)
    extended = source.with_options(routes=[*kept_routes, *new_routes], chosen=[])
    rejections = map(to_sentence, usable.rejections.values())
    reports = (f"{route.name}: {report}" for route in usable.routes for report in route.reported)
    asked = _list_asked_secrets(usable.routes, read_access(extended.options))
    preview = await build_preview(extended, private_hosts, (*asked, *rejections, *reports))
    return replace(preview, picked=frozenset(operations))


def _list_asked_secrets(routes: "Sequence[HttpRoute]", access: ServiceAccess) -> list[str]:
    """Arguments that look like a key and that the model would be asked for, a sentence each."""
    known = {*access.query, *access.fixed, *(name.lower() for name in access.headers)}
    asked = {
        (value.place, value.name)
        for route in routes
        for value in route.values
        if value.place != "path"
        and value.name.lower() in KEY_NAMES
        and not {value.name, value.name.lower()} & known
    }
    return [
        f"The model is asked for {name}, which looks like a secret: give it with --{place} instead."
        for place, name in sorted(asked)
    ]


async def fetch_and_preview_operations(
    source: Source, operations: Sequence[str], secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> SourcePreview:
    """Fetch the document again and preview these operations of it.

    Raises ChangeRefused, also for hosts that are not confirmed.
    """
    hosts = find_unconfirmed_hosts(source, operations)
    if hosts:
        raise ChangeRefused(
            "Calls of {source} would go to {hosts}, which nobody has confirmed yet.",
            source=source.name,
            hosts=partial(format_series, words=hosts),
        )
    document = await _fetch_document(source, secrets, private_hosts)
    return await preview_operations(source, document, operations, private_hosts)


async def refresh_document(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> tuple[Source, tuple[str, ...]]:
    """Return the source as its document says today, and what it has lost by that, a sentence each.

    Raises ChangeRefused.
    """
    document = await _fetch_document(source, secrets, private_hosts)
    available = {operation.operation for operation in document.operations}
    registered = [route["operation"] for route in source.options.get("routes", ())]
    kept = [operation for operation in registered if operation in available]
    lost = [f"{source.name} has no {name} any more." for name in registered if name not in available]
    routes: list[dict[str, Any]] = []
    for start in range(0, len(kept), PICKED_AT_ONCE):
        usable = await _load_usable_routes(source, document, kept[start : start + PICKED_AT_ONCE])
        routes += await run_in_thread(_to_json, usable.routes)
        lost += [f"{source.name}: {to_sentence(reason)}" for reason in usable.rejections.values()]
    refreshed = source.with_options(routes=routes, **_list_offered(document), chosen=[])
    return refreshed, tuple(lost)


def _to_json(routes: "Sequence[HttpRoute]") -> list[dict[str, Any]]:
    return [route.as_json() for route in routes]


def _list_offered(document: "OpenApiDocument") -> dict[str, Any]:
    """The operations to pick from, and why others cannot be picked, as the options of a source hold them."""
    return {"offered": list(map(asdict, document.operations)), "unusable": dict(document.unusable)}


async def _load_usable_routes(
    source: Source, document: "OpenApiDocument", operations: Sequence[str]
) -> "RouteSelection":
    from tools.openapi.documents import build_usable_routes

    try:
        names = {route["operation"]: route["name"] for route in source.options.get("routes", ())}
        return await build_usable_routes(document, operations, f"{source.name}_", names)
    except ToolDefinitionError as error:
        raise ChangeRefused(to_sentence(str(error))) from None


async def _fetch_document(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> "OpenApiDocument":
    from tools.http.service import NO_CREDENTIALS
    from tools.net.policy import NetworkPolicy
    from tools.openapi.documents import fetch_document, load_document_file

    access = read_access(source.options)
    settings = build_server_settings(access)
    try:
        if source.address.startswith(FILE_SCHEME):
            return await load_document_file(source.address, settings=settings)
        credentials = build_http_service(source, secrets, private_hosts).credentials
        if access.base_url and not _has_same_origin(access.base_url, source.address):
            credentials = NO_CREDENTIALS  # they are the service's, and the document is somewhere else
        return await fetch_document(
            source.address,
            credentials=credentials,
            policy=NetworkPolicy(private=private_hosts),
            settings=settings,
        )
    except (ToolDefinitionError, MissingSecret) as error:
        raise ChangeRefused(to_sentence(str(error))) from None


def _has_same_origin(url: str, other: str) -> bool:
    parts, other_parts = urlsplit(url), urlsplit(other)
    return (parts.scheme, parts.netloc.lower()) == (other_parts.scheme, other_parts.netloc.lower())


def _list_own_hosts(document: "OpenApiDocument") -> list[str]:
    """The hosts that need no confirming: that of the base URL an admin gave, else that of the document."""
    if document.settings.base_url:
        return sorted({operation.host for operation in document.operations})
    return [document.host] if document.host else []


def _collect_warnings(document: "OpenApiDocument") -> tuple[str, ...]:
    warnings = []
    if document.foreign_hosts and not document.settings.base_url:
        warnings.append(f"Some calls go to other hosts than its own: {', '.join(document.foreign_hosts)}.")
    return (*warnings, *map(to_sentence, document.problems))
