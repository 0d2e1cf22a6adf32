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
from bot.tool_registry.sources import Supplying, Unfilled, place_of
from tools.base import Tool, ToolError
from tools.schemas.signature import ToolDefinitionError

if TYPE_CHECKING:
    from tools.mcp.definitions import Listing
    from tools.mcp.location import Place

NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
ABOUT_NAMES = "A name has small letters, digits and _, begins with a letter, and is at most 31 long"

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OF_THE_WIRE = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A source as it would be added, what it would give, and what was `reported` of it, a sentence each."""

    source: Source
    tools: tuple[Tool, ...]
    reported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """What an admin wants to add under a name; `headers` and `environment` name secrets as `{name}`.

    `home` is a folder that a program may keep, None: it gets an empty one that is deleted when it ends.
    `private` are the hosts of private networks that may be reached.
    """

    name: str
    address: str
    headers: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    private: frozenset[str] = frozenset()


def headed(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that can be sent with each call. Raises ChangeRefused for others."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OF_THE_WIRE:
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


def named(name: str) -> str:
    """A name that a source may have. Raises ChangeRefused."""
    if not NAME.fullmatch(name):
        raise ChangeRefused(f"{name[:60]!r} is no name for a source. {ABOUT_NAMES}.")
    return name


async def server(wish: Wish, secrets: Mapping[str, str], *, remote: bool) -> Offer:
    """An MCP server, at a URL (`remote`) or started here by a command. Raises ChangeRefused if it does not
    answer.
    """
    here = {"environment": dict(wish.environment), "home": wish.home}
    options: dict[str, Any] = {"headers": headed(wish.headers)} if remote else here
    source = Source(named(wish.name), "mcp_http" if remote else "mcp_stdio", wish.address, options)
    place = _place(source, secrets, wish.private)
    _found(place)
    listing = await _listed(wish.name, place)
    kept = {**options, "listing": [one.as_json() for one in listing.definitions]}
    found = replace(source, options=kept)
    return Offer(found, made(found, wish.private), listing.reported)


def endpoint(wish: Wish, method: str, description: str, schema: Mapping[str, Any]) -> Offer:
    """One plain endpoint, whose tool has the source's name. Raises ChangeRefused."""
    from tools.http.routes import route_to

    try:
        route = route_to(named(wish.name), description, method, wish.address, schema)
    except (ToolDefinitionError, ToolError, ValueError) as why:
        raise ChangeRefused(sentence(str(why))) from None
    options = {
        "routes": [route.as_json()],
        "hosts": [route.host],
        "secrets": {"headers": headed(wish.headers)},
    }
    source = Source(wish.name, "endpoint", f"{route.method} {route.address}", options)
    return Offer(source, made(source, wish.private), route.reported)


def made(source: Source, private: frozenset[str]) -> tuple[Tool, ...]:
    """The tools of a source, to be looked at and not to be called. Raises ChangeRefused when one cannot be
    made.
    """
    [supply] = Supplying(private, _unheard).supplies([source], _AnySecret())
    if supply.trouble:
        raise ChangeRefused(sentence(supply.trouble))
    return supply.tools


def sentence(why: str) -> str:
    """What went wrong below, as a sentence for an admin."""
    return f"{why[:1].upper()}{why[1:].rstrip('.')}."


async def _unheard(name: str, listing: "Listing") -> None:
    """Nobody is told."""


def _place(source: Source, secrets: Mapping[str, str], private: frozenset[str]) -> "Place":
    try:
        return place_of(source, secrets, private)
    except (Unfilled, ValueError) as why:
        raise ChangeRefused(sentence(str(why))) from None


def _found(place: "Place") -> None:
    """Refuse a program that is not there: it is looked for elsewhere than in the shell of whoever adds it."""
    from tools.mcp.location import Program

    if not isinstance(place, Program):
        return
    said = place.command[0]
    is_path = "/" in said
    at = str(place.home / said) if is_path and place.home else said
    is_lost = is_path and not Path(at).is_absolute()  # without a home it begins in an empty folder
    if is_lost or shutil.which(at, path=place.path) is None:
        if "/" in said:
            where = "is no program"
        else:
            where = f"is in none of {place.path.replace(':', ', ')}"
        raise ChangeRefused(f"{said[:100]} {where}. Say its whole path.")


async def _listed(name: str, place: "Place") -> "Listing":
    """What a server lists; it is asked once and let go."""
    from tools.mcp.server import Server

    async def changed(listing: "Listing") -> None:
        """What it lists is taken below."""

    server = Server(name, place, changed)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.run(), name=f"MCP server {name}")
            try:
                return await server.listed()
            finally:
                running.cancel()
    except* ToolError as failed:
        why = failed.exceptions[0]
    raise ChangeRefused(str(why))
