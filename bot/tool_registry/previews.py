"""What a source would give before it is added: fetched from the network, stored nowhere.

Builds the Source as it would be stored, with the options sources.py reads, and the tools it would give.
"""

import asyncio
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.db.tools.sources import Source, SourceKind
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import find_flags
from bot.tool_registry.secret_references import MissingSecret
from bot.tool_registry.service_access import ServiceAccess, check_access, check_headers, write_access
from bot.tool_registry.sources import SourceLoader, build_limits, build_location, format_first_sign_in
from bot.tool_registry.time_limits import DEFAULT_TIME_LIMITS, TimeLimits
from bot.tool_registry.tool_info import estimate_tokens
from bot.translations.translator import defer, translatable
from tools.base import Tool, ToolError, definition_of, hash_definition
from tools.mcp.location import ServerLocation, ServerProgram, ServerUrl
from tools.mcp.sign_in import SignInStore
from tools.schemas.signature import ToolDefinitionError
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.mcp.definitions import McpToolListing

SOURCE_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,30}")
SOURCE_NAME_HELP = translatable(
    "Names use lowercase letters, digits and _, start with a letter, and have at most 31 characters"
)


@dataclass(frozen=True, slots=True)
class PreviewedTool:
    """A tool as it would be stored: its definition and the hash of that; `source` is the source's name.

    `flags` are why its words want a second look; `prompt_tokens` is what it takes of a prompt, estimated.
    """

    name: str
    source: str
    definition: Mapping[str, Any]
    hash: str
    flags: tuple[str, ...]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """A source as it would be added, the tools it would give, and warnings, a sentence each.

    `picked` are the operations that were picked of a document.
    """

    source: Source
    tools: tuple[PreviewedTool, ...]
    warnings: tuple[str, ...] = ()
    picked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What an admin wants to add under a name.

    `access` is how a service is reached; MCP servers at a URL take headers of it, no more. `environment`
    names secrets as `{name}`. `home` is the folder of a program; None: it gets one of its own in `homes`.
    `private_hosts` are the hosts of private networks that may be reached. `client` names the client that was
    registered for sign-ins beforehand, with `client_id` and perhaps `client_secret`, a `{name}`. `personal`:
    each person gets a connection; this one's gives the listing.
    """

    name: str
    address: str
    access: ServiceAccess = field(default_factory=ServiceAccess)
    environment: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    private_hosts: frozenset[str] = frozenset()
    homes: Path | None = None
    time_limits: TimeLimits = DEFAULT_TIME_LIMITS
    client: Mapping[str, str] = field(default_factory=dict)
    personal: int | None = None


class SignInRequired(ChangeRefused):
    """A server gives its tools only to who has signed in; `source` is how it would be added."""

    def __init__(self, reason: str, source: Source) -> None:
        super().__init__(reason)
        self.source = source


class _AnySecret(dict[str, str]):
    """Stands in for secrets where tools are built for a preview; definitions do not depend on values."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "x:x"


def check_source_name(name: str) -> str:
    """Return the name if a source may have it. Raises ChangeRefused."""
    if not SOURCE_NAME_PATTERN.fullmatch(name):
        raise ChangeRefused(
            "{name} isn't a valid name for a source. {help}.",
            name=repr(name[:60]),
            help=defer(SOURCE_NAME_HELP),
        )
    return name


async def preview_server(
    request: SourceRequest, secrets: Mapping[str, str], *, is_remote: bool
) -> SourcePreview:
    """Preview an MCP server, at a URL (`is_remote`) or started here by a command.

    Raises ChangeRefused if it does not answer, SignInRequired if somebody has to sign in first.
    """
    kind: SourceKind
    options: dict[str, Any]
    if is_remote:
        kind = "mcp_http"
        if request.access != ServiceAccess(headers=request.access.headers):
            raise ChangeRefused("Of these options, an MCP server takes only --header.")
        options = {"headers": check_headers(request.access.headers)}
        if request.client:
            options["sign_in"] = dict(request.client)
    else:
        kind = "mcp_stdio"
        options = {"environment": dict(request.environment), "home": request.home}
    if request.personal is not None:
        options["personal"] = request.personal
    options |= request.time_limits.to_options(kind)
    source = Source(check_source_name(request.name), kind, request.address, options)
    location = _build_location(source, secrets, request.private_hosts, request.homes)
    _check_program_exists(location)
    return await _preview_listing(source, location, request.private_hosts)


async def preview_signed_in(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str], sign_in: SignInStore
) -> SourcePreview:
    """Preview an MCP server at a URL that somebody has signed in to. Raises ChangeRefused."""
    location = _build_location(source, secrets, private_hosts)
    assert isinstance(location, ServerUrl)
    location = replace(location, sign_in_store=sign_in, signed_in_at=0.0)
    return await _preview_listing(source, location, private_hosts)


