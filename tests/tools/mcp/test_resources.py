"""Resources and prompts: one tool each reads or lists them, where a server has any; links lead to them."""

import re
from dataclasses import replace

import pytest

from bot.http_server import serve
from tests.support.mcp_http_server import FakeMcpHttpServer
from tests.support.mcp_session import call_tool, running_server, stdio_program
from tools.base import Picture, Tool, ToolContext, ToolError, run_tool
from tools.mcp import connection
from tools.mcp.location import ServerUrl
from tools.mcp.server import McpServerClient

READER = "odd_read_resource"
PROMPTER = "odd_get_prompt"


async def load_tools(server: McpServerClient) -> dict[str, Tool]:
    listing = await server.list_tools()
    return {definition.name: server.build_tool(definition) for definition in listing.definitions}


async def test_a_resource_is_listed_and_read(context: ToolContext):
    async with running_server(stdio_program("library")) as (server, _):
        reader = (await load_tools(server))[READER]
        assert (reader.rule.ask, reader.changes, reader.outside) == ("never", False, True)
        assert (reader.repeatable, reader.opens) == (True, "uri")
        listed = (await run_tool(reader, {}, context)).text.splitlines()
        notes = "memo://notes · notes · text/plain · All notes."
        assert listed[:3] == ["Resources:", notes, "memo://0 · 0"]
        assert listed[200:] == [
            "memo://198 · 198",
            "[more are left out]",
            "Resources whose {…} is to be filled in:",
            "memo://{day} · A day",
        ]
        result = await run_tool(reader, {"uri": "memo://notes"}, context)
        assert result.text == "Buy milk.\n[left out: the file memo://x]"
        assert result.images == (Picture("image/png", b"\x89PNG\r\n\x1a\n picture"),)
        delivered = await run_tool(reader, {"uri": "memo://notes"}, replace(context, delivers=True))
        assert (delivered.text, [file.name for file in delivered.files]) == ("Buy milk.", ["notes", "p", "x"])
        with pytest.raises(ToolError, match=re.escape("odd refused: There is no such thing.")):
            await run_tool(reader, {"uri": "memo://other"}, context)


async def test_a_prompt_is_listed_and_filled(context: ToolContext):
    async with running_server(stdio_program("library")) as (server, _):
        prompter = (await load_tools(server))[PROMPTER]
        assert (prompter.rule.ask, prompter.outside, prompter.opens) == ("never", True, None)
        listed = (await run_tool(prompter, {}, context)).text
        assert listed == "Prompts:\nreview · Review it. · takes topic, style (optional)"
        filled = await run_tool(prompter, {"name": "review", "arguments": {"topic": "the tides"}}, context)
        assert filled.text == "user: Review the tides."


async def test_a_link_in_a_result_names_the_tool_that_reads_it():
    async with running_server(stdio_program("library")) as (server, _):
        result = await call_tool(server, "pictures", {})
        assert f"[the resource b, which {READER} reads: file:///b.txt]" in result.text.splitlines()


async def test_a_link_names_no_tool_that_the_server_has_under_that_name():
    async with running_server(stdio_program("own reader")) as (server, _):
        [own] = [tool for tool in (await server.list_tools()).definitions if tool.name == READER]
        assert own.remote == "readResource"
        result = await call_tool(server, "pictures", {})
        assert "[left out: the resource file:///b.txt]" in result.text.splitlines()


async def test_a_server_that_is_slow_to_list_its_resources_again_keeps_them(monkeypatch: pytest.MonkeyPatch):
    site = FakeMcpHttpServer()
    site.resources["memo://notes"] = "Buy milk."
    async with serve(site.app) as url:
        location = ServerUrl(f"{url}/mcp", private=frozenset({"127.0.0.1"}))
        async with running_server(location) as (server, changes):
            assert READER in await load_tools(server)
            monkeypatch.setattr(connection, "SIDE_LIST_SECONDS", 0.0)
            await call_tool(server, "grow", {})
            await changes.wait_until(lambda listings: len(listings) == 2)
            assert {READER, "odd_grown"} <= (await load_tools(server)).keys()


@pytest.mark.parametrize("behavior", ["well", "empty library", "refusing library"])
async def test_a_server_without_any_has_no_such_tool(behavior: str):
    async with running_server(stdio_program(behavior)) as (server, _):
        tools = await load_tools(server)
        assert "odd_echo" in tools
        assert not {READER, PROMPTER} & tools.keys()


async def test_a_server_with_resources_alone_is_read(context: ToolContext):
    async with running_server(stdio_program("reading room")) as (server, _):
        [reader] = (await load_tools(server)).values()
        assert (await run_tool(reader, {"uri": "memo://notes"}, context)).text.startswith("Buy milk.")
