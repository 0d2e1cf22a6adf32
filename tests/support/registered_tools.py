"""A database with registered tools, as the registry would have written it, for tests of admin actions."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bot.db import revisions
from bot.db.engine import Database
from bot.db.tools import audit, sources, tools
from bot.db.tools.audit import Actor, AuditEntry
from bot.db.tools.sources import Source, SourceKind
from bot.db.tools.tools import StoredTool
from bot.tool_registry.admin_actions import AdminAction, begin_action
from tools.base import hash_definition
from tools.builtin.clock import clock
from tools.builtin.notes import recall, remember

ADA = Actor(1, "telegram")
NOW = 1_700_000_000.0
# The ends of the names of the tools that a source gives.
TOOL_SUFFIXES = ("list", "order", "new", "now", *(f"{number:02}" for number in range(30)))
BUILTIN_TOOLS = {tool.name: tool for tool in (clock, recall, remember)}


def build_definition(name: str, description: str = "Does it.", **properties: str) -> dict[str, Any]:
    """Build a definition whose parameters are strings with these descriptions."""
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
    }
    return {
        "name": name,
        "description": description,
        "input_schema": schema,
        "address": "https://shop.example",
        "changes": False,
        "outside": True,
        "opens": None,
    }


class RegisteredToolsHarness:
    """The rows of sources and tools, and actions upon them."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @asynccontextmanager
    async def open_action(self, actor: Actor = ADA) -> AsyncIterator[AdminAction]:
        async with self.database.transaction() as tx:
            yield await begin_action(tx, actor, NOW, BUILTIN_TOOLS)

    async def add_source(self, name: str = "shop", kind: SourceKind = "openapi", **more: Any) -> None:
        async with self.database.transaction() as tx:
            options = {"routes": [{"name": f"{name}_{tool}", "operation": tool} for tool in TOOL_SUFFIXES]}
            await sources.put(
                tx, Source(name, kind, "https://shop.example/openapi.json", options, added_at=NOW, **more)
            )

    async def add_tool(
        self,
        name: str,
        source_name: str = "shop",
        accepted_definition: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Add a tool of a source, accepted unless `accepted_definition` is empty."""
        definition = accepted_definition
        if definition is None:
            definition = build_definition(name)
        hash = hash_definition(definition) if definition else ""
        async with self.database.transaction() as tx:
            await tools.put(tx, StoredTool(name, source_name, definition, hash, changed_at=NOW, **more))

    async def find_tool(self, name: str) -> StoredTool | None:
        async with self.database.read_transaction() as tx:
            return await tools.find(tx, name)

    async def list_changes(self) -> list[AuditEntry]:
        """Return the audit, oldest first."""
        async with self.database.read_transaction() as tx:
            return (await audit.list_entries(tx))[::-1]

    async def load_revision(self) -> int:
        async with self.database.read_transaction() as tx:
            return (await revisions.read(tx, [revisions.TOOLS])).get(revisions.TOOLS, 0)
