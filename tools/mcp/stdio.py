"""A server that is a program: started with a bare environment, spoken to line by line, killed with its
children.

The SDK's own transport passes on parts of our environment, keeps lines of any length and stderr unread: this
one not.
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

from tools.mcp.limits import HEAVY, Lines, Pace, TooLong, answered, weight
from tools.mcp.location import Program

GARBAGE = 100  # lines that are no messages, after which the server is given up
TOLD = 200  # lines of its stderr that are logged, of one run
LINE = 300  # characters of each
GRACE = 1.0  # seconds to end by itself once its input is closed, and again after it was asked to

_PIECE = 65536
_STDERR = 4096

log = logging.getLogger(__name__)

End = Callable[[str], None]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class Pipe:
    """The transport of one run of a program; `end` is told why when it can no longer be spoken to.

    Its tasks belong to `tasks`, and are over when it is left.
    """

    def __init__(self, name: str, program: Program, tasks: asyncio.TaskGroup, end: End) -> None:
        self._name = name
        self._program = program
        self._tasks = tasks
        self._end = end
        self._running: list[asyncio.Task[None]] = []
        self._garbage = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def __aenter__(self) -> Streams:
        home = self._home()
        try:
            await self._start(home)
        except BaseException:
            self._tidy()
            raise
        self._to_us, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        said, self._from_us = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (self._to_us, heard, said, self._from_us)
        for name, work in (("reads", self._read()), ("writes", self._write()), ("listens", self._listen())):
            self._running.append(self._tasks.create_task(work, name=f"mcp {self._name} {name}"))
        return heard, said

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._stop()
        finally:
            for task in self._running:
                task.cancel()
            for stream in self._streams:
                stream.close()
            self._transport.close()
            self._tidy()

    def _home(self) -> Path:
        if self._program.home is None:
            self._folder = tempfile.TemporaryDirectory(prefix="mcp-")
            return Path(self._folder.name)
        self._program.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._program.home

    def _tidy(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    async def _start(self, home: Path) -> None:
        loop = asyncio.get_running_loop()
        bare = {"PATH": self._program.path, "LANG": "C.UTF-8", "HOME": str(home)}
        # What create_subprocess_exec does, but for the transport: without it a pipe that a child of the
        # program still holds could not be closed.
        self._transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_PIECE, loop=loop),
            *self._program.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**bare, **self._program.environment},
            cwd=home,
            start_new_session=True,
        )
        self._process = Process(self._transport, protocol, loop)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        lines = Lines()
        pace = Pace()
        clock = asyncio.get_running_loop().time
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            while piece := await self._process.stdout.read(_PIECE):
                for line in lines.feed(piece):
                    await asyncio.sleep(
                        pace.wait(weight(line) if isinstance(line, bytes) else HEAVY, clock())
                    )
                    await self._hear(line)
        self._end("it has ended")
        self._to_us.close()

    async def _hear(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            if line.id is None:
                self._end("it wrote a message that is too long")
            await self._fail(line.id, "The result is too large to be taken.")
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._garbage += 1
            if self._garbage == GARBAGE:
                self._end("it writes what is not the protocol")
            await self._fail(answered(line), "It answered with something that is not a result.")
            return
        await self._to_us.send(SessionMessage(message))

    async def _fail(self, id: int | None, why: str) -> None:
        """Answer for the server, where it is known whom: else the call would wait till its time is over."""
        if id is not None:
            error = ErrorData(code=INTERNAL_ERROR, message=why)
            await self._to_us.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=error)))

    async def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            async for one in self._from_us:
                line = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()
        except OSError:
            self._end("it reads no more")

    async def _listen(self) -> None:
        """Put what it writes on stderr into the log: some of it, and read the rest lest it stands still."""
        assert self._process.stderr is not None
        lines = Lines(_STDERR)
        told = 0
        while piece := await self._process.stderr.read(_STDERR):
            for line in lines.feed(piece):
                if told < TOLD and isinstance(line, bytes):
                    told += 1
                    text = line.decode("utf-8", "replace").strip()[:LINE]
                    log.info("%s", text, extra={"action": "mcp.stderr", "server": self._name})

    async def _stop(self) -> None:
        """Let it end by itself, then ask, then kill; with it whatever it has started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await self._ended()
            self._signal(signal.SIGTERM)
            await self._ended()
        finally:
            self._signal(signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await self._ended()

    async def _ended(self) -> None:
        """Wait until it has ended, for a while; longer than it lives only where a child holds its pipes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if self._process.returncode is not None else GRACE):
                await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
