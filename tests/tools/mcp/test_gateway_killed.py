"""A gateway that is killed leaves no server behind: the closed input is enough to end it."""

import asyncio
import os
import signal
import sys
from pathlib import Path

GATEWAY_SCRIPT = """
import asyncio, sys
from tests.support.mcp_session import call_tool, running_server, stdio_program

async def main():
    async with running_server(stdio_program()) as (server, _):
        print((await call_tool(server, "process", {})).text, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_program_ends_when_the_gateway_is_killed():
    root = Path(__file__).parents[3]
    gateway = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        GATEWAY_SCRIPT,
        stdout=asyncio.subprocess.PIPE,
        cwd=root,
        env={"PYTHONPATH": str(root)},
    )
    assert gateway.stdout is not None
    pid_fd = os.pidfd_open(int(await gateway.stdout.readline()))
    gateway.kill()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pid_fd, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(pid_fd)
    os.close(pid_fd)
    assert await gateway.wait() == -signal.SIGKILL
