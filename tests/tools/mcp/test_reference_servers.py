"""The reference servers, as separate processes: what they list and answer is what a model can use."""

import json
from datetime import datetime

import pytest

from tests.support.mcp_session import running
from tests.support.web_site import answer, site
from tools.arguments import check
from tools.base import ToolContext, ToolError, find
from tools.mcp.location import Program
from tools.registry import definitions


async def test_the_time_server_tells_the_time(context: ToolContext):
    async with running(Program(("mcp-server-time", "--local-timezone", "Etc/UTC")), name="time") as (
        server,
        _,
    ):
        listing = await server.listed()
        tools = {one.name: server.tool(one) for one in listing.definitions}
        assert sorted(tools) == ["time_convert_time", "time_get_current_time"]
        assert all(tool.rule.ask == "never" and tool.repeatable for tool in tools.values())
        shown = definitions(tools.values())[1]["function"]
        assert list(shown["parameters"]["properties"]) == ["timezone"]
        arguments = check(tools["time_get_current_time"], {"timezone": "Europe/Berlin"})
        found = json.loads((await find(tools["time_get_current_time"], arguments, context)).text)
        assert datetime.fromisoformat(found["datetime"]).utcoffset() is not None
        with pytest.raises(ToolError, match="Mars"):
            await find(tools["time_get_current_time"], {"timezone": "Mars"}, context)


async def test_the_fetch_server_opens_an_address_that_is_named_as_such(context: ToolContext):
    page = answer("<html><body><h1>Tides</h1><p>High water at noon, and again at midnight.</p></body></html>")
    program = Program(("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"))
    async with site({"/tides": page}) as here, running(program, name="web") as (server, _):
        listing = await server.listed()
        [definition] = listing.definitions
        tool = server.tool(definition)
        assert (tool.name, tool.opens, tool.outside) == ("web_fetch", "url", True)
        assert "default" not in definitions([tool])[0]["function"]["parameters"]["properties"]["max_length"]
        found = await find(tool, {"url": f"http://127.0.0.1:{here.port}/tides", "raw": True}, context)
        assert "High water at noon" in found.text
