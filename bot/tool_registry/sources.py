"""Builds tools from what is registered: of each source what it gives now, with its secrets filled in.

Nothing is fetched here: what a document says and a server lists is stored in the options of its source. The
code that reads it is imported when the first such source exists. The options, by kind, all of them JSON:

- all: `call_seconds`; MCP servers also `start_seconds` (of bot.tool_registry.time_limits, if an admin set it)
- openapi, endpoint: `routes` (of tools.http.routes, by `as_json`), `hosts` (names that were confirmed), and
  what service_access.py reads
- mcp_http: `listing` (of tools.mcp.definitions, by `as_json`), `headers`, `sign_in` if it wants one: empty,
  or with `client_id` and `client_secret` of a client that was registered there beforehand
- MCP servers: `personal`, if each person has a connection: the number of the one whose connection gives the
  listing
- mcp_stdio: `listing`, `environment`, `home`; the address is the command as a shell has it

Values of secrets, headers and environment name an encrypted secret as `{name}`, such as `Bearer {weather}`.
"""

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bot.db.tools.sources import Source
from bot.tool_registry.assembly import SourceTools
from bot.tool_registry.program_homes import find_home, is_own_home
from bot.tool_registry.secret_references import MissingSecret, fill_secrets, find_secret_names
from bot.tool_registry.service_access import build_http_service
from bot.tool_registry.sign_ins import read_sign_in
from bot.usage.local_times import format_utc
from tools.base import Tool, ToolContext, ToolError
from tools.mcp.location import ServerLocation, ServerProgram, ServerUrl
from tools.mcp.sign_in import SignInStore
from tools.net.policy import ENCRYPTION_ADVICE, NetworkPolicy
from tools.schemas.signature import ToolDefinitionError
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from bot.tool_registry.mcp_servers import McpServers
    from tools.mcp.definitions import McpToolDefinition
    from tools.mcp.server import ListingStore, McpServerClient
    from tools.mcp.time_limits import McpServerLimits

UNREADABLE = "what is kept of it cannot be read, perhaps by another version; remove it and add it again"

OpenSignIn: TypeAlias = Callable[[Source, int | None], SignInStore]
"""Returns where the sign-in of a source is kept, or that of one person there."""
OfferSignIn: TypeAlias = Callable[[str, ToolContext], Awaitable[None]]
"""Offers the person of a call to sign in to the source of this name."""
ToolsAndTrouble: TypeAlias = tuple[tuple[Tool, ...], str | None]
"""The tools of a source, and why there are no more."""
BuildTools: TypeAlias = Callable[[], ToolsAndTrouble]
T = TypeVar("T")

NOBODY = 0  # the person in whose name the machine tries a tool
SIGN_IN = "/tools signin"
"""The command in every trouble that a sign-in ends."""

log = logging.getLogger(__name__)


async def offer_nothing(source_name: str, context: ToolContext) -> None:
    """There is no chat to offer it in."""


@dataclass(frozen=True, slots=True)
class _BuiltTools:
    """The tools of a source by name, each with the JSON it was built from; `service` is what they call."""

    service: object
    tools: Mapping[str, tuple[Mapping[str, Any], Tool]]


