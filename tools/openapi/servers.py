"""Where the operations of a document are called: its servers, with what an admin says about them. Pure.

A server may be relative, may have variables, or may be an example that nobody means to call.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin

import httpx

from tools.base import ToolError
from tools.http.routes import SECRET_PLACEHOLDER, check_url_template
from tools.http.service import parse_url
from tools.http.styles import PLACEHOLDER_PATTERN, placeholder_names
from tools.net.policy import host_of
from tools.openapi.loader import DocumentUnreadable
from tools.schemas.signature import ToolDefinitionError

BASE_URL_ADVICE = "say where it is with a base URL (--base-url)"
# As documents write hosts that nobody means: those reserved for examples, and `your-domain.atlassian.net`.
_EXAMPLE_HOST = re.compile(r"(.*\.)?(example|invalid|example\.(com|net|org))|your-.*", re.IGNORECASE)
_LOCAL_HOST = re.compile(r"(.*\.)?(localhost|local)|127\..*|\[::1\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What an admin says about the server of a document.

    `base_url` replaces every server of the document; empty: those hold. `variables` are values of variables
    in the servers. In both a secret stands by its name, as `{name}`. `cookies` are the names of those that
    are sent along.
    """

    base_url: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()


DOCUMENT_SERVERS = ServerSettings()
"""The servers of the document, as they are."""


@dataclass(frozen=True, slots=True)
class DocumentServer:
    """A server as the document writes it, with the defaults of its variables."""

    url: str
    defaults: Mapping[str, str] = field(default_factory=dict)


def read_server(raw_server: object) -> DocumentServer:
    """One entry of `servers`. Raises DocumentUnreadable."""
    from openapi_pydantic.v3.v3_1 import Server
    from pydantic import ValidationError

    try:
        server = Server.model_validate(raw_server)
    except ValidationError:
        raise DocumentUnreadable("its server has no `url`") from None
    variables = server.variables or {}
    return DocumentServer(server.url, {name: variable.default for name, variable in variables.items()})


def build_server_url(server: DocumentServer, document_url: str, settings: ServerSettings) -> str:
    """The absolute address that the paths of operations are appended to.

    A secret in it is a placeholder that begins with SECRET_PLACEHOLDER. Raises DocumentUnreadable.
    """
    url = settings.base_url or server.url
    values = {**server.defaults, **{name: _mark(text) for name, text in settings.variables.items()}}
    for name, text in values.items():
        url = url.replace(f"{{{name}}}", text)
    if settings.base_url:
        url = _mark(url)
    unknown = [name for name in placeholder_names(url) if not name.startswith(SECRET_PLACEHOLDER)]
    if unknown:
        raise DocumentUnreadable(
            f"its server {url[:100]!r} has parts that nothing fills in: set {unknown[0][:60]} with --variable"
        )
    if "?" in url:
        raise DocumentUnreadable(f"its server {url[:100]!r} has a query; an address without one is needed")
    try:
        address = check_url_template(urljoin(document_url, url))
        if "{" not in address:
            address = str(parse_url(address))
        head = parse_url(address.partition("{")[0])
    except (ToolError, ToolDefinitionError, ValueError) as error:
        raise DocumentUnreadable(_explain_unusable(url, str(error))) from None
    if not settings.base_url and _EXAMPLE_HOST.fullmatch(head.host) and not _is_at(head, document_url):
        raise DocumentUnreadable(f"its server {url[:100]!r} is an example: {BASE_URL_ADVICE}")
    return address.rstrip("/")


def describe_assumptions(
    server: DocumentServer, document_url: str, settings: ServerSettings
) -> Iterator[str]:
    """What was taken for granted about where a server is, a sentence each."""
    if settings.base_url:
        return
    for name, default in server.defaults.items():
        if f"{{{name}}}" in server.url and name not in settings.variables:
            yield (
                f"Its server {server.url[:100]} has the variable {name[:60]}, taken to be "
                f"{default[:60]!r}: --variable {name[:60]}=… sets it"
            )
    try:
        url = httpx.URL(build_server_url(server, document_url, settings).partition("{")[0])
    except DocumentUnreadable:
        return
    if _LOCAL_HOST.fullmatch(url.host) and not _is_at(url, document_url):
        yield f"Its server {server.url[:100]} looks like an example: {BASE_URL_ADVICE}"


def _mark(text: str) -> str:
    """The text with placeholders for the secrets that it names."""
    return PLACEHOLDER_PATTERN.sub(
        lambda match: (
            match[0] if match[1].startswith(SECRET_PLACEHOLDER) else f"{{{SECRET_PLACEHOLDER}{match[1]}}}"
        ),
        text,
    )


def _is_at(url: httpx.URL, document_url: str) -> bool:
    try:
        return host_of(url) == host_of(httpx.URL(document_url))
    except httpx.InvalidURL:
        return False


def _explain_unusable(url: str, reason: str) -> str:
    if "://" not in url and not url.startswith("//"):
        return f"its server {url[:100]!r} is only a path, and the document is a file: {BASE_URL_ADVICE}"
    return f"its server {url[:100]!r} cannot be used: {reason}"