async def _preview_listing(
    source: Source, location: ServerLocation, private_hosts: frozenset[str]
) -> SourcePreview:
    listing = await _fetch_listing(source, location)
    definitions = [definition.as_json() for definition in listing.definitions]
    source = source.with_options(listing=definitions)
    return await build_preview(source, private_hosts, listing.warnings)


async def preview_endpoint(
    request: SourceRequest, method: str, description: str, schema: Mapping[str, Any]
) -> SourcePreview:
    """Preview one plain endpoint, whose tool has the source's name. Raises ChangeRefused."""
    from tools.http.routes import build_endpoint_route

    check_access(request.access)
    try:
        route = build_endpoint_route(
            check_source_name(request.name), description, method, request.address, schema
        )
    except (ToolDefinitionError, ToolError, ValueError) as error:
        raise ChangeRefused(to_sentence(str(error))) from None
    options = {
        "routes": [route.as_json()],
        "hosts": [route.host],
        **request.time_limits.to_options("endpoint"),
        **write_access(request.access),
    }
    source = Source(request.name, "endpoint", f"{route.method} {route.address}", options)
    return await build_preview(source, request.private_hosts, route.reported)


async def build_preview(
    source: Source,
    private_hosts: frozenset[str],
    warnings: tuple[str, ...],
) -> SourcePreview:
    """Preview a source that is ready to be stored. Raises ChangeRefused if a tool cannot be built."""
    tools = await build_tools(source, private_hosts)
    return SourcePreview(source, await run_in_thread(preview_tools, tools, source.kind), warnings)


def preview_tools(tools: Iterable[Tool], kind: SourceKind) -> tuple[PreviewedTool, ...]:
    """Derive what is stored of tools and what admins are told of them; of hundreds it takes a second."""
    return tuple(_preview_tool(tool, kind) for tool in tools)


def _preview_tool(tool: Tool, kind: SourceKind) -> PreviewedTool:
    definition = definition_of(tool)
    return PreviewedTool(
        name=tool.name,
        source=tool.source,
        definition=definition,
        hash=hash_definition(definition),
        flags=find_flags(definition),
        prompt_tokens=estimate_tokens(definition, kind),
    )


async def build_tools(source: Source, private_hosts: frozenset[str]) -> tuple[Tool, ...]:
    """Build the tools of a source for a preview, not to be called.

    Raises ChangeRefused if one cannot be built.
    """
    loader = SourceLoader(private_hosts)
    [source_tools] = await loader.load_sources([source], _AnySecret())
    if source_tools.trouble:
        raise ChangeRefused(to_sentence(source_tools.trouble))
    return source_tools.tools


def to_sentence(reason: str) -> str:
    """Return the text of an error as a sentence for an admin."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."


def _build_location(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str], homes: Path | None = None
) -> ServerLocation:
    try:
        return build_location(source, secrets, private_hosts, homes)
    except (MissingSecret, ValueError) as error:
        raise ChangeRefused(to_sentence(str(error))) from None


def _check_program_exists(location: ServerLocation) -> None:
    """Refuse a program that does not exist: its search path is not that of the admin's shell."""
    if not isinstance(location, ServerProgram):
        return
    program = location.command[0]
    path = program
    problem = defer("isn't in any of {folders}", folders=location.search_path.replace(":", ", "))
    is_path = "/" in program
    if is_path:
        problem = defer("isn't a program")
        if location.home:
            path = str(location.home / program)
    is_lost = is_path and not Path(path).is_absolute()  # without a home it starts in an empty folder
    if is_lost or shutil.which(path, path=location.search_path) is None:
        raise ChangeRefused(
            "{program} {problem}. Give its full path.", program=program[:100], problem=problem
        )


def _explain_empty_listing(name: str, listing: "McpToolListing", last_words: str) -> str:
    if listing.warnings:
        return f"None of the tools of {name} can be used: {'; '.join(listing.warnings)}."
    return (
        f"{name} lists no tools{last_words}. It may need its settings first: give them with --environment "
        "NAME=VALUE to a program, with --header to a URL."
    )


async def _fetch_listing(source: Source, location: ServerLocation) -> "McpToolListing":
    """What a server lists; it is connected to for this call alone."""
    from tools.mcp.server import McpServerClient

    server = McpServerClient(source.name, location, build_limits(source, location))
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.run(), name=f"MCP server {source.name}")
            try:
                listing = await server.list_tools()
                if not listing.definitions:
                    raise ToolError(_explain_empty_listing(source.name, listing, server.last_words))
                return listing
            finally:
                running.cancel()
    except* ToolError as errors:
        error = errors.exceptions[0]
    if server.needs_sign_in and isinstance(location, ServerUrl) and not location.has_key:
        options = {"sign_in": {}, **source.options, "listing": []}
        waiting = replace(source, options=options, trouble=format_first_sign_in(source.name))
        raise SignInRequired(str(error), waiting)
    raise ChangeRefused(str(error))