class SourceLoader:
    """Builds the tools of sources; keeps the clients of MCP servers.

    `private_hosts` are the hosts of private networks that may be reached; `listing_store` keeps what an MCP
    server lists; `homes` is the folder of the homes of programs. Without `open_sign_in` nobody is signed
    in anywhere; `offer_sign_in` is called when a person has to.
    """

    def __init__(
        self,
        private_hosts: frozenset[str],
        listing_store: "ListingStore | None" = None,
        homes: Path | None = None,
        open_sign_in: OpenSignIn | None = None,
        offer_sign_in: OfferSignIn = offer_nothing,
    ) -> None:
        self._private_hosts = private_hosts
        self._listing_store = listing_store
        self._homes = homes
        self._open_sign_in = open_sign_in
        self._offer_sign_in = offer_sign_in
        self._homes_in_use: dict[str, Path] = {}
        self._built_tools: dict[str, _BuiltTools] = {}
        self._loaded_troubles: Mapping[str, str] = {}
        self._servers: McpServers | None = None
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep the connections to servers until cancelled; none is left when this has ended."""
        try:
            async with asyncio.TaskGroup() as self._group:
                if self._servers is not None:
                    self._servers.start(self._group)
                await asyncio.Event().wait()
        finally:
            self._group = None

    async def load_sources(self, sources: Sequence[Source], secrets: Mapping[str, str]) -> list[SourceTools]:
        """Return what these sources, none of them a file, give now; stop the servers of all others.

        A source may give hundreds of tools: they are built in a thread, and only those that have changed.
        """
        prepared = [
            (source, _attempt(source, partial(self._prepare_source, source, secrets))) for source in sources
        ]
        if self._servers is not None:
            self._servers.keep_only([source.name for source in sources if source.enabled])
            self._delete_unused_homes(sources, self._servers)
            self._loaded_troubles = self._servers.list_troubles()
        for name in self._built_tools.keys() - {source.name for source in sources}:
            del self._built_tools[name]
        return await run_in_thread(_build_prepared, prepared)

    def _delete_unused_homes(self, sources: Sequence[Source], servers: "McpServers") -> None:
        """Delete the homes of programs whose sources were removed, once the programs have ended."""
        homes = {source.name: find_home(source, self._homes) for source in sources if is_own_home(source)}
        for name in self._homes_in_use.keys() - homes.keys():
            servers.delete_home(name, self._homes_in_use[name])
        self._homes_in_use = {name: home for name, home in homes.items() if home is not None}

    def end_person(self, person: int) -> None:
        """End the programs of somebody who lost access, and delete their homes."""
        if self._servers is not None:
            self._servers.end_person(person)
            for name, home in self._homes_in_use.items():
                self._servers.delete_home(name, home.with_name(f"{home.name}-{person}"))

    @property
    def has_trouble_changed(self) -> bool:
        """Whether a server became unavailable or came back since sources were loaded last."""
        return self._servers is not None and self._servers.list_troubles() != self._loaded_troubles

    async def refresh_listings(self) -> tuple[str, ...]:
        """Have all servers list their tools again; return why some cannot, a line each."""
        if self._servers is None:
            return ()
        return await self._servers.refresh_listings()

    def _prepare_source(self, source: Source, secrets: Mapping[str, str]) -> BuildTools:
        """Return what builds the tools of a source in a thread; connections are the event loop's."""
        if source.kind in ("openapi", "endpoint"):
            return partial(self._build_route_tools, source, secrets)
        location = self._build_location(source, secrets)
        server = self._get_server(source.name, location, build_limits(source, location))
        trouble = self._describe_trouble(source, server)
        return partial(self._build_server_tools, source, secrets, server, trouble)

    def _build_server_tools(
        self, source: Source, secrets: Mapping[str, str], server: "McpServerClient", trouble: str | None
    ) -> ToolsAndTrouble:
        from tools.mcp.definitions import McpToolDefinition

        is_personal = "personal" in source.options

        def build(fields: Mapping[str, Any]) -> Tool:
            definition = McpToolDefinition(**fields)
            tool = server.build_tool(definition)
            if is_personal:
                run = partial(self._run_personal, source, secrets, definition, tool)
                return replace(tool, function=run)
            return tool

        service = (server, source, secrets) if is_personal else server
        tools, problem = self._build_changed_tools(source, "listing", service, build)
        return tools, trouble or problem

    def _build_route_tools(self, source: Source, secrets: Mapping[str, str]) -> ToolsAndTrouble:
        from tools.http.routes import route_from_json
        from tools.http.tools import make_route_tool

        service = build_http_service(source, secrets, self._private_hosts)

        def build(route: Mapping[str, Any]) -> Tool:
            return make_route_tool(route_from_json(route), service)

        return self._build_changed_tools(source, "routes", service, build)

    def _build_changed_tools(
        self, source: Source, option: str, service: object, build: Callable[[Mapping[str, Any]], Tool]
    ) -> ToolsAndTrouble:
        """Build the tools of an option of a source; those stay that were built from the same before."""
        before = self._built_tools.get(source.name)
        kept = before.tools if before is not None and before.service == service else {}
        built: dict[str, tuple[Mapping[str, Any], Tool]] = {}
        troubles = []
        for fields in source.options.get(option, ()):
            name = fields["name"]
            try:
                if name in kept and kept[name][0] == fields:
                    built[name] = kept[name]
                else:
                    built[name] = (fields, build(fields))
            except ToolDefinitionError as error:
                troubles.append(str(error))
        self._built_tools[source.name] = _BuiltTools(service, built)
        return tuple(tool for _, tool in built.values()), "; ".join(troubles) or None

    async def _run_personal(
        self,
        source: Source,
        secrets: Mapping[str, str],
        definition: "McpToolDefinition",
        shared_tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
    ) -> object:
        """Call a tool through the connection of the person of the call."""
        person = context.person_id
        if person in {source.options["personal"], NOBODY}:
            return await shared_tool.function(arguments, context)
        location = await self._load_location(source, secrets, person)
        server = self._get_server(source.name, location, build_limits(source, location), person)
        assert self._servers is not None
        with self._servers.use(source.name, person):
            try:
                return await server.run_tool(definition, arguments, context)
            except ToolError:
                if not server.needs_sign_in:
                    raise
        await self._offer_sign_in(source.name, context)
        raise ToolError(
            f"{context.person} has to sign in to {source.name} first, with an account of their own. "
            "A button for that was sent to them: say so, and go on without it."
        )

    def _describe_trouble(self, source: Source, server: "McpServerClient") -> str | None:
        location = server.location
        if not isinstance(location, ServerUrl) or location.has_key or self._open_sign_in is None:
            return server.trouble
        if location.signed_in_at is None and (server.needs_sign_in or "sign_in" in source.options):
            return format_first_sign_in(source.name)
        if location.signed_in_at is not None and server.needs_sign_in:
            return format_lost_sign_in(source.name, location.signed_in_at)
        return server.trouble

    def _build_location(
        self, source: Source, secrets: Mapping[str, str], person: int | None = None
    ) -> ServerLocation:
        location = build_location(source, secrets, self._private_hosts, self._homes, person)
        if not isinstance(location, ServerUrl) or location.has_key or self._open_sign_in is None:
            return location
        sign_in = read_sign_in(source, secrets, person)
        signed_in_at = sign_in.signed_in_at if sign_in else None
        store = self._open_sign_in(source, person)
        return replace(location, sign_in_store=store, signed_in_at=signed_in_at)

    async def _load_location(self, source: Source, secrets: Mapping[str, str], person: int) -> ServerLocation:
        """Return where the server of a person is, with the sign-in that may be newer than `secrets`."""
        location = self._build_location(source, secrets, person)
        if not isinstance(location, ServerUrl) or location.sign_in_store is None:
            return location
        sign_in = await location.sign_in_store.load()
        return replace(location, signed_in_at=sign_in.signed_in_at if sign_in else None)

    def _get_server(
        self,
        name: str,
        location: ServerLocation,
        limits: "McpServerLimits",
        person: int | None = None,
    ) -> "McpServerClient":
        from bot.tool_registry.mcp_servers import McpServers

        if self._servers is None:
            self._servers = McpServers(self._listing_store)
            if self._group is not None:
                self._servers.start(self._group)
        return self._servers.get_server(name, location, limits, person)


