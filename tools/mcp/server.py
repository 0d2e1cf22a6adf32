"""An MCP server as the gateway uses it: its tools, and one task that keeps the connection and restores it.

Nothing here waits longer than a call may take: a server that is dead, hangs or breaks the protocol is "not
available".
"""

import asyncio
import importlib
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from tools.base import AskPerson, Found, Rule, Tool, ToolAnswer, ToolContext, ToolError, ToolQuestion
from tools.http.service import Credentials, mask_file, mask_texts
from tools.mcp.definitions import (
    McpToolDefinition,
    McpToolListing,
    ServerCall,
    ServerTool,
    build_listing,
)
from tools.mcp.elicitation import Elicitation
from tools.mcp.errors import (
    ConnectionGone,
    SignInNeeded,
    describe_error,
    describe_start,
    explain_slow_start,
    iterate_causes,
)
from tools.mcp.location import ServerLocation
from tools.mcp.stderr_log import StderrLog, strip_numbers
from tools.mcp.time_limits import DEFAULT_LIMITS, CallDeadline, McpServerLimits, format_progress
from tools.net.policy import NetworkPolicy
from tools.schemas.told_schema import build_told_schema
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.mcp.connection import McpConnection

CHANGE_RULE = Rule("always")
NOTICE_SECONDS = 2.0  # of a start, after which the person who waits for it is told
STEADY_SECONDS = 60.0  # after which a connection counts as steady

log = logging.getLogger(__name__)

ShowProgress = Callable[[str], None]


class ListingStore(Protocol):
    """Keeps what servers list."""

    async def store_listing(self, server: str, listing: McpToolListing) -> None:
        """Keep what the server of this name lists now; awaited in its task, so that calls continue."""


