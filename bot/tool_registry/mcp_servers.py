"""The MCP servers of the house: one of each source, with the task that keeps its connection."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from tools.base import ToolError
from tools.mcp.definitions import Listing
from tools.mcp.location import Place
from tools.mcp.server import Server

Heard = Callable[[str, Listing], Awaitable[None]]


class Servers:
    """`heard` is told, by the name of a source, what its server lists. Calls are answered once `begin` was
    called.
    """

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._servers: dict[str, Server] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def at(self, name: str, place: Place) -> Server:
        """The server of a source; another one if it has moved."""
        server = self._servers.get(name)
        if server is None or server.place != place:
            self._end(name)
            server = self._servers[name] = Server(name, place, partial(self._heard, name))
            self._begin(server)
        return server

    def only(self, names: Collection[str]) -> None:
        """End all servers but these."""
        for name in [*self._servers]:
            if name not in names:
                self._end(name)

    def troubles(self) -> dict[str, str]:
        """Why servers are not available, by source; of one that is, nothing."""
        return {name: server.trouble for name, server in self._servers.items() if server.trouble is not None}

    async def look(self) -> tuple[str, ...]:
        """Have all of them listed anew, side by side; why some are not available, a line each."""

        async def one(server: Server) -> str:
            try:
                await server.look()
            except ToolError as why:
                return str(why)
            return ""

        async with asyncio.TaskGroup() as tasks:
            looks = [
                tasks.create_task(one(server), name=f"look at {name}")
                for name, server in self._servers.items()
            ]
        return tuple(line for look in looks if (line := look.result()))

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Keep the connections in tasks of this group, also of servers that come later."""
        self._group = group
        for server in self._servers.values():
            self._begin(server)

    def _begin(self, server: Server) -> None:
        if self._group is not None:
            self._tasks[server.name] = self._group.create_task(server.run(), name=f"MCP server {server.name}")

    def _end(self, name: str) -> None:
        self._servers.pop(name, None)
        if (task := self._tasks.pop(name, None)) is not None:
            task.cancel()
