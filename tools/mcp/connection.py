"""One live connection to an MCP server, from its first word to its end: what it lists, answers and changes.

Everything of the SDK's is entered and left in the task that runs `hold`; callers only wait, and can leave at
any time.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from tools.base import Found, ToolError
from tools.mcp.definitions import TOOLS, Told, bounded
from tools.mcp.errors import Gone, causes
from tools.mcp.http import TOO_LARGE
from tools.mcp.http import client as http_client
from tools.mcp.limits import LARGEST, Calm
from tools.mcp.location import Place, Program
from tools.mcp.results import found
from tools.mcp.stdio import Pipe

PAGES = 50  # of one listing
AGAIN = 60  # seconds at most between two attempts to listen for changes
MISSED = 3  # calls in a row without an answer, after which the connection is made anew

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)
_US = Implementation(name="canvasgram", version="0.1")
# The SDK's words, for its codes are used by servers as well: the connection, one answer, a server that was
# restarted.
_CLOSED = "Connection closed"
_CUT = "SSE stream"
_NO_SESSION = "Session terminated"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: to connect and list, to list again, between two listings at most and at least."""

    connect: float = 60.0
    list: float = 20.0
    again: float = 600.0
    apart: float = 1.0


class Line:
    """A connection that others may use until it is `over`, which then says why."""

    def __init__(self, name: str, tasks: asyncio.TaskGroup) -> None:
        self.name = name
        self.over: str | None = None
        self.news = asyncio.Event()
        self.ended = asyncio.Event()
        self._tasks = tasks
        self._missed = 0
        self.client: Client

    def end(self, why: str) -> None:
        """Nothing can be asked any more; the first reason counts."""
        self.over = self.over or why
        self.ended.set()
        self.news.set()

    async def transport(self, place: Place, stack: contextlib.AsyncExitStack) -> Transport:
        """The way to the server; what it needs is entered on `stack`."""
        if isinstance(place, Program):
            return Pipe(self.name, place, self._tasks, self.end)
        client = await stack.enter_async_context(await http_client(place))
        return streamable_http_client(place.url, http_client=client, max_sse_event_size=LARGEST)

    async def listed(self) -> list[Told]:
        """All tools, page by page, as far as they can be used."""
        told: list[Told] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self.client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            told.extend(bounded(_told(tool)) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None or len(told) > TOOLS:
                break
        return told

    async def call(self, tool: str, arguments: dict[str, Any]) -> Found:
        """What a tool finds. Raises ToolError for what the server answered instead, Gone when it can answer
        nothing.

        Cancelling tells the server, and waits for nothing.
        """
        asked = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        # Not by the SDK's own call: that holds a result against the server's schema here, and its patterns
        # may be such that this never ends.
        try:
            answer = await self._apart(self.client.session.send_request(asked, _ANSWER))
        except MCPError as error:
            raise self._refused(error) from error
        except ValidationError as error:
            raise ToolError(f"{self.name} answered with something that is not a result.") from error
        self._missed = 0
        if isinstance(answer, InputRequiredResult):
            raise ToolError(
                f"{self.name} wants to ask more than its tool was given, which is not possible here."
            )
        return found(answer)

    def missed(self) -> None:
        """A call had no answer in its time."""
        self._missed += 1
        if self._missed >= MISSED:
            self.end("it stopped answering")

    async def heard(self, message: object) -> None:
        """Take a notification."""
        if isinstance(message, ToolListChangedNotification):
            self.news.set()

    async def follow(self) -> None:
        """Have changes told by a server that tells them only to those who listen."""
        told = self.client.server_capabilities.tools
        if self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (told and told.list_changed):
            return
        for tries in count(1):
            with contextlib.suppress(SubscriptionLost, TimeoutError):
                try:
                    async with self.client.listen(tools_list_changed=True) as events:
                        async for _ in events:
                            self.news.set()
                except MCPError:
                    return
            self.news.set()  # whatever changed meanwhile
            await asyncio.sleep(min(tries, AGAIN))

    def _refused(self, error: MCPError) -> Exception:
        if error.code == CONNECTION_CLOSED and error.message == _CLOSED:
            self.end("the connection broke off")
        if error.code == CONNECTION_CLOSED and (self.over or error.message.startswith(_CUT)):
            return Gone(self.over or "its answer broke off")
        if error.message == _NO_SESSION:
            self.end("it has forgotten the connection")
            return Gone("it has forgotten the connection", unheard=True)
        if why := _unread(error):
            return ToolError(f"{self.name} could not be heard: {why}.")
        if error.code == HEADER_MISMATCH:
            self.news.set()
        return ToolError(f"{self.name} refused: {error.message[:500]}")

    async def _apart(self, asking: Coroutine[Any, Any, R]) -> R:
        """Wait for a request in a task of the connection's: leaving the SDK in the middle may take seconds."""
        if self.over is not None:
            asking.close()
            raise Gone(self.over, unheard=True)
        task = self._tasks.create_task(_kept(asking), name=f"mcp {self.name} call")
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise Gone(self.over or "the connection broke off")
        result = task.result()
        if isinstance(result, _Raised):
            raise result.error
        return result


async def hold(
    name: str,
    place: Place,
    patience: Patience,
    begun: Callable[[Line, list[Told]], Awaitable[None]],
    changed: Callable[[list[Told]], Awaitable[None]],
) -> None:
    """Connect, tell of it by `begun`, and of other tools by `changed`, until the connection is over.

    Never returns: raises Gone, or what the connection was lost by, in groups as the SDK makes them.
    """
    async with asyncio.TaskGroup() as tasks:
        line = Line(name, tasks)
        try:
            async with contextlib.AsyncExitStack() as stack:
                await begun(line, await _open(place, patience, line, stack))
                following = tasks.create_task(line.follow(), name=f"mcp {name} follow")
                try:
                    await _watch(line, patience, changed)
                finally:
                    following.cancel()
        finally:
            line.end("the connection broke off")


async def _open(place: Place, patience: Patience, line: Line, stack: contextlib.AsyncExitStack) -> list[Told]:
    """Connect and list."""
    try:
        async with asyncio.timeout(patience.connect):
            client = Client(
                await line.transport(place, stack), message_handler=line.heard, client_info=_US, cache=None
            )
            line.client = await stack.enter_async_context(client)
            return await line.listed()
    except Exception as error:
        refused = next((one for one in causes(error) if isinstance(one, MCPError)), None)
        if line.over is not None or refused is not None:
            unread = refused and _unread(refused)
            raise Gone(line.over or unread or f"it refuses: {str(refused)[:200]}") from error
        raise


def _unread(error: MCPError) -> str | None:
    """Why the SDK could not read an answer, in our words: in its own the answer would stand. None: it was
    read.
    """
    if error.code != PARSE_ERROR:
        return None
    if TOO_LARGE in error.message:
        return f"its answer {TOO_LARGE}"
    return "it does not speak the protocol"


async def _watch(line: Line, patience: Patience, changed: Callable[[list[Told]], Awaitable[None]]) -> None:
    """List again whenever the server says so, and now and then unasked: what it says may be lost."""
    calm = Calm(patience.apart, patience.again)
    clock = asyncio.get_running_loop().time
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience.again):
                await line.news.wait()
        if line.over is not None:
            raise Gone(line.over)
        pause = calm.wait(clock()) if line.news.is_set() else patience.apart
        line.news.clear()
        async with asyncio.timeout(patience.list):
            told = await line.listed()
        await changed(told)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await line.ended.wait()


@dataclass(frozen=True, slots=True)
class _Raised:
    error: Exception


async def _kept(asking: Coroutine[Any, Any, R]) -> R | _Raised:
    """The outcome, whatever it is: an error of one call must not end the connection for all."""
    try:
        return await asking
    except Exception as error:  # noqa: BLE001 it is raised again where it was asked for
        return _Raised(error)


def _told(tool: Tool) -> Told:
    hints = tool.annotations
    return Told(
        name=tool.name,
        description=tool.description or tool.title or "",
        schema=tool.input_schema,
        read_only=bool(hints and hints.read_only_hint),
        idempotent=bool(hints and hints.idempotent_hint),
    )
