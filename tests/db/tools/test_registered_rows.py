"""Rows of sources, tools, grants and secrets that admins registered, and the revisions that count changes."""

from dataclasses import replace

from bot.db import revisions
from bot.db.engine import Database
from bot.db.tools import grants, secrets, sources, tools
from bot.db.tools.grants import Grant
from bot.db.tools.secrets import SealedSecret
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool


async def test_a_source_is_stored_changed_and_deleted(database: Database) -> None:
    weather = Source(
        "weather", "openapi", "https://w.example/api", {"picked": ["a", "ä"]}, added_by=7, added_at=1.5
    )
    async with database.transaction() as tx:
        await sources.put(tx, Source("pages", "mcp_stdio", "uvx pages"))
        await sources.put(tx, weather)
        await sources.put(tx, replace(weather, options={"picked": []}))
        assert await sources.set_enabled(tx, "weather", enabled=False)
        assert not await sources.set_enabled(tx, "nothing", enabled=False)
        await sources.store_troubles(tx, {"weather": "it is away", "pages": None})
        await sources.store_troubles(tx, {})
        pages, stored = await sources.list_all(tx)
        assert stored == replace(weather, options={"picked": []}, enabled=False, trouble="it is away")
        assert (pages.added_by, pages.enabled, pages.trouble) == (None, True, None)
        assert await sources.find(tx, "weather") == stored
        assert await sources.remove(tx, "weather")
        assert not await sources.remove(tx, "weather")
        assert await sources.find(tx, "weather") is None


async def test_a_tool_is_suspended_until_nothing_waits_for_an_admin(database: Database) -> None:
    accepted = StoredTool("rain", "weather", {"name": "rain"}, "h1", rule={"ask": "always"}, changed_at=2.0)
    changed = replace(accepted, pending={"name": "rain", "description": "other"}, flagged="it instructs")
    async with database.transaction() as tx:
        await tools.put(tx, accepted)
        assert await tools.find(tx, "rain") == accepted
        assert not accepted.is_suspended
        await tools.put(tx, changed)
        assert await tools.list_all(tx) == [changed]
        assert changed.is_suspended
        assert replace(changed, pending=None).is_suspended
        await grants.give(tx, Grant("rain", "everyone"))
        await tools.remove(tx, ["rain"])
        assert await tools.find(tx, "rain") is None
        assert await grants.list_all(tx) == []


async def test_grants_are_given_renewed_rebound_and_revoked(database: Database) -> None:
    async with database.transaction() as tx:
        await grants.give(tx, Grant("rain", "person", 8, "h1", given_by=7, given_at=1.0))
        await grants.give(tx, Grant("rain", "person", 8, "h1", given_by=7, given_at=3.0))
        await grants.give(tx, Grant("rain", "chat", -100, "h0", given_by=None, given_at=2.0))
        await grants.rebind(tx, "rain", "h2", old_hash="h1")
        assert await grants.list_all(tx) == [
            Grant("rain", "chat", -100, "h0", None, 2.0),
            Grant("rain", "person", 8, "h2", 7, 3.0),
        ]
        assert await grants.list_all(tx, "snow") == []
        assert await grants.revoke(tx, "rain", "chat", -100)
        assert not await grants.revoke(tx, "rain", "chat", -100)
        await grants.revoke_all(tx, 8)
        assert await grants.list_all(tx, "rain") == []


async def test_secrets_are_stored_by_name(database: Database) -> None:
    async with database.transaction() as tx:
        await secrets.put(tx, SealedSecret("key", "s1", 1.0))
        await secrets.put(tx, SealedSecret("key", "s2", 2.0))
        assert await secrets.list_all(tx) == [SealedSecret("key", "s2", 2.0)]
        assert await secrets.remove(tx, "key")
        assert not await secrets.remove(tx, "key")


async def test_a_revision_counts_up(database: Database) -> None:
    async with database.transaction() as tx:
        assert await revisions.read(tx, ["tools", "files"]) == {}
        await revisions.bump(tx, revisions.TOOLS)
        await revisions.bump(tx, revisions.TOOLS)
        await revisions.bump(tx, revisions.FILES)
        assert await revisions.read(tx, ["tools", "files", "people"]) == {"tools": 2, "files": 1}
