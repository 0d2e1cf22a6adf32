"""A gateway that dies without a word leaves no server behind: the closed input is all it takes."""

import asyncio
import os
import signal
import sys
from pathlib import Path

HOUSE = """
import asyncio, sys
from tests.support.mcp_session import crooked, running

async def main():
    async with running(crooked()) as (server, _):
        print((await server.call("process", {})).text, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_program_ends_when_its_owner_is_killed():
    root = Path(__file__).parents[3]
    house = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOUSE, stdout=asyncio.subprocess.PIPE, cwd=root, env={"PYTHONPATH": str(root)}
    )
    assert house.stdout is not None
    watched = os.pidfd_open(int(await house.stdout.readline()))
    house.kill()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(watched, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(watched)
    os.close(watched)
    assert await house.wait() == -signal.SIGKILL
