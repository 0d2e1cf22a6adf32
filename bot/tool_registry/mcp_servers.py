"""The MCP servers in use: one client of each source, or one a person, each with the task that keeps it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from bot.tool_registry.program_homes import delete_home
from tools.base import ToolError
from tools.mcp.location import ServerLocation
from tools.mcp.server import ListingStore, McpServerClient
from tools.mcp.time_limits import McpServerLimits
from tools.threads import run_in_thread

IDLE_SECONDS = 900.0  # without a call, after which the connection of one person ends


class McpServers:
    """Builds the clients; `listing_store` keeps what a server lists, by the name of its source.

    The connection of one person ends after `idle_seconds` without a call. Calls of tools work after `start`.
    """

    def __init__(self, listing_store: ListingStore | None, idle_seconds: float = IDLE_SECONDS) -> None:
        self._listing_store = listing_store
        self._servers: dict[str, McpServerClient] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._in_use: Counter[str] = Counter()
        self._idle_timers: dict[str, asyncio.TimerHandle] = {}
        self._idle_seconds = idle_seconds
        self._group: asyncio.TaskGroup | None = None

    def get_server(
        self, name: str, location: ServerLocation, limits: McpServerLimits, person: int | None = None
    ) -> McpServerClient:
        """Return the client of a source, or that of one person there, which reports no listing.

        It is another one if its location or its limits have changed.
        """
        key = _build_key(name, person)
        server = self._servers.get(key)
        if server is None or (server.location, server.limits) != (location, limits):
            self._stop_server(key)
            # What one person is offered changes nothing for the others.
            listing_store = self._listing_store if person is None else None
            server = self._servers[key] = McpServerClient(name, location, limits, listing_store)
            self._start_server(key, server)
        return server

    @contextlib.contextmanager
    def use(self, name: str, person: int) -> Iterator[None]:
        """Keep the connection of a person while the block runs, and for some minutes after it."""
        key = _build_key(name, person)
        if (timer := self._idle_timers.pop(key, None)) is not None:
            timer.cancel()
        self._in_use[key] += 1
        try:
            yield
        finally:
            self._in_use[key] -= 1
            if not self._in_use[key]:
                loop = asyncio.get_running_loop()
                self._idle_timers[key] = loop.call_later(self._idle_seconds, self._end_idle, key)

    def _end_idle(self, key: str) -> None:
        del self._idle_timers[key], self._in_use[key]
        self._stop_server(key)

    def keep_only(self, names: Collection[str]) -> None:
        """Stop all servers but these."""
        for key in [*self._servers]:
            if key.partition(":")[0] not in names:
                self._stop_server(key)

    def end_person(self, person: int) -> None:
        """Stop the servers of one person."""
        for key in [*self._servers]:
            if key.endswith(f":{person}"):
                self._stop_server(key)

    def delete_home(self, name: str, home: Path) -> None:
        """Delete the home of a server that is not used any more, once its program has ended."""
        if self._group is not None:
            self._group.create_task(_delete_home(home, {*self._ending}), name=f"delete home of {name}")

    def list_troubles(self) -> dict[str, str]:
        """Return why servers are not available, by source, without those that are."""
        return {name: server.trouble for name, server in self._list_shared() if server.trouble is not None}

    def _list_shared(self) -> list[tuple[str, McpServerClient]]:
        """The clients that are not one person's, by source."""
        return [(key, server) for key, server in self._servers.items() if ":" not in key]

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
                for name, server in self._list_shared()
            ]
        return tuple(line for task in tasks if (line := task.result()))

    def start(self, group: asyncio.TaskGroup) -> None:
        """Keep the connections in tasks of this group, also those of servers that are added later."""
        self._group = group
        for key, server in self._servers.items():
            self._start_server(key, server)

    def _start_server(self, key: str, server: McpServerClient) -> None:
        if self._group is not None:
            self._tasks[key] = self._group.create_task(server.run(), name=f"MCP server {key}")

    def _stop_server(self, key: str) -> None:
        self._servers.pop(key, None)
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


def _build_key(name: str, person: int | None) -> str:
    return name if person is None else f"{name}:{person}"


async def _delete_home(home: Path, ending: Collection[asyncio.Task[None]]) -> None:
    if ending:
        await asyncio.wait(ending)
    await run_in_thread(delete_home, home)
