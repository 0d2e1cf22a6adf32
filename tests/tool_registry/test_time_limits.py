"""The time limits of a source: as admins write them, kept in its options, and what its tools make of them."""

import pytest

from bot.db.engine import Database
from bot.db.tools import sources
from bot.db.tools.sources import Source, SourceKind
from bot.errors import ChangeRefused
from bot.tool_registry.previews import SourceRequest, build_tools, preview_endpoint
from bot.tool_registry.sources import build_limits
from bot.tool_registry.time_limits import (
    TimeLimits,
    format_time_limits,
    parse_time_limits,
    read_time_limits,
    set_time_limits,
)
from bot.translations.translator import ENGLISH
from tests.support.registered_tools import RegisteredToolsHarness
from tools.base import Tool, hash_tool
from tools.http.service import TIMEOUT_SECONDS
from tools.http.tools import GRACE_SECONDS
from tools.mcp.location import ServerProgram, ServerUrl
from tools.mcp.time_limits import DEFAULT_LIMITS, INSTALL_SECONDS


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("120", TimeLimits(120)),
        (" 120 start 300 ", TimeLimits(120, 300)),
        ("start 300", TimeLimits(None, 300)),
        ("START 5", TimeLimits(None, 5)),
        ("Default", None),
    ],
)
def test_limits_are_read_as_they_are_written(text: str, limits: TimeLimits | None):
    assert parse_time_limits(text) == limits


@pytest.mark.parametrize("text", ["", "fast", "120 s", "-5", "1.5", "start", "120 300", "9999999"])
def test_other_words_are_no_limits(text: str):
    with pytest.raises(ChangeRefused, match="Say how many seconds"):
        parse_time_limits(text)


@pytest.mark.parametrize(
    ("kind", "limits", "complaint"),
    [
        ("file", TimeLimits(5), "says its time limit itself"),
        ("openapi", TimeLimits(5, 5), "Only an MCP server's start"),
        ("mcp_http", TimeLimits(0.5), "1 to 3600 seconds"),
        ("mcp_http", TimeLimits(5, 3601), "1 to 3600 seconds"),
        ("endpoint", TimeLimits(float("nan")), "1 to 3600 seconds"),
    ],
)
def test_a_source_refuses_limits_that_it_cannot_have(kind: SourceKind, limits: TimeLimits, complaint: str):
    with pytest.raises(ChangeRefused, match=complaint):
        limits.to_options(kind)


async def test_limits_are_set_one_by_one_and_taken_back(database: Database):
    harness = RegisteredToolsHarness(database)
    await harness.add_source("docs", "mcp_http")

    async def set_and_load(text: str) -> TimeLimits:
        async with harness.open_action() as action:
            await set_time_limits(action, "docs", parse_time_limits(text))
        async with database.read_transaction() as tx:
            stored = await sources.find(tx, "docs")
        assert stored is not None
        assert "routes" in stored.options  # the other options stay
        return read_time_limits(stored.options)

    assert await set_and_load("120") == TimeLimits(120)
    assert await set_and_load("start 300") == TimeLimits(120, 300)
    assert await set_and_load("start 300") == TimeLimits(120, 300)
    assert await set_and_load("default") == TimeLimits()
    changes = await harness.list_changes()
    assert [(change.what, change.subject) for change in changes] == [("set time limits", "source docs")] * 3
    assert changes[1].after == {"call_seconds": 120, "start_seconds": 300}
    async with harness.open_action() as action:
        with pytest.raises(ChangeRefused, match="There is no source nothing"):
            await set_time_limits(action, "nothing", TimeLimits(5))


def test_a_server_that_may_install_itself_has_more_time_to_start():
    source = Source("docs", "mcp_stdio", "npx docs")
    npx = ServerProgram(("npx", "docs"))
    assert build_limits(source, npx).connect_seconds == INSTALL_SECONDS
    assert build_limits(source, ServerProgram(("docs",))) == DEFAULT_LIMITS
    assert build_limits(source, ServerUrl("https://docs.example")) == DEFAULT_LIMITS
    changed = Source("docs", "mcp_stdio", "npx docs", {"call_seconds": 5, "start_seconds": 7})
    limits = build_limits(changed, npx)
    assert (limits.call_seconds, limits.max_call_seconds, limits.connect_seconds) == (5, 50, 7)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("endpoint", {}, "a call may take 20 s"),
        ("openapi", {"call_seconds": 60.0}, "a call may take 60 s"),
        ("mcp_http", {}, "a call may take 30 s, and 300 s if it reports progress"),
        (
            "mcp_stdio",
            {"call_seconds": 5.0, "start_seconds": 90.0},
            "a call may take 5 s, and 50 s if it reports progress; the start 90 s",
        ),
    ],
)
def test_limits_in_words(kind: SourceKind, options: dict[str, float], words: str):
    assert format_time_limits(ENGLISH, Source("docs", kind, "https://docs.example", options)) == words


async def test_the_tool_of_an_endpoint_keeps_the_limit_of_its_source():
    async def build(limits: TimeLimits) -> Tool:
        request = SourceRequest("hats", "https://shop.example/hats", time_limits=limits)
        schema = {"type": "object", "properties": {}}
        preview = await preview_endpoint(request, "GET", "Hats.", schema)
        return (await build_tools(preview.source, frozenset()))[0]

    quick = await build(TimeLimits(5))
    usual = await build(TimeLimits())
    assert quick.timeout == 5 + GRACE_SECONDS
    assert usual.timeout == TIMEOUT_SECONDS + GRACE_SECONDS
    assert hash_tool(quick) == hash_tool(usual)
