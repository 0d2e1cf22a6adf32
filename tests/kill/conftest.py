"""Surroundings for a gateway that is killed, taken down when its test is over."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from bot.sim.vllm.server import SimulatedEndpoint
from tests.kill.environment import KillEnvironment, open_environment
from tests.kill.gateway import ForkServer

OpenEnvironment = Callable[..., Awaitable[KillEnvironment]]


@pytest.fixture(scope="session")
def nursery() -> Iterator[ForkServer]:
    """Where gateways come from quickly."""
    made = ForkServer()
    yield made
    made.close()


@pytest.fixture
async def surround(tmp_path: Path, nursery: ForkServer) -> AsyncIterator[OpenEnvironment]:
    """`await surround(endpoint, **settings)` gives a started gateway (unless `start` is False) and all around
    it.

    `plain`: it is the very process people start; else it comes from the nursery and has the tools of these
    tests.
    """
    async with contextlib.AsyncExitStack() as stack:

        async def made(
            endpoint: SimulatedEndpoint | None = None,
            *,
            start: bool = True,
            plain: bool = False,
            **settings: object,
        ) -> KillEnvironment:
            home = None if plain else nursery
            house = await stack.enter_async_context(open_environment(tmp_path, endpoint, home, **settings))
            if start:
                await house.gateway.start()
            return house

        yield made
