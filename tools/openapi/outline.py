"""Walks an OpenAPI document: its operations with what they inherit, its servers, and its authentication.

Pure; runs in a process that can be killed. openapi-pydantic reads the frame, referencing resolves references
and never fetches what it was not given. Each operation is read on its own: a broken one does not keep the
others away.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urljoin

import httpx

from tools.base import ToolError
from tools.http.service import parse_url
from tools.net.policy import host_of
from tools.openapi.loader import DocumentUnreadable

METHODS = ("get", "head", "post", "put", "patch", "delete")
MAX_REFERENCE_HOPS = 8  # of references that lead to references
MAX_OPERATIONS = 3000


@dataclass(frozen=True, slots=True)
class OpenApiOperation:
    """One operation as it is written, with what its path says for all of its operations (`shared`).

    `shares`: other operations have the same operationId.
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

    def __init__(self, document: Mapping[str, Any], base_url: str) -> None:
        from referencing import Registry, Resource

        self.document = document
        self._base_url = base_url
        self._resolver: Any = Registry().with_resource("", Resource.opaque(document)).resolver()

    def list_operations(self) -> list[OpenApiOperation]:
        """Every operation that can be called, in the document's order, MAX_OPERATIONS at most."""
        operations = list(self._iterate_operations())
        counts = Counter(operation.display_name for operation in operations)
        return [replace(operation, shares=counts[operation.display_name] > 1) for operation in operations]

    def _iterate_operations(self) -> Iterator[OpenApiOperation]:
        remaining = MAX_OPERATIONS
        for path, written in self.document["paths"].items():
            item = self._resolve_mapping(written)
            for method in METHODS:
                operation = item.get(method)
                if remaining and isinstance(operation, Mapping) and str(path).startswith("/"):
                    remaining -= 1
                    yield OpenApiOperation(method.upper(), str(path), operation, item)

    def list_unresolved_paths(self) -> Iterator[str]:
        """Paths that are references which are not followed, each with the reason."""
        for path, written in self.document["paths"].items():
            try:
                self.resolve(written)
            except DocumentUnreadable as error:
                yield f"{str(path)[:100]}: {error}"

    def _resolve_mapping(self, value: object) -> Mapping[str, Any]:
        try:
            resolved = self.resolve(value)
        except DocumentUnreadable:
            return {}
        if isinstance(resolved, Mapping):
            return resolved
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
        """The absolute address that an operation's path is appended to. Raises DocumentUnreadable."""
        for owner in (operation.written, operation.shared, self.document):
            servers = owner.get("servers")
            if isinstance(servers, list) and servers:
                return self._server_address(servers[0])
        return self._server_address({"url": "/"})

    def _server_address(self, raw_server: object) -> str:
        from openapi_pydantic.v3.v3_1 import Server
        from pydantic import ValidationError

        try:
            server = Server.model_validate(raw_server)
        except ValidationError:
            raise DocumentUnreadable("its server has no `url`") from None
        url = server.url
        for name, variable in (server.variables or {}).items():
            url = url.replace(f"{{{name}}}", variable.default)
        try:
            parsed = parse_url(urljoin(self._base_url, url))
        except (ToolError, ValueError) as error:
            raise DocumentUnreadable(f"its server {url[:100]!r} cannot be used: {error}") from None
        if {"{", "}"} & set(url) or parsed.query:
            raise DocumentUnreadable(f"its server {url[:100]!r} has parts that nothing fills in")
        return str(parsed).rstrip("/")

    def operation_host(self, operation: OpenApiOperation) -> str:
        """The host that an operation calls. Raises DocumentUnreadable."""
        return host_of(httpx.URL(self.server_url(operation)))

    def list_auth_needs(self) -> list[str]:
        """What the service wants to see for authentication, a few words each."""
        written = self._section("components", "securitySchemes")
        return sorted(
            {_describe_scheme(scheme) for scheme in map(self._resolve_mapping, written.values()) if scheme}
        )

    def _section(self, *path: str) -> Mapping[str, Any]:
        section: Any = self.document
        for step in path:
            if not isinstance(section, Mapping):
                return {}
            section = section.get(step)
        if isinstance(section, Mapping):
            return section
        return {}

    def title(self) -> str:
        """The name the service gives itself; empty when it has none."""
        return str(self._section("info").get("title") or "")


def _describe_scheme(scheme: Mapping[str, Any]) -> str:
    kind = scheme.get("type")
    location = scheme.get("in")
    if kind == "apiKey" and location == "cookie":
        return f"a key in the cookie {str(scheme.get('name'))[:60]}, and cookies are not sent"
    if kind == "apiKey" and location in ("header", "query"):
        return f"a key in the {location} {str(scheme.get('name'))[:60]}"
    if kind == "http" and str(scheme.get("scheme")).lower() in ("bearer", "basic"):
        if str(scheme["scheme"]).lower() == "bearer":
            return "a token as Bearer"
        return "a name and a password"
    if kind in ("oauth2", "openIdConnect"):
        return "a token as Bearer, which you have to obtain yourself (OAuth)"
    detail = str(location or scheme.get("scheme") or "")
    return f"something that cannot be shown ({str(kind)[:20]} {detail[:20]})"
