"""Gateways of demos, forked from a process that has imported everything; as a program, one of them.

Each would else import for seconds.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from asyncio.streams import FlowControlMixin
from pathlib import Path

from bot.demo.gateway import main
from bot.demo.gateway_process import MAX_LINE_BYTES
from tests.kill.gateway import ENVIRONMENT, ROOT, ForkedProcess, ForkServer


class ForkedDemoGateway:
    """What the demo uses of a process: asyncio's, but that another process waits for it."""

    def __init__(self, process: ForkedProcess, stdin: StreamWriter, stdout: StreamReader) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # its end may not have been told yet
            self._process.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        code = await self._process.wait()
        self.stdin.close()
        return code


async def fork_demo_gateway(server: ForkServer) -> ForkedDemoGateway:
    """Fork a gateway that waits for its order on stdin."""
    kept = list[int]()
    try:
        with tempfile.TemporaryDirectory() as name:
            pipes = [Path(name, "input"), Path(name, "output")]
            for pipe in pipes:
                os.mkfifo(pipe)
            kept += [os.open(pipe, os.O_RDWR) for pipe in pipes]  # so that to open an end waits for no other
            process = await server.fork(ROOT, [__name__], ENVIRONMENT, str(pipes[1]), str(pipes[0]))
            stdin, stdout = pipes[0].open("wb", 0), pipes[1].open("rb", 0)
    finally:
        for descriptor in kept:  # after the pipes are deleted: until then the other process may open them
            os.close(descriptor)
    loop = asyncio.get_running_loop()
    reader = StreamReader(MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader), stdout)
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, stdin)
    return ForkedDemoGateway(process, StreamWriter(transport, protocol, None, loop), reader)


if __name__ == "__main__":
    main()
