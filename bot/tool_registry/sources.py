"""Makes tools of what is registered: of each source what it gives now, with its secrets put in.

Nothing is fetched here: what a document says and a server lists is kept in the options of its source. What
reads it is imported when the first such source is there. The options, by kind, all of them JSON:

- openapi, endpoint: `routes` (of tools.http.routes, by `as_json`), `hosts` (names that were confirmed), `secrets` with
  `headers`, `query` and `basic` of tools.http.service
- mcp_http: `listing` (of tools.mcp.definitions, by `as_json`), `headers`
- mcp_stdio: `listing`, `environment`, `home`; the address is the command as a shell has it

Values of secrets, headers and environment name what is sealed as `{name}`, such as `Bearer {weather}`.
"""

import asyncio
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from bot.db.tools.sources import Source
from bot.tool_registry.assembly import Supply
from tools.base import Tool, ToolError
from tools.schemas.signature import ToolDefinitionError

if TYPE_CHECKING:
    from bot.tool_registry.mcp_servers import Heard, Servers
    from tools.mcp.location import Place
    from tools.mcp.server import Server

UNREADABLE = "what is kept of it cannot be read, perhaps by another version; remove it and add it again"

Made: TypeAlias = tuple[tuple[Tool, ...], str | None]
"""The tools of a source, and why there are no others."""

log = logging.getLogger(__name__)

_NAMED = re.compile(r"\{([A-Za-z0-9_-]+)\}")


class Unfilled(Exception):
    """A source names a secret that is not there."""


class Supplying:
    """`private` are the hosts of private networks that may be reached, `heard` is told what an MCP server
    lists.
    """

    def __init__(self, private: frozenset[str], heard: "Heard") -> None:
        self._private = private
        self._heard = heard
        self._servers: Servers | None = None
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep the connections to servers until cancelled; none is left when this has ended."""
        try:
            async with asyncio.TaskGroup() as self._group:
                if self._servers is not None:
                    self._servers.begin(self._group)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def supplies(self, sources: Sequence[Source], secrets: Mapping[str, str]) -> list[Supply]:
        """What these sources give now, of which none is a file; servers of others are ended."""
        found = [self._supply(source, secrets) for source in sources]
        if self._servers is not None:
            self._servers.only([one.name for one in sources if one.enabled])
        return found

    def troubles(self) -> dict[str, str]:
        """Why servers are not available, by source."""
        if self._servers is not None:
            return self._servers.troubles()
        return {}

    async def look(self) -> tuple[str, ...]:
        """Have all servers listed anew; why some are not available, a line each."""
        if self._servers is not None:
            return await self._servers.look()
        return ()

    def _supply(self, source: Source, secrets: Mapping[str, str]) -> Supply:
        made: tuple[Tool, ...] = ()
        trouble = None
        try:
            match source.kind:
                case "mcp_http" | "mcp_stdio":
                    made, trouble = self._served(source, secrets)
                case "openapi" | "endpoint":
                    made, trouble = self._routed(source, secrets)
        except (Unfilled, ToolDefinitionError, ValueError) as why:
            trouble = str(why)
        except Exception:  # another version may have kept anything; the others go on
            log.exception(
                "a source cannot be read", extra={"action": "tools.unreadable", "source": source.name}
            )
            trouble = UNREADABLE
        return Supply(source, made, trouble)

    def _served(self, source: Source, secrets: Mapping[str, str]) -> Made:
        from tools.mcp.definitions import Definition

        server = self._server(source.name, place_of(source, secrets, self._private))
        return tuple(
            server.tool(Definition(**told)) for told in source.options.get("listing", ())
        ), server.trouble

    def _routed(self, source: Source, secrets: Mapping[str, str]) -> Made:
        from tools.http.routes import route_from
        from tools.http.service import Secrets, Service
        from tools.http.tools import tool_of
        from tools.net.policy import Reach

        options = source.options
        named = options.get("secrets", {})
        headers, query = (filled(named.get(part, {}), secrets) for part in ("headers", "query"))
        if named.get("basic"):
            basic = filled({"": named["basic"]}, secrets)[""]
        else:
            basic = None
        hosts = frozenset(options.get("hosts", ()))
        reach = Reach(private=self._private)
        service = Service(source.name, hosts, Secrets(headers, query, basic), reach)
        made = []
        troubles = []
        for kept in options.get("routes", ()):
            try:
                made.append(tool_of(route_from(kept), service))
            except ToolDefinitionError as why:
                troubles.append(str(why))
        return tuple(made), "; ".join(troubles) or None

    def _server(self, name: str, place: "Place") -> "Server":
        from bot.tool_registry.mcp_servers import Servers

        if self._servers is None:
            self._servers = Servers(self._heard)
            if self._group is not None:
                self._servers.begin(self._group)
        return self._servers.at(name, place)


def place_of(source: Source, secrets: Mapping[str, str], private: frozenset[str]) -> "Place":
    """Where an MCP server is. Raises Unfilled, or ValueError for one that cannot be started or must not be
    asked.
    """
    from tools.mcp.location import Program, Remote

    options = source.options
    if source.kind == "mcp_http":
        headers = options.get("headers", {})
        said = filled(headers, secrets)
        _sendable(source, said, private)
        return Remote(source.address, said, private, _named(headers, secrets))
    home = Path(options["home"]) if options.get("home") else None
    environment = options.get("environment", {})
    return Program(_command(source.address), home, filled(environment, secrets), _named(environment, secrets))


def _sendable(source: Source, headers: Mapping[str, str], private: frozenset[str]) -> None:
    """Raises ValueError for an address that is none, and for headers that cannot or must not be sent there."""
    from tools.http.service import checked
    from tools.net.policy import ENCRYPTED, Reach

    try:
        url = checked(source.address)
    except ToolError as why:
        raise ValueError(str(why).rstrip(".")) from None
    if headers and Reach(private=private).exposes(url):
        raise ValueError(f"{source.name} would be sent secrets unencrypted: {ENCRYPTED}")
    odd = [name for name, text in headers.items() if not (text.isascii() and text.isprintable())]
    if odd:
        raise ValueError(f"no header can carry the secret in {odd[0]}: enter it again, in plain ASCII")


def _command(written: str) -> tuple[str, ...]:
    try:
        command = tuple(shlex.split(written))
    except ValueError as why:
        raise ValueError(f"the command cannot be read: {why}") from None
    if not command:
        raise ValueError("there is no command: say which program is to be started")
    return command


def _named(texts: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The secrets that these texts name."""
    return {
        name: secrets[name] for text in texts.values() for name in _NAMED.findall(text) if name in secrets
    }


def filled(texts: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Texts with the secrets they name as `{name}`, such as `Bearer {weather}`."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in secrets:
            raise Unfilled(f"the secret {found[1]} is missing")
        return secrets[found[1]]

    return {key: _NAMED.sub(value, text) for key, text in texts.items()}
