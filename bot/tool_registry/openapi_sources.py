"""OpenAPI documents as sources: looked at, picked from, and looked at anew. Asks the network, keeps nothing
itself.

Beside what supplying.py reads, the options hold `offered`, the operations there are to pick from, and
`chosen`, the places in that list which an admin has ticked and not added yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.previews import (
    SourcePreview,
    SourceRequest,
    build_tools,
    check_headers,
    check_source_name,
    to_sentence,
)
from bot.tool_registry.sources import MissingSecret, fill_secrets
from tools.schemas.signature import ToolDefinitionError

if TYPE_CHECKING:
    from tools.openapi.documents import OpenApiDocument, RouteSelection

ALL = "all"
MAX_OPERATIONS = 500  # operations of one document that can be picked by their place in the list


@dataclass(frozen=True, slots=True)
class DocumentOperation:
    """One operation of a document, as it stands in a list to pick from; `host` is asked."""

    operation: str
    method: str
    path: str
    name: str
    summary: str
    host: str


@dataclass(frozen=True, slots=True)
class DocumentPreview:
    """A document as a source without tools yet, and what an admin should know before they pick."""

    source: Source
    document: "OpenApiDocument"
    warnings: tuple[str, ...]


def list_operations(source: Source) -> list[DocumentOperation]:
    """What there is to pick from, as it was seen last."""
    return [DocumentOperation(**one) for one in source.options.get("offered", ())]


def list_registered_operations(source: Source) -> set[str]:
    """The operations that are tools of the source already."""
    return {one["operation"] for one in source.options.get("routes", ())}


def find_unconfirmed_hosts(source: Source, operations: Sequence[str]) -> list[str]:
    """Hosts nobody has confirmed that these operations would be asked of."""
    hosts = source.options.get("hosts", ())
    return sorted(
        {one.host for one in list_operations(source) if one.operation in operations and one.host not in hosts}
    )


def resolve_operations(source: Source, names: Sequence[str]) -> list[str]:
    """The operations that are meant by names, "METHOD /path", numbers of the list, or all. Raises
    ChangeRefused.
    """
    there = list_operations(source)
    if [one.lower() for one in names] == [ALL]:
        return [one.operation for one in there]
    return [_resolve_operation(there, word) for word in names]


def _resolve_operation(operations: Sequence[DocumentOperation], name: str) -> str:
    if name.isdecimal() and 1 <= int(name) <= len(operations):
        return operations[int(name) - 1].operation
    wanted = name.casefold()
    for one in operations:
        if wanted in {one.operation.casefold(), one.name.casefold(), f"{one.method} {one.path}".casefold()}:
            return one.operation
    raise ChangeRefused(f"The document has no operation {name[:60]!r}.")


def with_confirmed_hosts(source: Source, hosts: Sequence[str]) -> Source:
    """The source with these hosts taken for its own."""
    return replace(source, options={**source.options, "hosts": [*source.options.get("hosts", ()), *hosts]})


def with_ticked_operations(source: Source, operations: Sequence[str]) -> Source:
    """The source with these operations ticked and no others."""
    chosen = [at for at, one in enumerate(list_operations(source)) if one.operation in operations]
    return replace(source, options={**source.options, "chosen": chosen})


async def preview_document(request: SourceRequest, secrets: Mapping[str, str]) -> DocumentPreview:
    """Fetch a document. Raises ChangeRefused, saying what is wrong with it."""
    bare = {"routes": [], "secrets": {"headers": check_headers(request.headers)}, "chosen": []}
    source = Source(check_source_name(request.name), "openapi", request.address, bare)
    document = await _fetch_document(source, secrets, request.private_hosts)
    listed = [asdict(DocumentOperation(**asdict(one))) for one in document.operations[:MAX_OPERATIONS]]
    source = replace(source, options={**bare, "hosts": [document.host], "offered": listed})
    return DocumentPreview(source, document, _collect_warnings(document))


async def preview_operations(
    source: Source, document: "OpenApiDocument", operations: Sequence[str], private_hosts: frozenset[str]
) -> SourcePreview:
    """The source with these operations as tools beside those it has; what cannot be used is reported where
    others can.

    Raises ChangeRefused.
    """
    usable = await _load_usable_routes(source, document, operations)
    if not usable.routes:
        raise ChangeRefused(" ".join(map(to_sentence, usable.rejections.values())))
    new = {one.name: one.as_json() for one in usable.routes}
    had = source.options.get("routes", ())
    for one in had:
        if one["name"] in new and one["operation"] != new[one["name"]]["operation"]:
            other = new[one["name"]]["operation"]
            raise ChangeRefused(
                f"{other} and {one['operation']}, which is there already, are both called {one['name']}."
            )
    old = [one for one in had if one["name"] not in new]
    found = replace(source, options={**source.options, "routes": [*old, *new.values()], "chosen": []})
    reported = [f"{one.name}: {what}" for one in usable.routes for what in one.reported]
    return SourcePreview(
        found, build_tools(found, private_hosts), (*map(to_sentence, usable.rejections.values()), *reported)
    )


async def fetch_and_preview_operations(
    source: Source, operations: Sequence[str], secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> SourcePreview:
    """The same, with the document fetched anew. Raises ChangeRefused, also for hosts that are not confirmed."""
    hosts = find_unconfirmed_hosts(source, operations)
    if hosts:
        raise ChangeRefused(
            f"{source.name} would be asked at {', '.join(hosts)}, which nobody has confirmed yet."
        )
    return await preview_operations(
        source, await _fetch_document(source, secrets, private_hosts), operations, private_hosts
    )


async def refresh_document(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> tuple[Source, tuple[str, ...]]:
    """The source as its document says today, and what it has lost by that, a sentence each. Raises
    ChangeRefused.
    """
    document = await _fetch_document(source, secrets, private_hosts)
    there = {one.operation for one in document.operations}
    had = [one["operation"] for one in source.options.get("routes", ())]
    kept = [one for one in had if one in there]
    lost = [f"{source.name} has no {one} any more." for one in had if one not in there]
    listed = [asdict(DocumentOperation(**asdict(one))) for one in document.operations[:MAX_OPERATIONS]]
    bare = replace(source, options={**source.options, "routes": [], "offered": listed, "chosen": []})
    if not kept:
        return bare, tuple(lost)
    usable = await _load_usable_routes(source, document, kept)
    routes = [one.as_json() for one in usable.routes]
    lost += [f"{source.name}: {to_sentence(why)}" for why in usable.rejections.values()]
    return replace(bare, options={**bare.options, "routes": routes}), tuple(lost)


async def _load_usable_routes(
    source: Source, document: "OpenApiDocument", operations: Sequence[str]
) -> "RouteSelection":
    from tools.openapi.documents import build_usable_routes

    try:
        return await build_usable_routes(document, operations, f"{source.name}_")
    except ToolDefinitionError as why:
        raise ChangeRefused(to_sentence(str(why))) from None


async def _fetch_document(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> "OpenApiDocument":
    from tools.http.service import Credentials
    from tools.net.policy import NetworkPolicy
    from tools.openapi.documents import fetch_document

    try:
        headers = fill_secrets(source.options.get("secrets", {}).get("headers", {}), secrets)
        return await fetch_document(
            source.address, credentials=Credentials(headers), policy=NetworkPolicy(private=private_hosts)
        )
    except (ToolDefinitionError, MissingSecret) as why:
        raise ChangeRefused(to_sentence(str(why))) from None


def _collect_warnings(document: "OpenApiDocument") -> tuple[str, ...]:
    found: list[Any] = [f"It wants to be shown: {need}." for need in document.auth_needs]
    if document.foreign_hosts:
        found.append(f"Some calls go to other hosts than its own: {', '.join(document.foreign_hosts)}.")
    if len(document.operations) > MAX_OPERATIONS:
        found.append(f"Only the first {MAX_OPERATIONS} of {len(document.operations)} operations are listed.")
    return (*found, *(to_sentence(one) for one in document.problems))
