"""Registered tools: the definition an admin accepted, and what admins have set.

A built-in tool has a row only if an admin has set something. Functions work inside the caller's transaction
`tx`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, delete, select

from bot.db.portable_sql import LockNumber, TransactionLock, replace_row
from bot.db.tables import allowances, grants, tools
from bot.db.transaction import Transaction

_LOCK = select(TransactionLock(LockNumber.TOOLS))

ToolDefinition = Mapping[str, Any]
"""A tool's description of itself, as JSON; see tools.base.definition_of."""


@dataclass(frozen=True, slots=True)
class StoredTool:
    """One tool.

    `definition` was accepted last, and `hash` is its fingerprint; both are empty if none ever was. `pending`
    is a changed definition that waits for an admin, `flagged` says why its text looks suspicious: until both
    are None the tool is suspended. `rule` is an admin's own approval rule, as JSON of tools.base.Rule.
    `delivers`: an admin lets it send the person the files that its service returns.
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
    delivers: bool = False

    @property
    def is_suspended(self) -> bool:
        """Whether an admin has to review it before it can be used."""
        return self.pending is not None or self.flagged is not None


async def list_all(tx: Transaction) -> list[StoredTool]:
    """Every tool that has a row, by name."""
    return [_to_tool(row) for row in await tx.execute(select(tools).order_by(tools.c.name))]


async def find(tx: Transaction, name: str) -> StoredTool | None:
    """The row of this tool, if it has one."""
    row = (await tx.execute(select(tools).where(tools.c.name == name))).one_or_none()
    if row:
        return _to_tool(row)
    return None


async def lock(tx: Transaction) -> None:
    """Keep others from changing tools and their sources until `tx` ends: what it reads stays so."""
    await tx.execute(_LOCK)


async def put(tx: Transaction, tool: StoredTool) -> None:
    """Store a tool; replaces its row."""
    row = {name: getattr(tool, name) for name in StoredTool.__slots__}
    texts = {name: _to_json(row[name]) for name in ("definition", "pending", "rule")}
    await tx.execute(replace_row(tools, row | texts))


async def remove(tx: Transaction, names: list[str]) -> None:
    """Delete these tools with their grants and allowances."""
    await tx.execute(delete(allowances).where(allowances.c.tool.in_(names)))
    await tx.execute(delete(grants).where(grants.c.tool.in_(names)))
    await tx.execute(delete(tools).where(tools.c.name.in_(names)))


def _to_tool(row: Row[Any]) -> StoredTool:
    parsed = {
        "definition": json.loads(row.definition),
        "pending": _parse_json(row.pending),
        "rule": _parse_json(row.rule),
    }
    return StoredTool(**row._asdict() | parsed)


def _parse_json(text: str | None) -> Any:
    if not text:
        return None
    return json.loads(text)


def _to_json(value: Mapping[str, Any] | None) -> str | None:
    if value is None:
        return None
    return json.dumps(dict(value), ensure_ascii=False)
