"""Looks at every OpenAPI document anew and keeps what it says today; what changed then waits for an admin."""

from collections.abc import Mapping
from dataclasses import replace

from bot.db import revisions
from bot.db.engine import Database
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry.encryption import SecretBox
from bot.tool_registry.loader import ToolSettings


async def refresh_documents(database: Database, settings: ToolSettings) -> tuple[str, ...]:
    """Fetch them one after the other; what went wrong, a line each. Raises SettingsRefused if secrets stay
    closed.
    """
    async with database.read_transaction() as tx:
        found = [one for one in await sources.list_all(tx) if one.kind == "openapi" and one.enabled]
        secrets = await SecretBox(settings.secret_keys).decrypt_all(tx) if found else {}
    lines: list[str] = []
    for source in found:
        lines += await _refresh_source(database, source, secrets, settings.private_hosts)
    return tuple(lines)


async def _refresh_source(
    database: Database, source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> list[str]:
    try:
        now, lost = await documents.refresh_document(source, secrets, private_hosts)
    except ChangeRefused as why:
        return [f"{source.name} stays as it was: {why}"]
    async with database.transaction() as tx:
        kept = await sources.find(tx, source.name)
        if kept is not None and kept.options == source.options != now.options:
            await sources.put(tx, replace(kept, options=now.options))
            await revisions.bump(tx, revisions.TOOLS)
    return [*lost]
