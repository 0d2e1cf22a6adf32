"""A server that is a program: started with a bare environment, addressed line by line, killed with children.

The SDK's own transport passes on parts of our environment, keeps lines of any length and leaves stderr
unread; this one does not.
"""

import asyncio
import logging
import os
import signal
import tempfile
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from tools.mcp.limits import (
    TOO_LARGE_TEXT,
    UNREAD_MESSAGE_WEIGHT,
    LineSplitter,
    OversizedMessage,
    ReadThrottle,
    find_answered_id,
    weigh_message,
)
from tools.mcp.location import ServerProgram
from tools.mcp.stderr_log import StderrLog

MAX_GARBAGE_LINES = 100  # that are no messages, after which the server is given up
STDERR_SECONDS = 2.0  # to hear why it has ended, and what it wrote before
GRACE_SECONDS = 1.0  # to end by itself once its input is closed, and again after SIGTERM

_READ_BYTES = 65536
_STDERR_BYTES = 4096

INSTALL_NOTICE = "it installs itself unless it is installed already; a first start may take minutes"

log = logging.getLogger(__name__)

OnEnd = Callable[[str], None]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _PipeProtocol(SubprocessStreamProtocol):
    """Closes the pipes of a program that has ended, which a child of it may hold for ever."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._pipes = transport

    def process_exited(self) -> None:
        """Leave time for what is still in the pipes."""
        asyncio.get_running_loop().call_later(STDERR_SECONDS, self._pipes.close)
        super().process_exited()


class StdioTransport:
    """The transport of one run of a program; `on_end` gets the reason when it can no longer be used.

    Its background tasks belong to `tasks`, and are over when it is left.
    """

    def __init__(
        self, program: ServerProgram, tasks: asyncio.TaskGroup, on_end: OnEnd, stderr_log: StderrLog
    ) -> None:
        self._program = program
        self._tasks = tasks
        self._on_end = on_end
        self._stderr_log = stderr_log
        self._stderr_ended = asyncio.Event()
        self._background_tasks: list[asyncio.Task[None]] = []
        self._garbage_lines = 0
        self._temporary_home: tempfile.TemporaryDirectory[str] | None = None

    async def __aenter__(self) -> Streams:
        home = self._prepare_home()
        try:
            await self._start_program(home)
        except BaseException:
            self._remove_temporary_home()
            raise
        self._incoming, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        send, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (self._incoming, receive, send, self._outgoing)
        for name, coroutine in (
            ("reads", self._read_messages()),
            ("writes", self._write_messages()),
            ("listens", self._read_stderr()),
        ):
            self._background_tasks.append(
                self._tasks.create_task(coroutine, name=f"mcp {self._stderr_log.server} {name}")
            )
        return receive, send

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._stop_program()
        finally:
            for task in self._background_tasks:
                task.cancel()
            for stream in self._streams:
                stream.close()
            self._transport.close()
            self._remove_temporary_home()

    def _prepare_home(self) -> Path:
        if self._program.home is None:
            self._temporary_home = tempfile.TemporaryDirectory(prefix="mcp-")
            return Path(self._temporary_home.name)
        for folder in (self._program.home.parent, self._program.home):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._program.home

    def _remove_temporary_home(self) -> None:
        if self._temporary_home is not None:
            self._temporary_home.cleanup()

    async def _start_program(self, home: Path) -> None:
        self._stderr_log.begin_run()
        if self._program.may_install:
            log.info(INSTALL_NOTICE, extra={"action": "mcp.installing", "server": self._stderr_log.server})
        loop = asyncio.get_running_loop()
        environment = {"PATH": self._program.search_path, "LANG": "C.UTF-8", "HOME": str(home)}
        # Like create_subprocess_exec, but with the transport at hand: without it a pipe that a child of the
        # program still holds could not be closed.
        self._transport, protocol = await loop.subprocess_exec(
            lambda: _PipeProtocol(limit=_READ_BYTES, loop=loop),
            *self._program.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**environment, **self._program.environment},
            cwd=home,
            start_new_session=True,
        )
        self._process = Process(self._transport, protocol, loop)

    async def _read_messages(self) -> None:
        assert self._process.stdout is not None
        lines = LineSplitter()
        throttle = ReadThrottle()
        clock = asyncio.get_running_loop().time
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            while piece := await self._process.stdout.read(_READ_BYTES):
                for line in lines.feed(piece):
                    weight = weigh_message(line) if isinstance(line, bytes) else UNREAD_MESSAGE_WEIGHT
                    await asyncio.sleep(throttle.next_delay(weight, clock()))
                    await self._handle_line(line)
        await self._end("it has ended")
        self._incoming.close()

    async def _handle_line(self, line: bytes | OversizedMessage) -> None:
        if isinstance(line, OversizedMessage):
            if line.id is None:
                self._on_end("it wrote a message that is too long")
            await self._send_error(line.id, f"It {TOO_LARGE_TEXT}.")
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._garbage_lines += 1
            if self._garbage_lines == MAX_GARBAGE_LINES:
                self._on_end("it writes what is not the protocol")
            await self._send_error(find_answered_id(line), "It answered with something that is not a result.")
            return
        await self._incoming.send(SessionMessage(message))

    async def _send_error(self, id: int | None, reason: str) -> None:
        """Answer for the server, where the request is known: else the call would wait until its timeout."""
        if id is not None:
            error = ErrorData(code=INTERNAL_ERROR, message=reason)
            await self._incoming.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=error)))

    async def _write_messages(self) -> None:
        assert self._process.stdin is not None
        try:
            async for outgoing in self._outgoing:
                line = outgoing.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()
        except OSError:
            await self._end("it reads no more")

    async def _end(self, reason: str) -> None:
        """Report the end, with what the program wrote about it on stderr."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STDERR_SECONDS):
                await self._stderr_ended.wait()
        self._on_end(f"{reason}{self._stderr_log.quote()}")

    async def _read_stderr(self) -> None:
        """Read all that the program writes on stderr, so that it does not block."""
        assert self._process.stderr is not None
        lines = LineSplitter(_STDERR_BYTES)
        while piece := await self._process.stderr.read(_STDERR_BYTES):
            for line in lines.feed(piece):
                if isinstance(line, bytes):
                    self._stderr_log.add(line.decode("utf-8", "replace"))
        self._stderr_ended.set()

    async def _stop_program(self) -> None:
        """Let it end by itself, then ask, then kill; all its children with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await self._wait_ended()
            self._send_signal(signal.SIGTERM)
            await self._wait_ended()
        finally:
            self._send_signal(signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await self._wait_ended()

    async def _wait_ended(self) -> None:
        """Wait for a while until it has ended.

        Longer than it lives only where a child holds its pipes.
        """
        has_ended = self._process.returncode is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if has_ended else GRACE_SECONDS):
                await self._process.wait()

    def _send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
