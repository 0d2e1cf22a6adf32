"""A house with registered tools, for tests of what admins do: rows as the catalogue would have written them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bot.db import revisions
from bot.db.engine import Database
from bot.db.tools import audit, sources, tools
from bot.db.tools.audit import By, Change
from bot.db.tools.sources import Kind, Source
from bot.db.tools.tools import StoredTool
from bot.tool_registry.admin_actions import Act
from tools.base import hash_of
from tools.builtin.clock import clock
from tools.builtin.notes import recall, remember

ADA = By(1, "telegram")
NOW = 1_700_000_000.0
GIVEN = (
    "list",
    "order",
    "new",
    "now",
    *(f"{number:02}" for number in range(30)),
)  # what a source gives, by its end
OWN = {tool.name: tool for tool in (clock, recall, remember)}


def definition(name: str, description: str = "Does it.", **properties: str) -> dict[str, Any]:
    """A definition whose parameters are strings with these descriptions."""
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
    }
    told = {
        "name": name,
        "description": description,
        "input_schema": schema,
        "address": "https://shop.example",
    }
    return told | {"changes": False, "outside": True, "opens": None}


class Registered:
    """The rows of a house, and acts upon them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @asynccontextmanager
    async def act(self, by: By = ADA) -> AsyncIterator[Act]:
        async with self.database.transaction() as tx:
            yield Act(tx, by, NOW, OWN)

    async def source(self, name: str = "shop", kind: Kind = "openapi", **more: Any) -> None:
        async with self.database.transaction() as tx:
            options = {"routes": [{"name": f"{name}_{tool}", "operation": tool} for tool in GIVEN]}
            await sources.put(
                tx, Source(name, kind, "https://shop.example/openapi.json", options, added_at=NOW, **more)
            )

    async def tool(
        self, name: str, source: str = "shop", known: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        """A tool of a source, accepted unless `known` is empty."""
        told = definition(name) if known is None else known
        async with self.database.transaction() as tx:
            await tools.put(
                tx, StoredTool(name, source, told, hash_of(told) if told else "", changed_at=NOW, **more)
            )

    async def find(self, name: str) -> StoredTool | None:
        async with self.database.reading() as tx:
            return await tools.find(tx, name)

    async def changes(self) -> list[Change]:
        """The audit, oldest first."""
        async with self.database.reading() as tx:
            return (await audit.changes(tx))[::-1]

    async def revision(self) -> int:
        async with self.database.reading() as tx:
            return (await revisions.read(tx)).get(revisions.TOOLS, 0)
