"""The reference servers written for Node: all that they offer is used as elsewhere."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bot.attachments.images import shrink_image
from tests.support.mcp_session import call_tool, running_server
from tests.support.reference_servers import find_reference_server
from tools.arguments import check_arguments
from tools.base import Tool, ToolContext, ToolError, run_tool
from tools.mcp.server import McpServerClient


async def load_tools(server: McpServerClient) -> dict[str, Tool]:
    listing = await server.list_tools()
    return {definition.name: server.build_tool(definition) for definition in listing.definitions}


async def test_everything_that_the_reference_server_offers_is_used(tmp_path: Path, context: ToolContext):
    async with running_server(find_reference_server("everything", home=tmp_path), name="all") as (server, _):
        tools = await load_tools(server)
        [warning] = (await server.list_tools()).warnings
        assert warning.startswith("'simulate-research-query' is left out: it runs as a task of its own")
        echo = tools["all_echo"]
        arguments = check_arguments(echo, {"message": "hello"})
        assert (await run_tool(echo, arguments, context)).text == "Echo: hello"
        weather = (await run_tool(tools["all_get_structured_content"], {"location": "Chicago"}, context)).text
        assert json.loads(weather)["temperature"] == 36
        [picture] = (await run_tool(tools["all_get_tiny_image"], {}, context)).images
        delivered = await run_tool(tools["all_get_tiny_image"], {}, replace(context, delivers=True))
        assert [file.data for file in delivered.files] == [picture.data]
        assert "media_type" in shrink_image(picture.data)  # though the checksum of its profile is wrong
        lines: list[str] = []
        work = {"duration": 0.2, "steps": 2}
        result = await call_tool(server, "trigger-long-running-operation", work, lines.append)
        assert "completed" in result.text
        assert lines == ["1 of 2", "2 of 2"]


async def test_its_resources_and_prompts_are_read(tmp_path: Path, context: ToolContext):
    async with running_server(find_reference_server("everything", home=tmp_path), name="all") as (server, _):
        tools = await load_tools(server)
        reader = tools["all_read_resource"]
        links = (await run_tool(tools["all_get_resource_links"], {"count": 2}, context)).text
        uri = "demo://resource/dynamic/text/2"
        assert f"[the resource Text Resource 2, which all_read_resource reads: {uri}]" in links
        assert "This is a plaintext resource" in (await run_tool(reader, {"uri": uri}, context)).text
        listed = (await run_tool(reader, {}, context)).text
        assert "demo://resource/static/document/features.md · features.md · text/markdown" in listed
        assert "demo://resource/dynamic/text/{resourceId}" in listed
        prompter = tools["all_get_prompt"]
        assert "args-prompt" in (await run_tool(prompter, {}, context)).text
        filled = {"name": "args-prompt", "arguments": {"city": "Oslo"}}
        assert (await run_tool(prompter, filled, context)).text == "user: What's weather in Oslo?"


async def test_the_memory_server_keeps_what_it_is_told(tmp_path: Path, context: ToolContext):
    environment = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    program = find_reference_server("memory", home=tmp_path, environment=environment)
    entity = {"name": "Ann", "entityType": "person", "observations": ["lives in Oslo"]}
    async with running_server(program, name="memory") as (server, _):
        tools = await load_tools(server)
        create = tools["memory_create_entities"]
        assert (create.changes, create.rule.ask) == (True, "always")
        await run_tool(create, check_arguments(create, {"entities": [entity]}), context)
    async with running_server(program, name="memory") as (server, _):
        graph = (await run_tool((await load_tools(server))["memory_read_graph"], {}, context)).text
        assert json.loads(graph)["entities"] == [entity]


async def test_the_filesystem_server_reads_its_folder_and_no_other(tmp_path: Path, context: ToolContext):
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "tides.txt").write_text("High water at noon.")
    program = find_reference_server("filesystem", str(folder), home=tmp_path / "home")
    async with running_server(program, name="files") as (server, _):
        read = (await load_tools(server))["files_read_text_file"]
        assert (read.changes, read.rule.ask) == (False, "never")
        assert (
            await run_tool(read, {"path": str(folder / "tides.txt")}, context)
        ).text == "High water at noon."
        with pytest.raises(ToolError, match="outside allowed directories"):
            await run_tool(read, {"path": "/etc/hostname"}, context)
