"""Surroundings for a gateway that is killed, taken down when its test is over."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from bot.sim.vllm.server import Endpoint
from tests.kill.environment import Surroundings, surroundings
from tests.kill.gateway import Nursery

Surround = Callable[..., Awaitable[Surroundings]]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where gateways come from quickly."""
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
async def surround(tmp_path: Path, nursery: Nursery) -> AsyncIterator[Surround]:
    """`await surround(endpoint, **settings)` gives a started gateway (unless `start` is False) and all around
    it.

    `plain`: it is the very process people start; else it comes from the nursery and has the tools of these
    tests.
    """
    async with contextlib.AsyncExitStack() as stack:

        async def made(
            endpoint: Endpoint | None = None, *, start: bool = True, plain: bool = False, **settings: object
        ) -> Surroundings:
            home = None if plain else nursery
            house = await stack.enter_async_context(surroundings(tmp_path, endpoint, home, **settings))
            if start:
                await house.gateway.start()
            return house

        yield made
