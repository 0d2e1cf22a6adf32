"""An MCP server as the house sees it: its tools, and one task that keeps the connection and makes it anew.

Nothing here waits longer than a call may take: a server that is dead, hangs or talks nonsense is "not
available".
"""

import asyncio
import importlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tools.base import Found, Rule, Tool, ToolContext, ToolError
from tools.http.service import MASK, Credentials
from tools.mcp.definitions import McpToolDefinition, McpToolListing, ServerTool, build_listing
from tools.mcp.errors import ConnectionGone, describe_error
from tools.mcp.location import ServerLocation
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.mcp.connection import McpConnection

CHANGE_RULE = Rule("always")
STEADY_SECONDS = 60.0  # seconds after which a connection has proved good

log = logging.getLogger(__name__)

OnListing = Callable[[McpToolListing], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class McpServerLimits:
    """Seconds: of one call, and of the pauses between two attempts to connect, which double up to `most`."""

    call_seconds: float = 30.0
    connect_seconds: float = 60.0
    list_seconds: float = 20.0
    relist_seconds: float = 600.0
    min_relist_pause_seconds: float = 1.0
    retry_seconds: float = 0.5
    max_retry_seconds: float = 60.0


class McpServerClient:
    """One server. Nothing is started before somebody lists its tools or calls one; `run` must be running for
    that.

    `changed` is told what is listed: after the first connection, and whenever it is other than before. It is
    awaited in the server's own task, so that calls go on meanwhile. `trouble` says why it is not available;
    None: it is, or was not asked yet.
    """

    def __init__(
        self,
        name: str,
        location: ServerLocation,
        on_listing: OnListing,
        limits: McpServerLimits = McpServerLimits(),
    ) -> None:
        self.name = name
        self.location = location
        self.trouble: str | None = None
        self._secret_texts = Credentials(location.secrets).secret_texts()
        self._on_listing = on_listing
        self._limits = limits
        self._connection_wanted = asyncio.Event()
        self._state_changed = asyncio.Event()
        self._connection: McpConnection | None = None
        self._listing: McpToolListing | None = None
        self._failures = 0

    async def run(self) -> None:
        """Keep the connection from the first wish on, until cancelled; the server is gone when this has
        ended.
        """
        await self._connection_wanted.wait()
        # It takes a second or two, in which chats would stand still.
        module = await run_in_thread(importlib.import_module, "tools.mcp.connection")
        patience = module.Patience(
            self._limits.connect_seconds,
            self._limits.list_seconds,
            self._limits.relist_seconds,
            self._limits.min_relist_pause_seconds,
        )
        # Each connection in a task of its own: leaving it, the SDK may turn our being cancelled into another
        # error.
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.wait(
                    {tasks.create_task(self._keep_connection(module.hold, patience), name=f"mcp {self.name}")}
                )
                await asyncio.sleep(self._retry_delay())

    async def _keep_connection(self, run_connection: Callable[..., Awaitable[None]], timings: object) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await run_connection(self.name, self.location, timings, self._on_connected, self._on_tools)
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 whatever a server does, the next attempt is made
            self._on_failure(
                self._mask_secrets(describe_error(error)), was_steady=clock() - began > STEADY_SECONDS
            )

    def build_tool(self, definition: McpToolDefinition) -> Tool:
        """A tool of this server, listed now or kept since earlier.

        What it returns is outside text. Unless its server says that it only reads, it changes something and
        always asks.
        """

        async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
            return await self.call_tool(definition.remote, arguments)

        return Tool(
            name=definition.name,
            description=definition.description,
            input_schema=definition.input_schema,
            told=definition.told,
            function=call,
            timeout=self._limits.call_seconds + 1,  # ours is met first, and says who did not answer
            repeatable=definition.repeatable,
            rule=Rule() if definition.reads else CHANGE_RULE,
            changes=not definition.reads,
            outside=True,
            opens=definition.opens,
            source=self.name,
            address=str(self.location),
        )

    async def list_tools(self) -> McpToolListing:
        """What the server offers now, as soon as it is connected. Raises ToolError when it is not available."""
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                await self._wait_connected()
        except TimeoutError:
            raise self._unavailable("it does not answer") from None
        assert self._listing is not None
        return self._listing

    async def refresh(self) -> None:
        """Have its tools listed anew: of a server that is connected soon, of another now. Raises ToolError."""
        if self._connection is not None:
            self._connection.tools_changed.set()
        await self.list_tools()

    async def call_tool(self, tool: str, arguments: Mapping[str, Any]) -> Found:
        """What a tool of the server finds, by the name that the server gives it. Raises ToolError."""
        line: McpConnection | None = None
        try:
            async with asyncio.timeout(self._limits.call_seconds):
                line = await self._wait_connected()
                return await self._call_with_retry(line, tool, dict(arguments))
        except TimeoutError:
            if line is not None:
                line.count_missed_call()
            raise self._unavailable("it did not answer in time") from None

    async def _call_with_retry(
        self, connection: "McpConnection", tool: str, arguments: dict[str, Any]
    ) -> Found:
        try:
            return await self._call_masked(connection, tool, arguments)
        except ConnectionGone as gone:
            if not gone.is_undelivered:
                raise self._unavailable(f"{gone}, and what the call did is unknown") from gone
        try:
            return await self._call_masked(await self._wait_connected(), tool, arguments)
        except ConnectionGone as gone:
            raise self._unavailable(str(gone)) from gone

    async def _call_masked(self, connection: "McpConnection", tool: str, arguments: dict[str, Any]) -> Found:
        """The answer without any secret that the server may have repeated."""
        try:
            found = await connection.call_tool(tool, arguments)
            return replace(found, text=self._mask_secrets(found.text))
        except ToolError as error:
            raise ToolError(self._mask_secrets(str(error))) from None

    def _mask_secrets(self, text: str) -> str:
        for secret in self._secret_texts:
            text = text.replace(secret, MASK)
        return text

    async def _wait_connected(self) -> "McpConnection":
        self._connection_wanted.set()
        while self._connection is None or self._connection.closed_reason is not None:
            # After the first failure the next attempt is near; a server that keeps failing is not waited for.
            if self._failures > 1 and self.trouble is not None:
                raise self._unavailable(self.trouble)
            await self._state_changed.wait()
        return self._connection

    async def _on_connected(self, connection: "McpConnection", server_tools: list[ServerTool]) -> None:
        await self._on_tools(server_tools)
        self._connection = connection
        self.trouble = None
        self._notify_waiters()
        log.info("an MCP server is connected", extra={"action": "mcp.connected", "server": self.name})

    async def _on_tools(self, server_tools: list[ServerTool]) -> None:
        new = await run_in_thread(
            build_listing, self.name, server_tools
        )  # schemas of strangers may take long to be reduced
        if new != self._listing:
            await self._on_listing(new)
            self._listing = new

    def _on_failure(self, reason: str, *, was_steady: bool) -> None:
        self._failures = 1 if was_steady else self._failures + 1
        if self._failures == 1 or reason != self.trouble:
            level = logging.WARNING
        else:
            level = logging.DEBUG
        self._connection = None
        self.trouble = reason
        self._notify_waiters()
        fields = {"action": "mcp.lost", "server": self.name, "why": reason, "failures": self._failures}
        log.log(level, "an MCP server is not available", extra=fields)

    def _notify_waiters(self) -> None:
        self._state_changed.set()
        self._state_changed = asyncio.Event()

    def _retry_delay(self) -> float:
        whole = min(
            self._limits.max_retry_seconds, self._limits.retry_seconds * 2.0 ** min(self._failures - 1, 20)
        )
        return whole * random.uniform(0.5, 1.0)  # noqa: S311 servers that fell together shall not rise together

    def _unavailable(self, reason: str) -> ToolError:
        return ToolError(f"{self.name} is not available: {reason}.")
