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
from bot.tool_registry.previews import Offer, Wish, headed, made, named, sentence
from bot.tool_registry.sources import Unfilled, filled
from tools.schemas.signature import ToolDefinitionError

if TYPE_CHECKING:
    from tools.openapi.documents import Document, Usable

ALL = "all"
OFFERED = 500  # operations of one document that can be picked by their place in the list


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a document, as it stands in a list to pick from; `host` is asked."""

    operation: str
    method: str
    path: str
    name: str
    summary: str
    host: str


@dataclass(frozen=True, slots=True)
class Looked:
    """A document as a source without tools yet, and what an admin should know before they pick."""

    source: Source
    document: "Document"
    reported: tuple[str, ...]


def offered(source: Source) -> list[Operation]:
    """What there is to pick from, as it was seen last."""
    return [Operation(**one) for one in source.options.get("offered", ())]


def picked_of(source: Source) -> set[str]:
    """The operations that are tools of the source already."""
    return {one["operation"] for one in source.options.get("routes", ())}


def foreign(source: Source, operations: Sequence[str]) -> list[str]:
    """Hosts nobody has confirmed that these operations would be asked of."""
    hosts = source.options.get("hosts", ())
    return sorted(
        {one.host for one in offered(source) if one.operation in operations and one.host not in hosts}
    )


def meant(source: Source, words: Sequence[str]) -> list[str]:
    """The operations that are meant by names, "METHOD /path", numbers of the list, or all. Raises
    ChangeRefused.
    """
    there = offered(source)
    if [one.lower() for one in words] == [ALL]:
        return [one.operation for one in there]
    return [_meant(there, word) for word in words]


def _meant(there: Sequence[Operation], word: str) -> str:
    if word.isdecimal() and 1 <= int(word) <= len(there):
        return there[int(word) - 1].operation
    wanted = word.casefold()
    for one in there:
        if wanted in {one.operation.casefold(), one.name.casefold(), f"{one.method} {one.path}".casefold()}:
            return one.operation
    raise ChangeRefused(f"The document has no operation {word[:60]!r}.")


def confirmed(source: Source, hosts: Sequence[str]) -> Source:
    """The source with these hosts taken for its own."""
    return replace(source, options={**source.options, "hosts": [*source.options.get("hosts", ()), *hosts]})


def ticked(source: Source, operations: Sequence[str]) -> Source:
    """The source with these operations ticked and no others."""
    chosen = [at for at, one in enumerate(offered(source)) if one.operation in operations]
    return replace(source, options={**source.options, "chosen": chosen})


async def look(wish: Wish, secrets: Mapping[str, str]) -> Looked:
    """Fetch a document. Raises ChangeRefused, saying what is wrong with it."""
    bare = {"routes": [], "secrets": {"headers": headed(wish.headers)}, "chosen": []}
    source = Source(named(wish.name), "openapi", wish.address, bare)
    document = await _fetched(source, secrets, wish.private)
    listed = [asdict(Operation(**asdict(one))) for one in document.operations[:OFFERED]]
    source = replace(source, options={**bare, "hosts": [document.host], "offered": listed})
    return Looked(source, document, _reported(document))


async def picked(
    source: Source, document: "Document", operations: Sequence[str], private: frozenset[str]
) -> Offer:
    """The source with these operations as tools beside those it has; what cannot be used is reported where
    others can.

    Raises ChangeRefused.
    """
    usable = await _usable(source, document, operations)
    if not usable.routes:
        raise ChangeRefused(" ".join(map(sentence, usable.left_out.values())))
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
    return Offer(found, made(found, private), (*map(sentence, usable.left_out.values()), *reported))


async def pick(
    source: Source, operations: Sequence[str], secrets: Mapping[str, str], private: frozenset[str]
) -> Offer:
    """The same, with the document fetched anew. Raises ChangeRefused, also for hosts that are not confirmed."""
    hosts = foreign(source, operations)
    if hosts:
        raise ChangeRefused(
            f"{source.name} would be asked at {', '.join(hosts)}, which nobody has confirmed yet."
        )
    return await picked(source, await _fetched(source, secrets, private), operations, private)


async def refreshed(
    source: Source, secrets: Mapping[str, str], private: frozenset[str]
) -> tuple[Source, tuple[str, ...]]:
    """The source as its document says today, and what it has lost by that, a sentence each. Raises
    ChangeRefused.
    """
    document = await _fetched(source, secrets, private)
    there = {one.operation for one in document.operations}
    had = [one["operation"] for one in source.options.get("routes", ())]
    kept = [one for one in had if one in there]
    lost = [f"{source.name} has no {one} any more." for one in had if one not in there]
    listed = [asdict(Operation(**asdict(one))) for one in document.operations[:OFFERED]]
    bare = replace(source, options={**source.options, "routes": [], "offered": listed, "chosen": []})
    if not kept:
        return bare, tuple(lost)
    usable = await _usable(source, document, kept)
    routes = [one.as_json() for one in usable.routes]
    lost += [f"{source.name}: {sentence(why)}" for why in usable.left_out.values()]
    return replace(bare, options={**bare.options, "routes": routes}), tuple(lost)


async def _usable(source: Source, document: "Document", operations: Sequence[str]) -> "Usable":
    from tools.openapi.documents import usable_routes

    try:
        return await usable_routes(document, operations, f"{source.name}_")
    except ToolDefinitionError as why:
        raise ChangeRefused(sentence(str(why))) from None


async def _fetched(source: Source, secrets: Mapping[str, str], private: frozenset[str]) -> "Document":
    from tools.http.service import Secrets
    from tools.net.policy import Reach
    from tools.openapi.documents import fetch_document

    try:
        headers = filled(source.options.get("secrets", {}).get("headers", {}), secrets)
        return await fetch_document(source.address, secrets=Secrets(headers), reach=Reach(private=private))
    except (ToolDefinitionError, Unfilled) as why:
        raise ChangeRefused(sentence(str(why))) from None


def _reported(document: "Document") -> tuple[str, ...]:
    found: list[Any] = [f"It wants to be shown: {need}." for need in document.needs]
    if document.foreign:
        found.append(f"Some calls go to other hosts than its own: {', '.join(document.foreign)}.")
    if len(document.operations) > OFFERED:
        found.append(f"Only the first {OFFERED} of {len(document.operations)} operations are listed.")
    return (*found, *(sentence(one) for one in document.problems))
