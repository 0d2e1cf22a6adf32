"""MCP servers with a connection for each person: own programs, own homes, ended when they are idle."""

import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.db.tools.secrets import name_sign_in
from bot.db.tools.sources import Source
from bot.http_server import serve
from bot.tool_registry.mcp_servers import McpServers
from bot.tool_registry.previews import SourceRequest, preview_server
from bot.tool_registry.program_homes import delete_home, find_home
from bot.tool_registry.sign_ins import UnsealedSignIn
from bot.tool_registry.sources import NOBODY, SourceLoader
from tests.support.mcp_http_server import ANY_SCHEMA, FakeMcpHttpServer
from tests.support.mcp_session import QUICK_LIMITS, STDIO_SERVER, call_tool, stdio_program
from tests.tools.conftest import build_context
from tools.base import Tool
from tools.mcp.definitions import McpToolDefinition
from tools.mcp.sign_in import SignIn, SignInStore

COMMAND = shlex.join((sys.executable, "-S", str(STDIO_SERVER)))


@contextlib.asynccontextmanager
async def open_process_tool(homes: Path) -> AsyncIterator[tuple[Tool, SourceLoader]]:
    """The tool `process` of a personal program, which returns the number of its process; and its loader."""
    request = SourceRequest("odd", COMMAND, homes=homes, personal=NOBODY)
    source = (await preview_server(request, {}, is_remote=False)).source
    loader = SourceLoader(frozenset(), None, homes)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(loader.run())
        [loaded] = await loader.load_sources([source], {})
        try:
            yield next(tool for tool in loaded.tools if tool.name == "odd_process"), loader
        finally:
            running.cancel()


async def test_each_person_has_a_process_and_a_home(tmp_path: Path):
    async with open_process_tool(tmp_path) as (tool, loader):
        people = (7, 8, 7, NOBODY)
        calls: list[Any] = [
            await tool.function({}, replace(build_context(), person_id=person)) for person in people
        ]
        anns, bobs, anns_again, of_machine = (call.text for call in calls)
        assert anns == anns_again
        assert len({anns, bobs, of_machine}) == 3
        assert {folder.name for folder in tmp_path.iterdir()} == {"odd", "odd-7", "odd-8"}
        loader.end_person(7)  # an admin removed Ann
        ends = (tmp_path / "odd-7", Path(f"/proc/{anns}"))
        while any(path.exists() for path in ends):  # noqa: ASYNC110  # by another thread and the system
            await asyncio.sleep(0.01)
        assert Path(f"/proc/{bobs}").exists()
    assert {folder.name for folder in tmp_path.iterdir()} == {"odd", "odd-8"}


async def test_a_connection_of_one_person_ends_when_it_is_idle():
    servers = McpServers(None, idle_seconds=0.0)
    async with asyncio.TaskGroup() as tasks:
        servers.start(tasks)
        server = servers.get_server("odd", stdio_program(), QUICK_LIMITS, 7)
        with servers.use("odd", 7), servers.use("odd", 7):
            first = (await call_tool(server, "process", {})).text
        await asyncio.sleep(0.0)  # the loop calls what is due
        await asyncio.sleep(0.0)
        server = servers.get_server("odd", stdio_program(), QUICK_LIMITS, 7)
        assert (await call_tool(server, "process", {})).text != first
        assert servers.list_troubles() == {}
        servers.keep_only([])


async def test_a_turn_that_began_before_a_sign_in_uses_it_and_the_same_connection():
    site = FakeMcpHttpServer(read_only=True)
    async with serve(site.app) as url, asyncio.TaskGroup() as tasks:
        definition = McpToolDefinition("odd_echo", "echo", "It echoes.", ANY_SCHEMA, True, True, None)
        options = {"listing": [definition.as_json()], "personal": NOBODY}
        source = Source("odd", "mcp_http", f"{url}/mcp", options)
        kept = SignIn(source.address, 1.0, {"access_token": "token-of-ann"}, None, {})

        def open_sign_in(source: Source, person: int | None) -> SignInStore:
            return UnsealedSignIn(kept)

        loader = SourceLoader(frozenset({"127.0.0.1"}), None, open_sign_in=open_sign_in)
        running = tasks.create_task(loader.run())
        [before] = await loader.load_sources([source], {})
        [after] = await loader.load_sources([source], {name_sign_in("odd", 7): kept.as_text()})
        for loaded in (before, after, before):
            await loaded.tools[0].function({"text": "hello"}, replace(build_context(), person_id=7))
        running.cancel()
    assert site.methods.count("initialize") == 1


def test_homes_of_persons_are_deleted_with_their_source(tmp_path: Path):
    source = Source("odd", "mcp_stdio", COMMAND)
    for person in (None, 7, 8):
        home = find_home(source, tmp_path, person)
        assert home is not None
        home.mkdir()
    (tmp_path / "odd_other").mkdir()
    home = find_home(source, tmp_path)
    assert home is not None
    delete_home(home)
    assert [folder.name for folder in tmp_path.iterdir()] == ["odd_other"]
    own = replace(source, options={"home": "/srv/odd"})
    assert find_home(own, tmp_path, 7) == Path("/srv/odd/7")
