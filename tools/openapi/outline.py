"""Walks an OpenAPI document: its operations with what they inherit, its servers, and its authentication.

Pure; runs in a process that can be killed. openapi-pydantic reads the frame, referencing resolves references
and never fetches what it was not given. Each operation is read on its own: a broken one does not keep the
others away.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import httpx

from tools.http.routes import METHODS
from tools.net.policy import host_of
from tools.openapi.authentication import AuthRequirement, find_secret_parameters, read_auth_needs
from tools.openapi.loader import DocumentUnreadable
from tools.openapi.servers import (
    DOCUMENT_SERVERS,
    DocumentServer,
    ServerSettings,
    build_server_url,
    describe_assumptions,
    read_server,
)
from tools.openapi.values import as_list, as_mapping

CALLED_METHODS = tuple(map(str.lower, METHODS))
UNCALLED_METHODS = ("options", "trace")
MAX_REFERENCE_HOPS = 8  # of references that lead to references
MAX_OPERATIONS = 5000


@dataclass(frozen=True, slots=True)
class OpenApiOperation:
    """One operation as it is written, with what its path says for all of its operations (`shared`).

    `shares`: another operation is called the same.
    """

    method: str
    path: str
    written: Mapping[str, Any]
    shared: Mapping[str, Any] = field(default_factory=dict)
    shares: bool = False

    @property
    def method_and_path(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def display_name(self) -> str:
        """What the document calls it."""
        operation_id = self.written.get("operationId")
        if isinstance(operation_id, str) and operation_id.strip():
            return operation_id
        return self.method_and_path

    @property
    def key(self) -> str:
        """What it is picked by."""
        if self.shares:
            return self.method_and_path
        return self.display_name


class Outline:
    """A document that was loaded from `base_url`."""

    def __init__(
        self, document: Mapping[str, Any], base_url: str, settings: ServerSettings = DOCUMENT_SERVERS
    ) -> None:
        from referencing import Registry, Resource

        self.document = document
        self.settings = settings
        self._base_url = base_url
        self._resolver: Any = Registry().with_resource("", Resource.opaque(document)).resolver()

    def list_operations(self) -> list[OpenApiOperation]:
        """Every operation that can be called, in the document's order, MAX_OPERATIONS at most.

        Each has a key of its own.
        """
        operations = list(self._iterate_operations())
        counts = Counter(name for each in operations for name in {each.display_name, each.method_and_path})
        return [replace(operation, shares=counts[operation.display_name] > 1) for operation in operations]

    def _iterate_operations(self) -> Iterator[OpenApiOperation]:
        remaining = MAX_OPERATIONS
        for path, written in self.document["paths"].items():
            item = self._resolve_mapping(written)
            for method in CALLED_METHODS:
                operation = item.get(method)
                if remaining and isinstance(operation, Mapping) and str(path).startswith("/"):
                    remaining -= 1
                    yield OpenApiOperation(method.upper(), str(path), operation, item)

    def list_uncalled_operations(self) -> Iterator[tuple[str, str]]:
        """Operations that are not listed, by key, with the reason."""
        for path, written in self.document["paths"].items():
            item = self._resolve_mapping(written)
            methods = CALLED_METHODS if not str(path).startswith("/") else UNCALLED_METHODS
            for method in methods:
                operation = item.get(method)
                if isinstance(operation, Mapping):
                    reason = f"its method {method.upper()} is not called"
                    if method in CALLED_METHODS:
                        reason = f"its path {str(path)[:60]!r} does not begin with /"
                    yield OpenApiOperation(method.upper(), str(path), operation, item).key, reason

    def list_unresolved_paths(self) -> Iterator[str]:
        """Paths that are references which are not followed, each with the reason."""
        for path, written in self.document["paths"].items():
            try:
                self.resolve(written)
            except DocumentUnreadable as error:
                yield f"{str(path)[:100]}: {error}"

    def _resolve_mapping(self, value: object) -> Mapping[str, Any]:
        try:
            return as_mapping(self.resolve(value))
        except DocumentUnreadable:
            return {}

    def resolve(self, value: object) -> object:
        """The value itself, or what a `$ref` within the document leads to. Raises DocumentUnreadable."""
        from referencing.exceptions import Unresolvable

        for _ in range(MAX_REFERENCE_HOPS):
            if not isinstance(value, Mapping) or "$ref" not in value:
                return value
            reference = value["$ref"]
            if not isinstance(reference, str) or not reference.startswith("#/"):
                raise DocumentUnreadable(
                    f"it refers to {str(reference)[:100]!r}; "
                    "only references within the document (#/…) are followed"
                )
            try:
                value = self._resolver.lookup(reference).contents
            except (Unresolvable, ValueError, TypeError, LookupError):
                raise DocumentUnreadable(
                    f"it refers to {reference[:100]!r}, which is not in the document"
                ) from None
        raise DocumentUnreadable("its references lead to references and on; refer to the thing itself")

    def server_url(self, operation: OpenApiOperation) -> str:
        """The address that an operation's path is appended to, by `build_server_url`."""
        for owner in (operation.written, operation.shared, self.document):
            servers = as_list(owner.get("servers"))
            if servers:
                return build_server_url(read_server(servers[0]), self._base_url, self.settings)
        return build_server_url(DocumentServer("/"), self._base_url, self.settings)

    def list_assumptions(self) -> list[str]:
        """What was taken for granted about the servers of the document, a sentence each."""
        servers = as_list(self.document.get("servers"))
        if not servers:
            return []
        try:
            server = read_server(servers[0])
        except DocumentUnreadable:
            return []
        return list(describe_assumptions(server, self._base_url, self.settings))

    def operation_host(self, operation: OpenApiOperation) -> str:
        """The host that an operation calls. Raises DocumentUnreadable."""
        return host_of(httpx.URL(self.server_url(operation).partition("{")[0]))

    def list_auth_needs(self) -> list[AuthRequirement]:
        """What the service wants to see for authentication."""
        return read_auth_needs(self._security_schemes())

    @cached_property
    def secret_parameters(self) -> frozenset[tuple[str, str]]:
        """Location and name of the parameters that carry a key."""
        return find_secret_parameters(self._security_schemes())

    def _security_schemes(self) -> list[Mapping[str, Any]]:
        components = as_mapping(self.document.get("components"))
        schemes = as_mapping(components.get("securitySchemes"))
        return [self._resolve_mapping(scheme) for scheme in schemes.values()]

    def title(self) -> str:
        """The name the service gives itself; empty when it has none."""
        return str(as_mapping(self.document.get("info")).get("title") or "")
