"""Errands that add tools: an OpenAPI document that is looked at, operations of it, one plain endpoint, an MCP
server at a URL. A chat never starts programs, and never hears secrets.
"""

import time
from collections.abc import Awaitable, Callable, Mapping

from bot.db.engine import Database, Transaction
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.domain import Part
from bot.errors import ChangeRefused
from bot.telegram.commands import operation_picker as picking
from bot.telegram.commands.long_text import parts
from bot.telegram.commands.tool_tasks import Errand, Finish
from bot.tool_registry import add_source as adding
from bot.tool_registry import formatting as words
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry import previews as offers
from bot.tool_registry.add_source import Added
from bot.tool_registry.admin_actions import Act
from bot.tool_registry.encryption import Sealer
from bot.tool_registry.endpoint_params import name_of, schema_of
from bot.tool_registry.loader import Where
from bot.tool_registry.previews import Offer, Wish
from bot.tool_registry.tool_info import Own
from bot.usage.plain_text import plain

HOW_TO = (
    "Use /tools add URL [NAME] for an OpenAPI document, /tools add mcp URL [NAME] for an MCP server, or\n"
    "/tools add endpoint NAME GET https://api.example.com/weather/{city}\n"
    "The weather of a city.\n"
    "city: the city's name\n"
    "days (integer, optional): how many days\n"
    "Programs and files are added on the machine: canvasgram tools add --help"
)


class Sourcing:
    """What adds them; `own` are the house's own tools."""

    def __init__(self, database: Database, where: Where, own: Own) -> None:
        self._database = database
        self._where = where
        self._own = own

    def by_name(self) -> Mapping[str, Callable[[Errand], Awaitable[Finish]]]:
        """The errands, by what is to be done."""
        return {"add": self._add, "pick": self._pick}

    async def _add(self, errand: Errand) -> Finish:
        head, *below = errand.words.splitlines()
        kind, *rest = head.split()
        if kind.lower() == "mcp" and rest:
            wish = self._wish(rest[0], rest[1] if len(rest) > 1 else "")
            return self._added(errand, await offers.server(wish, {}, remote=True))
        if kind.lower() == "endpoint" and len(rest) == 3 and below:
            name, method, address = rest
            return self._added(
                errand,
                offers.endpoint(self._wish(address, name), method, below[0].strip(), schema_of(below[1:])),
            )
        if "://" not in kind or below:
            raise ChangeRefused(HOW_TO)
        return await self._looked(errand, self._wish(kind, rest[0] if rest else ""), rest[1:])

    async def _looked(self, errand: Errand, wish: Wish, operations: list[str]) -> Finish:
        """A document: kept as a source without tools, to be picked from; with operations named, these are
        added.
        """
        looked = await documents.look(wish, {})
        chosen = documents.meant(looked.source, operations)
        if chosen and not documents.foreign(looked.source, chosen):
            return self._added(
                errand, await documents.picked(looked.source, looked.document, chosen, wish.private)
            )
        source = documents.ticked(looked.source, chosen)

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            await adding.add(self._act(errand, tx), Offer(source, ()))
            page = picking.page(source, 0)
            if looked.reported:
                return (*parts([plain(one) for one in looked.reported]), page)
            return (page,)

        return finish

    async def _pick(self, errand: Errand) -> Finish:
        name, *operations = errand.words.split()
        source = await self._source(name)
        if not operations:
            raise ChangeRefused(
                "Use /tools pick NAME, then numbers of its list, names of operations, or all."
            )
        chosen = documents.meant(source, operations)
        async with self._database.reading() as tx:
            secrets = await Sealer(self._where.keys).opened(tx)
        offer = await documents.pick(source, chosen, secrets, self._where.private)

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            return _told(offer, await adding.pick(self._act(errand, tx), offer))

        return finish

    async def _source(self, name: str) -> Source:
        async with self._database.reading() as tx:
            found = await sources.find(tx, name)
        if found is None or found.kind != "openapi":
            raise ChangeRefused(f"There is no document called {name[:60]}.")
        return found

    def _added(self, errand: Errand, offer: Offer) -> Finish:
        async def finish(tx: Transaction) -> tuple[Part, ...]:
            return _told(offer, await adding.add(self._act(errand, tx), offer))

        return finish

    def _act(self, errand: Errand, tx: Transaction) -> Act:
        return Act(tx, errand.by, time.time(), self._own)

    def _wish(self, address: str, name: str) -> Wish:
        return Wish(name or name_of(address), address, private=self._where.private)


def _told(offer: Offer, added: Added) -> tuple[Part, ...]:
    return parts([*words.added(added), *(plain(one) for one in offer.reported)])
