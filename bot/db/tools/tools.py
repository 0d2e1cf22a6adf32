"""What is known of registered tools: the definition an admin accepted, and what was set. Functions work
inside `tx`.

Of the house's own tools there is a row only where an admin has set something.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, delete, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import allowances, grants, tools

ToolDefinition = Mapping[str, Any]
"""What a tool says of itself, as JSON; see tools.base.definition_of."""


@dataclass(frozen=True, slots=True)
class StoredTool:
    """One tool. `definition` is the one last accepted and `hash` its fingerprint; both are empty if none ever
    was.

    `pending` is a definition that waits for an admin, `flagged` why its words want a second look: until both
    are gone the tool is suspended. `rule` is an admin's own, as JSON of tools.base.Rule.
    """

    name: str
    source: str
    definition: ToolDefinition = field(default_factory=dict)
    hash: str = ""
    enabled: bool = True
    pending: ToolDefinition | None = None
    flagged: str | None = None
    rule: Mapping[str, Any] | None = None
    changed_at: float = 0.0

    @property
    def is_suspended(self) -> bool:
        """Whether an admin has to look at it first."""
        return self.pending is not None or self.flagged is not None


async def list_all(tx: AsyncConnection) -> list[StoredTool]:
    """Every tool that has a row, by name."""
    return [_to_tool(row) for row in await tx.execute(select(tools).order_by(tools.c.name))]


async def find(tx: AsyncConnection, name: str) -> StoredTool | None:
    """The row of this tool, if it has one."""
    row = (await tx.execute(select(tools).where(tools.c.name == name))).one_or_none()
    if row:
        return _to_tool(row)
    return None


async def put(tx: AsyncConnection, tool: StoredTool) -> None:
    """Keep what is known of a tool, in place of what was."""
    row: dict[str, Any] = {
        "name": tool.name,
        "source": tool.source,
        "definition": _to_json(tool.definition),
        "hash": tool.hash,
        "enabled": tool.enabled,
        "pending": None if tool.pending is None else _to_json(tool.pending),
        "flagged": tool.flagged,
        "rule": None if tool.rule is None else _to_json(tool.rule),
        "changed_at": tool.changed_at,
    }
    await tx.execute(insert(tools).values(row).on_conflict_do_update(index_elements=["name"], set_=row))


async def remove(tx: AsyncConnection, names: list[str]) -> None:
    """Forget these tools, who might use them, and what was allowed ahead."""
    await tx.execute(delete(allowances).where(allowances.c.tool.in_(names)))
    await tx.execute(delete(grants).where(grants.c.tool.in_(names)))
    await tx.execute(delete(tools).where(tools.c.name.in_(names)))


def _to_tool(row: Row[Any]) -> StoredTool:
    pending, rule = (json.loads(text) if text else None for text in (row.pending, row.rule))
    known = json.loads(row.definition)
    return StoredTool(
        row.name, row.source, known, row.hash, row.enabled, pending, row.flagged, rule, row.changed_at
    )


def _to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False)