def _build_prepared(prepared: Sequence[tuple[Source, BuildTools | str]]) -> list[SourceTools]:
    """Build the tools of sources; text in the place of what builds them is the trouble of a source."""
    source_tools = []
    for source, build in prepared:
        built = build if isinstance(build, str) else _attempt(source, build)
        if isinstance(built, str):
            source_tools.append(SourceTools(source, trouble=built))
        else:
            source_tools.append(SourceTools(source, *built))
    return source_tools


def _attempt(source: Source, step: Callable[[], T]) -> T | str:
    """Return what a step of loading a source gives, or the trouble that ends it."""
    try:
        return step()
    except (MissingSecret, ToolDefinitionError, ValueError) as error:
        return str(error)
    except Exception:  # another version may have stored anything; the other sources are still loaded
        log.exception("a source cannot be read", extra={"action": "tools.unreadable", "source": source.name})
        return UNREADABLE


def build_limits(source: Source, location: ServerLocation) -> "McpServerLimits":
    """Return how long an MCP server may take; one that may download itself first has more time to start."""
    from tools.mcp.time_limits import DEFAULT_LIMITS, INSTALL_SECONDS, McpServerLimits

    connect_seconds = DEFAULT_LIMITS.connect_seconds
    if isinstance(location, ServerProgram) and location.may_install:
        connect_seconds = INSTALL_SECONDS
    return McpServerLimits(
        call_seconds=source.options.get("call_seconds", DEFAULT_LIMITS.call_seconds),
        connect_seconds=source.options.get("start_seconds", connect_seconds),
    )


