"""Adding tools on the machine: by what is named, a document, an endpoint, an MCP server at a URL or started
here.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.cli.tools.session import Desk
from bot.errors import ChangeRefused, NeedsConfirming
from bot.tool_registry import add_source as adding
from bot.tool_registry import formatting as words
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry import previews as offers
from bot.tool_registry import secret_scanner as keys
from bot.tool_registry.endpoint_params import name_of, schema_of
from bot.tool_registry.openapi_sources import Looked
from bot.tool_registry.previews import Offer, Wish
from bot.usage.plain_text import plain

_BY_NAME = re.compile(r"\{[A-Za-z0-9_-]+\}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for on the command line, word by word; one of `mcp`, `stdio` and `method` at most."""

    address: str
    name: str | None = None
    mcp: bool = False
    stdio: bool = False
    method: str | None = None
    description: str = ""
    parameters: tuple[str, ...] = ()
    pick: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    home: str | None = None
    confirmed: bool = False


async def add(desk: Desk, asked: Asked) -> list[str]:
    """Add it; the lines to print. Of a document without a pick only what there is to pick. Raises
    ChangeRefused.
    """
    if asked.mcp + asked.stdio + (asked.method is not None) > 1:
        raise ChangeRefused("Take one of --mcp, --stdio and --endpoint.")
    _of_its_kind(asked)
    wish = _wish(desk, asked)
    _bare_of_secrets(wish, confirmed=asked.confirmed)
    if asked.mcp or asked.stdio:
        offer = await offers.server(wish, await desk.secrets(), remote=asked.mcp)
        return await _added(desk, offer, asked.pick)
    if asked.method is not None:
        if not asked.description:
            raise ChangeRefused("Say in --description what the endpoint does: the model reads it.")
        return await _added(
            desk, offers.endpoint(wish, asked.method, asked.description, schema_of(asked.parameters))
        )
    looked = await documents.look(wish, await desk.secrets())
    if not asked.pick:
        return list(_operations(looked))
    return await _picked(desk, wish, looked, asked)


def _of_its_kind(asked: Asked) -> None:
    """Refuse what would be passed over in silence."""
    is_endpoint = asked.method is not None
    for option, is_given, fits, kind in (
        ("--environment", asked.environment, asked.stdio, "with --stdio"),
        ("--home", asked.home, asked.stdio, "with --stdio"),
        ("--header", asked.headers, not asked.stdio, "with a URL"),
        ("--description", asked.description, is_endpoint, "with --endpoint"),
        ("--parameter", asked.parameters, is_endpoint, "with --endpoint"),
        ("--pick", asked.pick, not is_endpoint, "without --endpoint"),
    ):
        if is_given and not fits:
            raise ChangeRefused(f"{option} goes {kind} only.")


async def _picked(desk: Desk, wish: Wish, looked: Looked, asked: Asked) -> list[str]:
    chosen = documents.meant(looked.source, asked.pick)
    hosts = documents.foreign(looked.source, chosen)
    source = looked.source
    if hosts and not asked.confirmed:
        why = f"{source.name} is at {source.address}, but these calls would go to {', '.join(hosts)}."
        raise NeedsConfirming(why, ("Say --yes if they shall.",))
    if hosts:
        source = documents.confirmed(source, hosts)
    return await _added(desk, await documents.picked(source, looked.document, chosen, wish.private))


async def _added(desk: Desk, offer: Offer, pick: Sequence[str] = ()) -> list[str]:
    async with desk.acting() as act:
        done = await adding.add(act, offer, pick or None)
    return [*words.added(done), *(plain(one) for one in offer.reported)]


def _operations(looked: Looked) -> Iterable[str]:
    """What a document offers, and how to go on."""
    for number, one in enumerate(documents.offered(looked.source), start=1):
        summary = f" – {plain(one.summary)}" if one.summary else ""
        yield f"{number}. {plain(one.operation)} · {one.method} {plain(one.path)}{summary}"
    yield from (plain(one) for one in looked.reported)
    yield "Nothing is added yet: say --pick with a name or a number, as often as you like, or --pick all."


def _wish(desk: Desk, asked: Asked) -> Wish:
    name = asked.name or (name_of(asked.address) if "://" in asked.address else "")
    if not name:
        raise ChangeRefused("Say --name: the tools' names will begin with it.")
    return Wish(
        name=name,
        address=asked.address,
        headers=dict(_pair("--header", one, ":") for one in asked.headers),
        environment=dict(_pair("--environment", one, "=") for one in asked.environment),
        home=str(Path(asked.home).absolute()) if asked.home else None,  # a gateway may run elsewhere
        private=desk.where.private,
    )


def _bare_of_secrets(wish: Wish, *, confirmed: bool) -> None:
    """What is kept in the open, and shown in lists, shall hold no secret but by its name."""
    for name, value in {**wish.headers, **wish.environment}.items():
        if keys.holds_a_secret(_BY_NAME.sub("", value)) or (
            keys.is_named_so(name) and not _BY_NAME.search(value)
        ):
            why = f"The value of {name} looks like a secret and would be kept in the open."
            raise ChangeRefused(
                f"{why} Keep it with `canvasgram tools secret set NAME` and write {{NAME}} here."
            )
    if keys.holds_a_secret(wish.address) and not confirmed:
        why = "The address looks as if it held a secret; it would be kept in the open and shown in lists."
        raise NeedsConfirming(why, ("Say --yes if it may be.",))


def _pair(option: str, text: str, between: str) -> tuple[str, str]:
    name, found, value = text.partition(between)
    if not found or not name.strip():
        raise ChangeRefused(f"{option} is written as NAME{between} VALUE; a secret stands in it as {{name}}.")
    return name.strip(), value.strip()
