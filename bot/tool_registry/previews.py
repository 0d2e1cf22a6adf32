"""What a source would give before it is added: asked of the network, kept nowhere.

Makes the Source as it would be kept, in the options supplying.py reads, and the tools it would give.
"""

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.sources import MissingSecret, SourceLoader, build_location
from tools.base import Tool, ToolError
from tools.schemas.signature import ToolDefinitionError

if TYPE_CHECKING:
    from tools.mcp.definitions import McpToolListing
    from tools.mcp.location import ServerLocation

SOURCE_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,30}")
SOURCE_NAME_HELP = "A name has small letters, digits and _, begins with a letter, and is at most 31 long"

_HEADER_NAME_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_RESERVED_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
)


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """A source as it would be added, what it would give, and what was `reported` of it, a sentence each."""

    source: Source
    tools: tuple[Tool, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What an admin wants to add under a name; `headers` and `environment` name secrets as `{name}`.

    `home` is a folder that a program may keep, None: it gets an empty one that is deleted when it ends.
    `private` are the hosts of private networks that may be reached.
    """

    name: str
    address: str
    headers: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    private_hosts: frozenset[str] = frozenset()


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that can be sent with each call. Raises ChangeRefused for others."""
    for name, value in headers.items():
        if not _HEADER_NAME_PATTERN.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
            raise ChangeRefused(f"{name[:60]!r} is no header that can be set.")
        if not value.isascii() or not value.isprintable():
            raise ChangeRefused(f"The value of {name[:60]} is none that a header can carry: plain ASCII is.")
    return dict(headers)


class _AnySecret(dict[str, str]):
    """Stands in for secrets where tools are made only to be looked at; their definitions do not depend on
    values.
    """

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "x:x"


def check_source_name(name: str) -> str:
    """A name that a source may have. Raises ChangeRefused."""
    if not SOURCE_NAME_PATTERN.fullmatch(name):
        raise ChangeRefused(f"{name[:60]!r} is no name for a source. {SOURCE_NAME_HELP}.")
    return name


async def preview_server(
    request: SourceRequest, secrets: Mapping[str, str], *, is_remote: bool
) -> SourcePreview:
    """An MCP server, at a URL (`remote`) or started here by a command. Raises ChangeRefused if it does not
    answer.
    """
    here = {"environment": dict(request.environment), "home": request.home}
    options: dict[str, Any] = {"headers": check_headers(request.headers)} if is_remote else here
    source = Source(
        check_source_name(request.name), "mcp_http" if is_remote else "mcp_stdio", request.address, options
    )
    place = _build_location(source, secrets, request.private_hosts)
    _check_program_exists(place)
    listing = await _fetch_listing(request.name, place)
    kept = {**options, "listing": [one.as_json() for one in listing.definitions]}
    found = replace(source, options=kept)
    return SourcePreview(found, build_tools(found, request.private_hosts), listing.warnings)


def preview_endpoint(
    request: SourceRequest, method: str, description: str, schema: Mapping[str, Any]
) -> SourcePreview:
    """One plain endpoint, whose tool has the source's name. Raises ChangeRefused."""
    from tools.http.routes import build_endpoint_route

    try:
        route = build_endpoint_route(
            check_source_name(request.name), description, method, request.address, schema
        )
    except (ToolDefinitionError, ToolError, ValueError) as why:
        raise ChangeRefused(to_sentence(str(why))) from None
    options = {
        "routes": [route.as_json()],
        "hosts": [route.host],
        "secrets": {"headers": check_headers(request.headers)},
    }
    source = Source(request.name, "endpoint", f"{route.method} {route.address}", options)
    return SourcePreview(source, build_tools(source, request.private_hosts), route.reported)


def build_tools(source: Source, private_hosts: frozenset[str]) -> tuple[Tool, ...]:
    """The tools of a source, to be looked at and not to be called. Raises ChangeRefused when one cannot be
    made.
    """
    [supply] = SourceLoader(private_hosts, _ignore_listing).load_sources([source], _AnySecret())
    if supply.trouble:
        raise ChangeRefused(to_sentence(supply.trouble))
    return supply.tools


def to_sentence(reason: str) -> str:
    """What went wrong below, as a sentence for an admin."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."


async def _ignore_listing(name: str, listing: "McpToolListing") -> None:
    """Nobody is told."""


def _build_location(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> "ServerLocation":
    try:
        return build_location(source, secrets, private_hosts)
    except (MissingSecret, ValueError) as why:
        raise ChangeRefused(to_sentence(str(why))) from None


def _check_program_exists(location: "ServerLocation") -> None:
    """Refuse a program that is not there: it is looked for elsewhere than in the shell of whoever adds it."""
    from tools.mcp.location import ServerProgram

    if not isinstance(location, ServerProgram):
        return
    said = location.command[0]
    is_path = "/" in said
    at = str(location.home / said) if is_path and location.home else said
    is_lost = is_path and not Path(at).is_absolute()  # without a home it begins in an empty folder
    if is_lost or shutil.which(at, path=location.search_path) is None:
        if "/" in said:
            where = "is no program"
        else:
            where = f"is in none of {location.search_path.replace(':', ', ')}"
        raise ChangeRefused(f"{said[:100]} {where}. Say its whole path.")


async def _fetch_listing(name: str, location: "ServerLocation") -> "McpToolListing":
    """What a server lists; it is asked once and let go."""
    from tools.mcp.server import McpServerClient

    async def changed(listing: "McpToolListing") -> None:
        """What it lists is taken below."""

    server = McpServerClient(name, location, changed)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.run(), name=f"MCP server {name}")
            try:
                return await server.list_tools()
            finally:
                running.cancel()
    except* ToolError as failed:
        why = failed.exceptions[0]
    raise ChangeRefused(str(why))
