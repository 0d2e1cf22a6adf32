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
from tools.http.service import MASK, Secrets
from tools.mcp.definitions import Definition, Listing, Told, listing
from tools.mcp.errors import Gone, reason
from tools.mcp.location import Place
from tools.threads import in_thread

if TYPE_CHECKING:
    from tools.mcp.connection import Line

CHANGES = Rule("always")
STEADY = 60.0  # seconds after which a connection has proved good

log = logging.getLogger(__name__)

Changed = Callable[[Listing], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: of one call, and of the pauses between two attempts to connect, which double up to `most`."""

    call: float = 30.0
    connect: float = 60.0
    list: float = 20.0
    again: float = 600.0
    apart: float = 1.0
    pause: float = 0.5
    most: float = 60.0


class Server:
    """One server. Nothing is started before somebody lists its tools or calls one; `run` must be running for
    that.

    `changed` is told what is listed: after the first connection, and whenever it is other than before. It is
    awaited in the server's own task, so that calls go on meanwhile. `trouble` says why it is not available;
    None: it is, or was not asked yet.
    """

    def __init__(self, name: str, place: Place, changed: Changed, limits: Limits = Limits()) -> None:
        self.name = name
        self.place = place
        self.trouble: str | None = None
        self._kept = Secrets(place.secrets).texts()
        self._changed = changed
        self._limits = limits
        self._wanted = asyncio.Event()
        self._state = asyncio.Event()
        self._line: Line | None = None
        self._listing: Listing | None = None
        self._failures = 0

    async def run(self) -> None:
        """Keep the connection from the first wish on, until cancelled; the server is gone when this has
        ended.
        """
        await self._wanted.wait()
        # It takes a second or two, in which chats would stand still.
        module = await in_thread(importlib.import_module, "tools.mcp.connection")
        patience = module.Patience(
            self._limits.connect, self._limits.list, self._limits.again, self._limits.apart
        )
        # Each connection in a task of its own: leaving it, the SDK may turn our being cancelled into another
        # error.
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.wait(
                    {tasks.create_task(self._hold(module.hold, patience), name=f"mcp {self.name}")}
                )
                await asyncio.sleep(self._pause())

    async def _hold(self, hold: Callable[..., Awaitable[None]], patience: object) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await hold(self.name, self.place, patience, self._begin, self._hear)
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 whatever a server does, the next attempt is made
            self._fail(self._masked(reason(error)), steady=clock() - began > STEADY)

    def tool(self, definition: Definition) -> Tool:
        """A tool of this server, listed now or kept since earlier.

        What it returns is outside text. Unless its server says that it only reads, it changes something and
        always asks.
        """

        async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
            return await self.call(definition.remote, arguments)

        return Tool(
            name=definition.name,
            description=definition.description,
            input_schema=definition.input_schema,
            told=definition.told,
            function=call,
            timeout=self._limits.call + 1,  # ours is met first, and says who did not answer
            repeatable=definition.repeatable,
            rule=Rule() if definition.reads else CHANGES,
            changes=not definition.reads,
            outside=True,
            opens=definition.opens,
            source=self.name,
            address=str(self.place),
        )

    async def listed(self) -> Listing:
        """What the server offers now, as soon as it is connected. Raises ToolError when it is not available."""
        try:
            async with asyncio.timeout(self._limits.connect):
                await self._connected()
        except TimeoutError:
            raise self._unavailable("it does not answer") from None
        assert self._listing is not None
        return self._listing

    async def look(self) -> None:
        """Have its tools listed anew: of a server that is connected soon, of another now. Raises ToolError."""
        if self._line is not None:
            self._line.news.set()
        await self.listed()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Found:
        """What a tool of the server finds, by the name that the server gives it. Raises ToolError."""
        line: Line | None = None
        try:
            async with asyncio.timeout(self._limits.call):
                line = await self._connected()
                return await self._asked(line, tool, dict(arguments))
        except TimeoutError:
            if line is not None:
                line.missed()
            raise self._unavailable("it did not answer in time") from None

    async def _asked(self, line: "Line", tool: str, arguments: dict[str, Any]) -> Found:
        try:
            return await self._told(line, tool, arguments)
        except Gone as gone:
            if not gone.unheard:
                raise self._unavailable(f"{gone}, and what the call did is unknown") from gone
        try:
            return await self._told(await self._connected(), tool, arguments)
        except Gone as gone:
            raise self._unavailable(str(gone)) from gone

    async def _told(self, line: "Line", tool: str, arguments: dict[str, Any]) -> Found:
        """The answer without any secret that the server may have repeated."""
        try:
            found = await line.call(tool, arguments)
            return replace(found, text=self._masked(found.text))
        except ToolError as error:
            raise ToolError(self._masked(str(error))) from None

    def _masked(self, text: str) -> str:
        for secret in self._kept:
            text = text.replace(secret, MASK)
        return text

    async def _connected(self) -> "Line":
        self._wanted.set()
        while self._line is None or self._line.over is not None:
            # After the first failure the next attempt is near; a server that keeps failing is not waited for.
            if self._failures > 1 and self.trouble is not None:
                raise self._unavailable(self.trouble)
            await self._state.wait()
        return self._line

    async def _begin(self, line: "Line", told: list[Told]) -> None:
        await self._hear(told)
        self._line = line
        self.trouble = None
        self._tell()
        log.info("an MCP server is connected", extra={"action": "mcp.connected", "server": self.name})

    async def _hear(self, told: list[Told]) -> None:
        new = await in_thread(listing, self.name, told)  # schemas of strangers may take long to be reduced
        if new != self._listing:
            await self._changed(new)
            self._listing = new

    def _fail(self, why: str, *, steady: bool) -> None:
        self._failures = 1 if steady else self._failures + 1
        if self._failures == 1 or why != self.trouble:
            level = logging.WARNING
        else:
            level = logging.DEBUG
        self._line = None
        self.trouble = why
        self._tell()
        fields = {"action": "mcp.lost", "server": self.name, "why": why, "failures": self._failures}
        log.log(level, "an MCP server is not available", extra=fields)

    def _tell(self) -> None:
        self._state.set()
        self._state = asyncio.Event()

    def _pause(self) -> float:
        whole = min(self._limits.most, self._limits.pause * 2.0 ** min(self._failures - 1, 20))
        return whole * random.uniform(0.5, 1.0)  # noqa: S311 servers that fell together shall not rise together

    def _unavailable(self, why: str) -> ToolError:
        return ToolError(f"{self.name} is not available: {why}.")
