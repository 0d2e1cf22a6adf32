"""The MCP servers in use: one client of each source, with the task that keeps its connection."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path

from bot.tool_registry.program_homes import delete_home
from tools.base import ToolError
from tools.mcp.definitions import McpToolListing
from tools.mcp.location import ServerLocation
from tools.mcp.server import McpServerClient
from tools.mcp.time_limits import McpServerLimits
from tools.threads import run_in_thread

ListingCallback = Callable[[str, McpToolListing], Awaitable[None]]


class McpServers:
    """Calls `on_listing` with the name of a source and what its server lists.

    Calls of tools work after `start`.
    """

    def __init__(self, on_listing: ListingCallback) -> None:
        self._on_listing = on_listing
        self._servers: dict[str, McpServerClient] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None

    def get_server(self, name: str, location: ServerLocation, limits: McpServerLimits) -> McpServerClient:
        """Return the client of a source; another one if its location or its limits have changed."""
        server = self._servers.get(name)
        if server is None or (server.location, server.limits) != (location, limits):
            self._stop_server(name)
            on_listing = partial(self._on_listing, name)
            server = self._servers[name] = McpServerClient(name, location, on_listing, limits)
            self._start_server(server)
        return server

    def keep_only(self, names: Collection[str]) -> None:
        """Stop all servers but these."""
        for name in [*self._servers]:
            if name not in names:
                self._stop_server(name)

    def delete_home(self, name: str, home: Path) -> None:
        """Delete the home of a server that is not used any more, once its program has ended."""
        if self._group is not None:
            self._group.create_task(_delete_home(home, {*self._ending}), name=f"delete home of {name}")

    def list_troubles(self) -> dict[str, str]:
        """Return why servers are not available, by source, without those that are."""
        return {name: server.trouble for name, server in self._servers.items() if server.trouble is not None}

    async def refresh_listings(self) -> tuple[str, ...]:
        """Have all servers list their tools again, concurrently; return why some cannot, a line each."""

        async def refresh(server: McpServerClient) -> str:
            try:
                await server.refresh()
            except ToolError as error:
                return str(error)
            return ""

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(refresh(server), name=f"refresh {name}")
                for name, server in self._servers.items()
            ]
        return tuple(line for task in tasks if (line := task.result()))

    def start(self, group: asyncio.TaskGroup) -> None:
        """Keep the connections in tasks of this group, also those of servers that are added later."""
        self._group = group
        for server in self._servers.values():
            self._start_server(server)

    def _start_server(self, server: McpServerClient) -> None:
        if self._group is not None:
            self._tasks[server.name] = self._group.create_task(server.run(), name=f"MCP server {server.name}")

    def _stop_server(self, name: str) -> None:
        self._servers.pop(name, None)
        if (task := self._tasks.pop(name, None)) is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def _delete_home(home: Path, ending: Collection[asyncio.Task[None]]) -> None:
    if ending:
        await asyncio.wait(ending)
    await run_in_thread(delete_home, home)
