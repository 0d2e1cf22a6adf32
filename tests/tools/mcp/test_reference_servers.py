"""The reference servers, as separate processes: what they list and answer is what a model can use."""

import json
from datetime import datetime

import pytest

from tests.support.mcp_session import running_server
from tests.support.web_site import build_response, running_site
from tools.arguments import check_arguments
from tools.base import ToolContext, ToolError, run_tool
from tools.mcp.location import ServerProgram
from tools.registry import render_definitions


async def test_the_time_server_tells_the_time(context: ToolContext):
    program = ServerProgram(("mcp-server-time", "--local-timezone", "Etc/UTC"))
    async with running_server(program, name="time") as (server, _):
        listing = await server.list_tools()
        tools = {definition.name: server.build_tool(definition) for definition in listing.definitions}
        assert sorted(tools) == ["time_convert_time", "time_get_current_time"]
        assert all(tool.rule.ask == "never" and tool.repeatable for tool in tools.values())
        function = render_definitions(tools.values())[1]
        assert list(function["parameters"]["properties"]) == ["timezone"]
        arguments = check_arguments(tools["time_get_current_time"], {"timezone": "Europe/Berlin"})
        result = json.loads((await run_tool(tools["time_get_current_time"], arguments, context)).text)
        assert datetime.fromisoformat(result["datetime"]).utcoffset() is not None
        with pytest.raises(ToolError, match="Mars"):
            await run_tool(tools["time_get_current_time"], {"timezone": "Mars"}, context)


async def test_the_fetch_server_opens_an_address_that_is_named_as_such(context: ToolContext):
    page = build_response(
        "<html><body><h1>Tides</h1><p>High water at noon, and again at midnight.</p></body></html>"
    )
    program = ServerProgram(("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"))
    async with running_site({"/tides": page}) as site, running_server(program, name="web") as (server, _):
        listing = await server.list_tools()
        tools = {definition.name: server.build_tool(definition) for definition in listing.definitions}
        assert sorted(tools) == ["web_fetch", "web_get_prompt"]
        tool = tools["web_fetch"]
        assert (tool.name, tool.opens, tool.outside) == ("web_fetch", "url", True)
        function = render_definitions([tool])[0]
        assert "default" not in function["parameters"]["properties"]["max_length"]
        result = await run_tool(tool, {"url": f"http://127.0.0.1:{site.port}/tides", "raw": True}, context)
        assert "High water at noon" in result.text
