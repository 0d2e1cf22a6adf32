"""What admins read of a source is complete, and nothing a stranger wrote hides in it."""

from pathlib import Path

from bot.db.engine import Database
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.tool_registry.source_info import SourceInfo, format_source, load_source_info, to_source_record
from bot.translations.translator import ENGLISH
from tests.support.registered_tools import BUILTIN_TOOLS, RegisteredToolsHarness

HOMES = Path("/var/lib/canvasgram/canvasgram.db-mcp")


async def test_a_source_is_shown_with_its_tools(database: Database):
    harness = RegisteredToolsHarness(database)
    await harness.add_source(trouble="it is\naway", added_by=7)
    await harness.add_source("docs", "mcp_http")
    await harness.add_tool("shop_order", enabled=False)
    await harness.add_tool("shop_list")
    await harness.add_tool("docs_list", "docs")
    async with database.read_transaction() as tx:
        shop = await sources.find(tx, "shop")
        assert shop is not None
        info = await load_source_info(tx, BUILTIN_TOOLS, shop, HOMES)
    assert list(format_source(ENGLISH, info)) == [
        "shop: OpenAPI, on",
        "At: https://shop.example/openapi.json",
        "Trouble: it is\\naway",
        "Added: 2023-11-14 22:13:20 UTC, by 7",
        "Time: a call may take 20 s",
        "Tools: 2",
        "· shop_list: not available: it is\\naway",
        "· shop_order: off",
    ]
    record = to_source_record(info)
    assert record["tools"] == {"shop_list": "in trouble", "shop_order": "off"}
    assert (record["home"], record["call_seconds"]) == (None, None)


def test_of_what_a_source_is_sent_the_names_are_shown():
    options = {"environment": {"KEY": "{key}", "ZONE": "UTC"}, "call_seconds": 60.0}
    program = SourceInfo(Source("time", "mcp_stdio", "uvx time", options), (), HOMES / "time")
    assert list(format_source(ENGLISH, program))[3:] == [
        "Environment: KEY, ZONE",
        "Time: a call may take 60 s, and 600 s if it reports progress",
        f"Home: {HOMES}/time, deleted with it",
        "Tools: none",
    ]
    named = Source("time", "mcp_stdio", "uvx time", {"home": "/srv/time"})
    assert "Home: /srv/time, named by an admin" in list(
        format_source(ENGLISH, SourceInfo(named, (), Path("/srv/time")))
    )
    server = Source("docs", "mcp_http", "https://docs.example", {"headers": {"X-Key": "Bearer {key}"}})
    lines = list(format_source(ENGLISH, SourceInfo(server, (), None)))
    assert "Headers: X-Key" in lines
    assert not any("Bearer" in line for line in lines)
    shop = Source("shop", "openapi", "https://shop.example", {"secrets": {"query": {"key": "{key}"}}})
    assert "query key={key}" in list(format_source(ENGLISH, SourceInfo(shop, (), None)))
