"""One live connection to an MCP server, from start to end: what it lists, answers and changes.

Everything of the SDK is entered and left in the task that runs `run_connection`; callers only wait, and can
leave at any time.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

from mcp import Client, MCPError
from mcp.client import ClientRequestContext, Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from tools.base import Found, ToolError
from tools.mcp import definitions, resources
from tools.mcp.definitions import MAX_TOOLS, ServerCall, ServerTool, to_server_tool, truncate_tool
from tools.mcp.elicitation import MAX_QUESTIONS, Elicitation
from tools.mcp.errors import (
    ConnectionGone,
    SignInNeeded,
    explain_refusal,
    explain_slow_start,
    iterate_causes,
)
from tools.mcp.http import create_client, offers_old_transport
from tools.mcp.limits import MAX_MESSAGE_BYTES, TOO_LARGE_TEXT, ChangeBackoff
from tools.mcp.location import ServerLocation, ServerProgram, ServerUrl
from tools.mcp.oauth import RenewingAuth
from tools.mcp.open_calls import FailedCall, OpenCalls, capture_outcome
from tools.mcp.results import to_found
from tools.mcp.stderr_log import StderrLog
from tools.mcp.stdio import StdioTransport
from tools.mcp.time_limits import McpServerLimits

MAX_PAGES = 50  # of one list of tools
MAX_RETRY_SECONDS = 60  # between two attempts to listen for changes
SIDE_LIST_SECONDS = 10.0  # to say whether there are resources or prompts
MAX_MISSED_CALLS = 3  # in a row, after which the connection is made again

_CALL_RESULT_ADAPTER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)
_CLIENT_INFO = Implementation(name="canvasgram", version="0.1")
# The SDK's texts, since servers use its codes as well: for the connection, one answer, a restarted server.
_CONNECTION_CLOSED_TEXT = "Connection closed"
_STREAM_CUT_TEXT = "SSE stream"
_SESSION_ENDED_TEXT = "Session terminated"

OLD_TRANSPORT_REASON = (
    "it offers the old transport alone (HTTP with SSE), which is not spoken here. Ask for its address for "
    "Streamable HTTP, often …/mcp instead of …/sse"
)

R = TypeVar("R")


class McpConnection:
    """A connection that callers may use until `closed` is set; then `closed_reason` says why."""

    def __init__(self, name: str, tasks: asyncio.TaskGroup, stderr_log: StderrLog) -> None:
        self.name = name
        self.stderr_log = stderr_log
        self.closed_reason: str | None = None
        self.tools_changed = asyncio.Event()
        self.closed = asyncio.Event()
        self._tasks = tasks
        self._missed_calls = 0
        self._readers: dict[str, str] = {}  # the tools that read resources and prompts, by method
        self._open_calls = OpenCalls(tasks, self.close)
        self._refusal: str | None = None
        self.client: Client

    def close(self, reason: str) -> None:
        """Mark the connection as over; the first reason counts."""
        self.closed_reason = self.closed_reason or reason
        self.closed.set()
        self.tools_changed.set()

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come of it."""
        return self.closed_reason is not None or self._refusal is not None

    def note_refusal(self, location: ServerUrl) -> None:
        """The server refused what a request was sent with; who made the request closes the connection."""
        self._refusal = explain_refusal(location)

    def explain_end(self, *, is_undelivered: bool = False) -> ConnectionGone:
        """Why it is over, once it is."""
        if self._refusal is not None:
            return SignInNeeded(self._refusal, is_undelivered=is_undelivered)
        return ConnectionGone(self.closed_reason or "the connection broke off", is_undelivered=is_undelivered)

    async def open_transport(
        self, location: ServerLocation, limits: McpServerLimits, stack: contextlib.AsyncExitStack
    ) -> Transport:
        """The transport to the server; what it needs is entered on `stack`."""
        if isinstance(location, ServerProgram):
            return StdioTransport(location, self._tasks, self.close, self.stderr_log)
        client = await stack.enter_async_context(
            await create_client(location, read_seconds=limits.tool_seconds)
        )
        on_refused = partial(self.note_refusal, location)
        client.auth = RenewingAuth(location, location.sign_in_store, on_refused, self._tasks)
        return streamable_http_client(location.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES)

    async def list_tools(self) -> list[ServerTool]:
        """All tools, page by page, as far as they can be used."""
        server_tools: list[ServerTool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self.client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            except MCPError as error:
                if self._refusal is not None:
                    raise self.explain_end() from error
                if self.client.server_capabilities.tools is None:
                    break  # it may have resources or prompts alone
                raise
            server_tools.extend(truncate_tool(to_server_tool(tool)) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None or len(server_tools) > MAX_TOOLS:
                break
        readers = await resources.describe_readers(self.name, self.client, self._ask)
        taken_names = {definitions.normalize_name(tool.name) for tool in server_tools}
        self._readers = {tool.method: tool.name for tool in readers if tool.name not in taken_names}
        return [*server_tools, *readers]

    async def _ask(self, method: str, question: Coroutine[Any, Any, bool]) -> bool:
        """Whether there is what `method` reads; no where the server refuses, as before where it is silent.

        Its tools can be used all the same.
        """
        try:
            async with asyncio.timeout(SIDE_LIST_SECONDS):
                return await self._run_request(question)
        except TimeoutError:
            return method in self._readers
        except (MCPError, ValidationError):
            return False

    async def call(
        self, server_call: ServerCall, on_progress: ProgressFnT, elicitation: Elicitation
    ) -> Found:
        """What a tool returns; `on_progress` is awaited with what its server reports meanwhile.

        `elicitation` answers what the server asks. Raises ToolError for what the server answered instead,
        ConnectionGone when it can no longer answer. Cancelling notifies the server and waits for nothing.
        """
        params = CallToolRequestParams(name=server_call.tool, arguments=server_call.arguments)
        can_be_asked = server_call.method == definitions.TOOLS_METHOD
        with self._open_calls.begin(elicitation) as open_call:
            for _ in range(MAX_QUESTIONS):
                answer = await self._run_call(self._send_call(server_call, params, on_progress))
                if not isinstance(answer, InputRequiredResult):
                    return answer
                inputs = await open_call.answer_all(answer) if can_be_asked else {}
                if not inputs:
                    raise ToolError(f"{self.name} wants to ask what is not possible here.")
                state = {"input_responses": inputs, "request_state": answer.request_state}
                params = params.model_copy(update=state)
        raise ToolError(f"{self.name} asked too often, so the call was given up.")

    async def answer_elicitation(
        self,
        context: ClientRequestContext,
        params: ElicitRequestParams,
    ) -> ElicitResult:
        """Answer a question of the server."""
        return await self._open_calls.answer(params)

    async def _send_call(
        self, server_call: ServerCall, params: CallToolRequestParams, on_progress: ProgressFnT
    ) -> Found | InputRequiredResult:
        session = self.client.session
        if server_call.method == definitions.RESOURCES_METHOD:
            return await resources.read_resource(session, server_call, on_progress)
        if server_call.method == definitions.PROMPTS_METHOD:
            return await resources.get_prompt(session, server_call, on_progress)
        # Not with the SDK's own call: that checks a result against the server's schema, whose patterns may
        # be such that the check never ends.
        request = CallToolRequest(params=params)
        answer = await session.send_request(request, _CALL_RESULT_ADAPTER, progress_callback=on_progress)
        if isinstance(answer, InputRequiredResult):
            return answer
        reader = self._readers.get(definitions.RESOURCES_METHOD)
        reader_name = f"{self.name}_{reader}" if reader else None
        return to_found(answer, reader_name, delivers=server_call.delivers)

    async def _run_call(
        self, call: Coroutine[Any, Any, Found | InputRequiredResult]
    ) -> Found | InputRequiredResult:
        """Wait for a call; errors of the SDK become ours."""
        try:
            answer = await self._run_request(call)
        except MCPError as error:
            raise self._translate_error(error) from error
        except ValidationError as error:
            raise ToolError(f"{self.name} answered with something that is not a result.") from error
        self._missed_calls = 0
        return answer

    def count_missed_call(self) -> None:
        """Count a call that had no answer in its time; too many in a row close the connection."""
        self._missed_calls += 1
        if self._missed_calls >= MAX_MISSED_CALLS:
            self.close("it stopped answering")

    async def handle_notification(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.tools_changed.set()

    async def follow_changes(self) -> None:
        """Listen for changes at servers that report them only to listeners."""
        capability = self.client.server_capabilities.tools
        if self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        if capability is None or not capability.list_changed:
            return
        for tries in count(1):
            with contextlib.suppress(SubscriptionLost, TimeoutError):
                try:
                    async with self.client.listen(tools_list_changed=True) as events:
                        self.tools_changed.set()  # nobody reported what changed since they were listed
                        async for _ in events:
                            self.tools_changed.set()
                except MCPError:
                    return
            self.tools_changed.set()  # they may have changed meanwhile
            await asyncio.sleep(min(tries, MAX_RETRY_SECONDS))

    def _translate_error(self, error: MCPError) -> Exception:
        if self._refusal is not None and error.code != CONNECTION_CLOSED:
            self.close(self._refusal)
            return self.explain_end(is_undelivered=True)
        if error.code == CONNECTION_CLOSED and error.message == _CONNECTION_CLOSED_TEXT:
            self.close("the connection broke off")
        if error.code == CONNECTION_CLOSED and (
            self.closed_reason or error.message.startswith(_STREAM_CUT_TEXT)
        ):
            return ConnectionGone(self.closed_reason or "its answer broke off")
        if error.message == _SESSION_ENDED_TEXT:
            self.close("it has forgotten the connection")
            return ConnectionGone("it has forgotten the connection", is_undelivered=True)
        if TOO_LARGE_TEXT in error.message:
            return ToolError(f"The answer of {self.name} {TOO_LARGE_TEXT}. Ask for less of it.")
        if reason := _explain_parse_error(error):
            return ToolError(f"{self.name} could not be heard: {reason}.")
        if error.code == HEADER_MISMATCH:
            self.tools_changed.set()
        return ToolError(f"{self.name} refused: {error.message[:500]}")

    async def _run_request(self, request: Coroutine[Any, Any, R]) -> R:
        """Wait for a request in a task of the connection: leaving the SDK in the middle may take seconds."""
        if self.closed_reason is not None:
            request.close()
            raise self.explain_end(is_undelivered=True)
        task = self._tasks.create_task(capture_outcome(request), name=f"mcp {self.name} call")
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise self.explain_end()
        result = task.result()
        if isinstance(result, FailedCall):
            raise result.error
        return result


class ConnectionListener(Protocol):
    """Hears of a connection and of what its server lists; awaited in the task of the connection."""

    async def note_connection(self, connection: McpConnection, server_tools: list[ServerTool]) -> None:
        """Take a connection that calls can be sent through from now on."""

    async def note_tools(self, server_tools: list[ServerTool]) -> None:
        """Take the tools that the server lists now."""


async def run_connection(
    name: str,
    location: ServerLocation,
    limits: McpServerLimits,
    stderr_log: StderrLog,
    listener: ConnectionListener,
) -> None:
    """Connect, and tell the listener of the connection and of every new list of tools, until it is over.

    Never returns: raises ConnectionGone, or what ended the connection, in groups as the SDK makes them.
    """
    async with asyncio.TaskGroup() as tasks:
        connection = McpConnection(name, tasks, stderr_log)
        try:
            async with contextlib.AsyncExitStack() as stack:
                await listener.note_connection(
                    connection, await _connect(location, limits, connection, stack)
                )
                follow_task = tasks.create_task(connection.follow_changes(), name=f"mcp {name} follow")
                try:
                    await _watch_changes(connection, limits, listener)
                finally:
                    follow_task.cancel()
        finally:
            connection.close("the connection broke off")


async def _connect(
    location: ServerLocation,
    limits: McpServerLimits,
    connection: McpConnection,
    stack: contextlib.AsyncExitStack,
) -> list[ServerTool]:
    """Connect and list the tools."""
    try:
        async with asyncio.timeout(limits.connect_seconds):
            client = Client(
                await connection.open_transport(location, limits, stack),
                message_handler=connection.handle_notification,
                elicitation_callback=connection.answer_elicitation,
                client_info=_CLIENT_INFO,
                cache=None,
            )
            connection.client = await stack.enter_async_context(client)
            return await connection.list_tools()
    except Exception as error:
        refusal = next((cause for cause in iterate_causes(error) if isinstance(cause, MCPError)), None)
        if connection.is_over:
            raise connection.explain_end() from error
        if isinstance(error, TimeoutError):
            reason = f"{explain_slow_start(location)}{connection.stderr_log.quote()}"
            raise ConnectionGone(reason) from error
        if refusal is None:
            raise
        reason = _explain_parse_error(refusal) or f"it refuses: {str(refusal)[:200]}"
        if isinstance(location, ServerUrl) and await offers_old_transport(location):
            reason = OLD_TRANSPORT_REASON
        raise ConnectionGone(reason) from error


def _explain_parse_error(error: MCPError) -> str | None:
    """Why the SDK could not read an answer, without the answer that its own message contains.

    None: it was read.
    """
    if error.code != PARSE_ERROR:
        return None
    if TOO_LARGE_TEXT in error.message:
        return f"its answer {TOO_LARGE_TEXT}"
    return "it does not speak the protocol"


async def _watch_changes(
    connection: McpConnection,
    limits: McpServerLimits,
    listener: ConnectionListener,
) -> None:
    """List again whenever the server reports a change, and now and then anyway: a report may be lost."""
    backoff = ChangeBackoff(limits.min_relist_pause_seconds, limits.relist_seconds)
    clock = asyncio.get_running_loop().time
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.relist_seconds):
                await connection.tools_changed.wait()
        if connection.closed_reason is not None:
            raise connection.explain_end()
        pause = limits.min_relist_pause_seconds
        if connection.tools_changed.is_set():
            pause = backoff.next_delay(clock())
        connection.tools_changed.clear()
        async with asyncio.timeout(limits.list_seconds):
            server_tools = await connection.list_tools()
        await listener.note_tools(server_tools)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await connection.closed.wait()
