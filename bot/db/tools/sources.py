"""The sources that registered tools come from. Functions work inside the caller's transaction `tx`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import Row, bindparam, delete, select, update

from bot.db.portable_sql import replace_row
from bot.db.tables import sources
from bot.db.transaction import Transaction

SourceKind = Literal["file", "openapi", "endpoint", "mcp_http", "mcp_stdio"]


@dataclass(frozen=True, slots=True)
class Source:
    """One source.

    `address` is a URL, a path or a command. `options` are JSON that depends on the kind; they hold secrets by
    name only, and may hold `trusted` and `reductions`, by the names of tools. `trouble`: why it does not
    work; None: it does. `added_by` None: on the command line.
    """

    name: str
    kind: SourceKind
    address: str
    options: Mapping[str, Any] = field(default_factory=dict)
    enabled: bool = True
    trouble: str | None = None
    added_by: int | None = None
    added_at: float = 0.0

    @property
    def is_trusted(self) -> bool:
        """Whether an admin trusts the words of its results."""
        return bool(self.options.get("trusted"))

    def with_options(self, **options: Any) -> "Source":
        """The source with these options in place of those of the same names."""
        return replace(self, options={**self.options, **options})

    def get_reduction(self, tool_name: str) -> str:
        """The JMESPath of what the model reads of a tool's results; empty: all of them."""
        reduction: str = self.options.get("reductions", {}).get(tool_name, "")
        return reduction

    def with_reduction(self, tool_name: str, expression: str) -> "Source":
        """The source with another one for this tool; empty: none."""
        reductions = {**self.options.get("reductions", {}), tool_name: expression}
        kept = {name: text for name, text in reductions.items() if text}
        return self.with_options(reductions=kept)


async def list_all(tx: Transaction) -> list[Source]:
    """Every source, by name."""
    return [_to_source(row) for row in await tx.execute(select(sources).order_by(sources.c.name))]


async def find(tx: Transaction, name: str) -> Source | None:
    """The source of this name."""
    row = (await tx.execute(select(sources).where(sources.c.name == name))).one_or_none()
    if row:
        return _to_source(row)
    return None


async def put(tx: Transaction, source: Source) -> None:
    """Store a source; replaces one of the same name."""
    row = {name: getattr(source, name) for name in Source.__slots__}
    options = json.dumps(dict(source.options), ensure_ascii=False)
    await tx.execute(replace_row(sources, row | {"options": options}))


async def set_enabled(tx: Transaction, name: str, *, enabled: bool) -> bool:
    """Enable or disable a source; False if there is none of this name."""
    changed = await tx.execute(update(sources).where(sources.c.name == name).values(enabled=enabled))
    return bool(changed.rowcount)


async def store_troubles(tx: Transaction, troubles: Mapping[str, str | None]) -> None:
    """Store why these sources do not work (by name); None: they do."""
    if troubles:
        source = update(sources).where(sources.c.name == bindparam("source_name"))
        rows = [{"source_name": name, "reason": trouble} for name, trouble in troubles.items()]
        await tx.execute(source.values(trouble=bindparam("reason")), rows)


async def remove(tx: Transaction, name: str) -> bool:
    """Delete a source, not its tools; False if there is none of this name."""
    return bool((await tx.execute(delete(sources).where(sources.c.name == name))).rowcount)


def _to_source(row: Row[Any]) -> Source:
    return Source(**row._asdict() | {"options": json.loads(row.options)})
