"""The home of a program that is started here: kept from one start to the next, gone with its source."""

import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.db.tools.sources import Source
from bot.tool_registry.program_homes import find_home, find_homes_folder
from bot.tool_registry.sources import SourceLoader
from tests.support.mcp_session import stdio_program
from tools.base import ToolContext, run_tool
from tools.mcp.definitions import ServerTool, build_listing

SOURCE = Source("odd", "mcp_stdio", str(stdio_program()))


def with_listing(source: Source, *names: str) -> Source:
    tools = [ServerTool(name, "It works.", {"type": "object"}, True, True) for name in names]
    listing = [definition.as_json() for definition in build_listing(source.name, tools).definitions]
    return replace(source, options={**source.options, "listing": listing})


def test_a_home_lies_beside_the_database_unless_an_admin_named_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    homes = find_homes_folder("sqlite+aiosqlite:///data/here.db")
    assert homes == tmp_path / "data" / "here.db-mcp"
    assert find_home(SOURCE, homes) == homes / "odd"
    assert find_home(replace(SOURCE, options={"home": None}), homes) == homes / "odd"  # stored before
    assert find_home(replace(SOURCE, options={"home": "/srv/odd"}), homes) == Path("/srv/odd")
    assert find_home(replace(SOURCE, kind="mcp_http"), homes) is None


async def test_a_home_is_kept_private_and_deleted_with_its_source(tmp_path: Path):
    homes = tmp_path / "here.db-mcp"
    own = with_listing(SOURCE, "environment", "wait")
    named = with_listing(
        replace(SOURCE, name="named", options={"home": str(tmp_path / "mine")}), "environment"
    )
    unused: Any = None
    context = ToolContext("7", "Ann", 7, "a", unused, unused, unused, "key-1")
    async with asyncio.TaskGroup() as tasks:
        loader = SourceLoader(frozenset(), None, homes)
        running = tasks.create_task(loader.run())
        loaded = await loader.load_sources([own, named], {})
        for source_tools in loaded:
            result = await run_tool(source_tools.tools[0], {}, context)
            home = Path(json.loads(result.text)["HOME"])
            assert home == find_home(source_tools.source, homes)
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
            (home / "download").write_text("kept")
        await loader.load_sources([replace(own, enabled=False), named], {})
        await loader.load_sources([own, named], {})
        assert (homes / "odd" / "download").exists()
        await loader.load_sources([], {})
        while (homes / "odd").exists():  # noqa: ASYNC110  # deleted by another thread, once its program ended
            await asyncio.sleep(0.01)
        assert (tmp_path / "mine" / "download").exists()
        running.cancel()