def format_first_sign_in(source_name: str) -> str:
    """Describe that nobody has signed in to a server yet."""
    return f"an admin has to sign in: {SIGN_IN} {source_name}"


def format_lost_sign_in(source_name: str, signed_in_at: float) -> str:
    """Describe that a sign-in is over; each has its own words, so that each is reported."""
    moment = format_utc(signed_in_at)
    return f"the sign-in of {moment} is over, and an admin has to sign in again: {SIGN_IN} {source_name}"


def build_location(
    source: Source,
    secrets: Mapping[str, str],
    private_hosts: frozenset[str],
    homes: Path | None = None,
    person: int | None = None,
) -> ServerLocation:
    """Return where an MCP server is, or the one of a person.

    Raises MissingSecret, or ValueError for one that cannot be started or must not be called.
    """
    options = source.options
    if source.kind == "mcp_http":
        templates = options.get("headers", {})
        headers = fill_secrets(templates, secrets)
        _check_sendable(source, headers, private_hosts)
        return ServerUrl(source.address, headers, private_hosts, _collect_secrets(templates, secrets))
    environment = options.get("environment", {})
    return ServerProgram(
        _parse_command(source.address),
        find_home(source, homes, person),
        fill_secrets(environment, secrets),
        _collect_secrets(environment, secrets),
    )


def _check_sendable(source: Source, headers: Mapping[str, str], private_hosts: frozenset[str]) -> None:
    """Raise ValueError for an address that is no URL, or headers that cannot or must not be sent there."""
    from tools.http.service import parse_url

    try:
        url = parse_url(source.address)
    except ToolError as error:
        raise ValueError(str(error).rstrip(".")) from None
    if headers and NetworkPolicy(private=private_hosts).can_expose_secrets(url):
        raise ValueError(f"{source.name} would be sent secrets unencrypted: {ENCRYPTION_ADVICE}")
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"no header can carry the secret in {name}: enter it again, in plain ASCII")


def _parse_command(command_line: str) -> tuple[str, ...]:
    try:
        command = tuple(shlex.split(command_line))
    except ValueError as error:
        raise ValueError(f"the command cannot be read: {error}") from None
    if not command:
        raise ValueError("there is no command: say which program is to be started")
    return command


def _collect_secrets(texts: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The secrets that these texts name."""
    return {name: secrets[name] for name in find_secret_names(texts.values()) if name in secrets}
