"""Runs a `Server` for the length of a block, and keeps what it was told to be changed."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tools.mcp.definitions import Listing
from tools.mcp.location import Place, Program
from tools.mcp.server import Limits, Server

CROOKED = Path(__file__).with_name("mcp_stdio_server.py")
QUICK = Limits(call=20.0, connect=20.0, list=20.0, apart=0.0, pause=0.01, most=0.05)


def crooked(*how: str, **more: object) -> Program:
    return Program((sys.executable, "-S", str(CROOKED), *how), **more)  # type: ignore[arg-type]


class Changes:
    """What a server has told, in order."""

    def __init__(self) -> None:
        self.told: list[Listing] = []
        self._news = asyncio.Event()

    async def __call__(self, listing: Listing) -> None:
        self.told.append(listing)
        self._news.set()
        self._news = asyncio.Event()

    async def until(self, claim: Callable[[list[Listing]], bool]) -> None:
        while not claim(self.told):
            await self._news.wait()


@contextlib.asynccontextmanager
async def running(
    place: Place, limits: Limits = QUICK, name: str = "odd"
) -> AsyncIterator[tuple[Server, Changes]]:
    changes = Changes()
    server = Server(name, place, changes, limits)
    async with asyncio.TaskGroup() as tasks:
        owner = tasks.create_task(server.run())
        try:
            yield server, changes
        finally:
            owner.cancel()