class McpServerClient:
    """One server. It is started when somebody first lists its tools or calls one; `run` must be running then.

    `listing_store` keeps its tools after the first connection, and whenever they have changed.
    `trouble` says why the server is not available; None: it is, or was not needed yet. `needs_sign_in`: it
    refuses what it is sent, and is asked again only seldom.
    """

    def __init__(
        self,
        name: str,
        location: ServerLocation,
        limits: McpServerLimits = DEFAULT_LIMITS,
        listing_store: ListingStore | None = None,
    ) -> None:
        self.name = name
        self.location = location
        self.trouble: str | None = None
        self.needs_sign_in = False
        self._stderr_log = StderrLog(name)
        self._secret_texts = Credentials(location.secrets).secret_texts()
        self._listing_store = listing_store
        self.limits = limits
        self._connection_wanted = asyncio.Event()
        self._state_changed = asyncio.Event()
        self._connection: McpConnection | None = None
        self._listing: McpToolListing | None = None
        self._failures = 0

    @property
    def last_words(self) -> str:
        """What its program wrote on stderr that may say what is wrong, to be put behind a reason."""
        return self._mask_secrets(self._stderr_log.quote())

    async def run(self) -> None:
        """Keep the connection from its first use until cancelled; the server has ended when this returns."""
        await self._connection_wanted.wait()
        # In a thread: the import takes a second or two, which would block the event loop.
        connection_module = await run_in_thread(importlib.import_module, "tools.mcp.connection")
        # Each connection in a task of its own: while it is left, the SDK may turn our cancellation into
        # another error.
        async with asyncio.TaskGroup() as tasks:
            while True:
                attempt = self._keep_connection(connection_module)
                await asyncio.wait({tasks.create_task(attempt, name=f"mcp {self.name}")})
                await asyncio.sleep(self._retry_delay())

    def build_tool(self, definition: McpToolDefinition) -> Tool:
        """A tool of this server, listed now or stored earlier.

        What it returns is outside text. Unless its server says that it only reads, it changes something and
        always asks.
        """

        return Tool(
            name=definition.name,
            description=definition.description,
            input_schema=definition.input_schema,
            told=build_told_schema(definition.input_schema).schema,
            function=partial(self.run_tool, definition),
            timeout=self.limits.tool_seconds,
            repeatable=definition.repeatable,
            rule=Rule() if definition.reads else CHANGE_RULE,
            changes=not definition.reads,
            outside=True,
            opens=definition.opens,
            source=self.name,
            address=str(self.location),
        )

    async def run_tool(
        self, definition: McpToolDefinition, arguments: Mapping[str, Any], context: ToolContext
    ) -> Found:
        """Call the tool of a definition, in the context of its call."""
        call = ServerCall(definition.method, definition.remote, dict(arguments), context.delivers)
        return await self.send_call(call, context.show_progress, context.ask)

    async def list_tools(self) -> McpToolListing:
        """What the server offers now, as soon as it is connected.

        Raises ToolError when it is not available.
        """
        await self._wait_started()
        assert self._listing is not None
        return self._listing

    async def refresh(self) -> None:
        """Have the server list its tools again, soon; connect first if need be. Raises ToolError."""
        if self._connection is not None:
            self._connection.tools_changed.set()
        await self.list_tools()

    async def send_call(
        self, call: ServerCall, show_progress: ShowProgress | None = None, ask: AskPerson | None = None
    ) -> Found:
        """What a call returns; the start is not its time.

        `ask` puts what the server asks meanwhile to a person.

        A call is made once more if the connection was gone before it left. Raises ToolError.
        """
        connection = await self._wait_started(show_progress)
        try:
            return await self._call_in_time(connection, call, show_progress, ask)
        except ConnectionGone as gone:
            if not gone.is_undelivered:
                raise self._unavailable(f"{gone}, and what the call did is unknown") from gone
        connection = await self._wait_started(show_progress)
        try:
            return await self._call_in_time(connection, call, show_progress, ask)
        except ConnectionGone as gone:
            raise self._unavailable(str(gone)) from gone

    async def _keep_connection(self, connection_module: ModuleType) -> None:
        """Connect once, and stay until the connection ends."""
        clock = asyncio.get_running_loop().time
        started_at = clock()
        try:
            await connection_module.run_connection(
                self.name, self.location, self.limits, self._stderr_log, self
            )
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 the next attempt follows every error
            was_steady = clock() - started_at > STEADY_SECONDS
            self.needs_sign_in = any(isinstance(cause, SignInNeeded) for cause in iterate_causes(error))
            self._on_failure(self._mask_secrets(describe_error(error)), was_steady=was_steady)

    def _retry_delay(self) -> float:
        if self.needs_sign_in:
            return self.limits.relist_seconds
        doubled = self.limits.retry_seconds * 2.0 ** min(self._failures - 1, 20)
        delay = min(self.limits.max_retry_seconds, doubled)
        return delay * random.uniform(0.5, 1.0)  # noqa: S311 servers that failed together retry apart

    async def note_connection(self, connection: "McpConnection", server_tools: list[ServerTool]) -> None:
        """Take a connection; who waits for it goes on."""
        await self.note_tools(server_tools)
        self._connection = connection
        self.trouble = None
        self.needs_sign_in = False
        self._notify_waiters()
        log.info("an MCP server is connected", extra={"action": "mcp.connected", "server": self.name})

    async def note_tools(self, server_tools: list[ServerTool]) -> None:
        """Take the tools that the server lists now."""
        # In a thread: reducing the schemas of strangers may take long.
        listing = await run_in_thread(build_listing, self.name, server_tools)
        if listing == self._listing:
            return
        if self._listing_store is not None:
            await self._listing_store.store_listing(self.name, listing)
        self._listing = listing

    def _on_failure(self, reason: str, *, was_steady: bool) -> None:
        self._failures = 1 if was_steady else self._failures + 1
        # What is the same but for a time or a number in it is not told again at each attempt.
        if strip_numbers(reason) == strip_numbers(self.trouble or ""):
            reason = self.trouble or ""
        is_news = self._failures == 1 or reason != self.trouble
        level = logging.WARNING if is_news else logging.DEBUG
        self._connection = None
        self.trouble = reason
        self._notify_waiters()
        fields = {"action": "mcp.lost", "server": self.name, "why": reason, "failures": self._failures}
        log.log(level, "an MCP server is not available", extra=fields)

    async def _wait_connected(self) -> "McpConnection":
        """The connection, as soon as there is one; `run` is asked for it. Raises ToolError."""
        self._connection_wanted.set()
        while self._connection is None or self._connection.closed_reason is not None:
            # After the first failure the next attempt is soon; a server that keeps failing is not waited for.
            has_failed = self._failures > 1 or self.needs_sign_in
            if has_failed and self.trouble is not None:
                raise self._unavailable(self.trouble)
            await self._state_changed.wait()
        return self._connection

    def _notify_waiters(self) -> None:
        self._state_changed.set()
        self._state_changed = asyncio.Event()

    async def _wait_started(self, show_progress: ShowProgress | None = None) -> "McpConnection":
        """The connection, within the time of a start; a start that takes a while is shown as progress."""
        notice: asyncio.TimerHandle | None = None
        if show_progress is not None:
            loop = asyncio.get_running_loop()
            notice = loop.call_later(NOTICE_SECONDS, show_progress, describe_start(self.location))
        try:
            async with asyncio.timeout(self.limits.connect_seconds):
                return await self._wait_connected()
        except TimeoutError:
            raise self._unavailable(f"{explain_slow_start(self.location)}{self.last_words}") from None
        finally:
            if notice is not None:
                notice.cancel()

    async def _call_in_time(
        self,
        connection: "McpConnection",
        call: ServerCall,
        show_progress: ShowProgress | None,
        ask: AskPerson | None,
    ) -> Found:
        """The result without any secret that the server may have repeated.

        Raises ToolError, and ConnectionGone.
        """
        deadline = CallDeadline(self.limits)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            deadline.extend()
            if show_progress is not None:
                show_progress(self._mask_secrets(format_progress(progress, total, message)))

        async def ask_person(question: ToolQuestion) -> ToolAnswer:
            assert ask is not None
            shown = self._mask_question(question)
            with deadline.pause():
                answer = await ask(shown)
            if answer.text not in shown.choices:
                return answer
            return replace(answer, text=question.choices[shown.choices.index(answer.text)])

        policy = NetworkPolicy(private=self.location.private)
        elicitation = Elicitation(self.name, ask_person if ask else None, policy)
        try:
            async with deadline.timeout:
                result = await connection.call(call, on_progress, elicitation)
        except TimeoutError:
            if deadline.is_used_up:
                seconds = self.limits.max_call_seconds
                raise ToolError(
                    f"{self.name} was still at work after {seconds:g} s and was stopped."
                ) from None
            connection.count_missed_call()
            raise self._unavailable(f"it did not answer in time ({self.limits.call_seconds:g} s)") from None
        except ToolError as error:
            raise ToolError(self._mask_secrets(str(error))) from None
        files = tuple(mask_file(file, self._list_secrets()) for file in result.files)
        return replace(result, text=self._mask_secrets(result.text), files=files)

    def _mask_secrets(self, text: str) -> str:
        return mask_texts(text, self._list_secrets())

    def _list_secrets(self) -> tuple[str, ...]:
        return (*self._secret_texts, *self.location.token_texts)

    def _mask_question(self, question: ToolQuestion) -> ToolQuestion:
        refusal = None if question.refusal is None else self._mask_secrets(question.refusal)
        return replace(
            question,
            text=self._mask_secrets(question.text),
            choices=tuple(map(self._mask_secrets, question.choices)),
            refusal=refusal,
        )

    def _unavailable(self, reason: str) -> ToolError:
        return ToolError(f"{self.name} is not available: {self._mask_secrets(reason)}.")
