"""Fixtures that open an environment for a gateway that is killed, and close it after the test."""

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.kill.environment import KillEnvironment, open_environment
from tests.kill.gateway import ForkServer
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.postgresql import PostgresServer

OpenEnvironment = Callable[..., Awaitable[KillEnvironment]]


@pytest.fixture
def server_database(postgresql_server: PostgresServer) -> Iterator[dict[str, str]]:
    """The settings of a gateway whose database is on a server."""
    with postgresql_server.open_database() as url:
        yield {"database_url": url}


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def either_database(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of a gateway for each database in turn."""
    if request.param == "SQLite":
        return {}
    settings: dict[str, str] = request.getfixturevalue("server_database")
    return settings


@pytest.fixture
async def surround(tmp_path: Path, fork_server: ForkServer) -> AsyncIterator[OpenEnvironment]:
    """`await surround(endpoint, **settings)` opens an environment; its gateway runs unless `start` is False.

    `plain`: the gateway is the process that users start; else it is forked and has the tools of these tests.
    """
    async with contextlib.AsyncExitStack() as stack:

        async def open_started(
            endpoint: ScriptedEndpoint | None = None,
            *,
            start: bool = True,
            plain: bool = False,
            **settings: object,
        ) -> KillEnvironment:
            parent = None if plain else fork_server
            environment = await stack.enter_async_context(
                open_environment(tmp_path, endpoint, parent, **settings)
            )
            stack.callback(lambda: sys.stdout.write(environment.gateway.output[-20_000:]))  # if a test fails
            if start:
                await environment.gateway.start()
            return environment

        yield open_started
