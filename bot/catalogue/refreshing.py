"""Looks at every OpenAPI document anew and keeps what it says today; what changed then waits for an admin."""

from collections.abc import Mapping
from dataclasses import replace

from bot.catalogue import documents
from bot.catalogue.sealing import Sealer
from bot.catalogue.stock import Where
from bot.db import revisions, sources
from bot.db.engine import Database
from bot.db.sources import Source
from bot.errors import ChangeRefused


async def refresh(database: Database, where: Where) -> tuple[str, ...]:
    """Fetch them one after the other; what went wrong, a line each. Raises SettingsRefused if secrets stay closed."""
    async with database.reading() as tx:
        found = [one for one in await sources.all_of(tx) if one.kind == "openapi" and one.enabled]
        secrets = await Sealer(where.keys).opened(tx) if found else {}
    lines: list[str] = []
    for source in found:
        lines += await _refreshed(database, source, secrets, where.private)
    return tuple(lines)


async def _refreshed(
    database: Database, source: Source, secrets: Mapping[str, str], private: frozenset[str]
) -> list[str]:
    try:
        now, lost = await documents.refreshed(source, secrets, private)
    except ChangeRefused as why:
        return [f"{source.name} stays as it was: {why}"]
    async with database.transaction() as tx:
        kept = await sources.find(tx, source.name)
        if kept is not None and kept.options == source.options != now.options:
            await sources.put(tx, replace(kept, options=now.options))
            await revisions.bump(tx, revisions.TOOLS)
    return [*lost]
