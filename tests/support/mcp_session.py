"""Runs an MCP server client for the length of a block, and records the listings it reports."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from tools.base import AskPerson, Found
from tools.mcp.definitions import TOOLS_METHOD, McpToolListing, ServerCall
from tools.mcp.location import ServerLocation, ServerProgram
from tools.mcp.server import McpServerClient, ShowProgress
from tools.mcp.time_limits import McpServerLimits

STDIO_SERVER = Path(__file__).with_name("mcp_stdio_server.py")
# Quick to connect again. What a test waits for takes none of these times, on a slow machine either.
QUICK_LIMITS = McpServerLimits(
    call_seconds=300.0,
    connect_seconds=300.0,
    list_seconds=300.0,
    min_relist_pause_seconds=0.0,
    retry_seconds=0.01,
    max_retry_seconds=0.05,
)


def stdio_program(*script_args: str, **more: object) -> ServerProgram:
    return ServerProgram((sys.executable, "-S", str(STDIO_SERVER), *script_args), **more)  # type: ignore[arg-type]


class RecordedListings:
    """The listings that were reported, in order."""

    def __init__(self) -> None:
        self.listings: list[McpToolListing] = []
        self._listing_added = asyncio.Event()

    async def store_listing(self, _server: str, listing: McpToolListing) -> None:
        self.listings.append(listing)
        self._listing_added.set()
        self._listing_added = asyncio.Event()

    async def wait_until(self, predicate: Callable[[list[McpToolListing]], bool]) -> None:
        while not predicate(self.listings):
            await self._listing_added.wait()


@contextlib.asynccontextmanager
async def running_server(
    location: ServerLocation, limits: McpServerLimits = QUICK_LIMITS, name: str = "odd"
) -> AsyncIterator[tuple[McpServerClient, RecordedListings]]:
    changes = RecordedListings()
    server = McpServerClient(name, location, limits, changes)
    async with asyncio.TaskGroup() as tasks:
        owner = tasks.create_task(server.run())
        try:
            yield server, changes
        finally:
            owner.cancel()


async def call_tool(
    server: McpServerClient,
    name: str,
    arguments: Mapping[str, Any],
    show_progress: ShowProgress | None = None,
    ask: AskPerson | None = None,
) -> Found:
    """Call a tool by the server's name for it."""
    return await server.send_call(ServerCall(TOOLS_METHOD, name, dict(arguments)), show_progress, ask)
