"""A run of `bench direct` from address to result: finds the endpoint or simulates one, and keeps what is done."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.bench import direct, direct_simulated
from bot.bench.direct import STOPPED, Step, Taken, Wish, until
from bot.bench.direct_call import Target, find
from bot.bench.direct_conditions import conditions
from bot.bench.result import Result
from bot.serving import serve
from bot.sim.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Address:
    """Where the endpoint is, and its key; `url` may be direct_simulated.ADDRESS."""

    url: str
    key: str | None = None


@contextlib.asynccontextmanager
async def found(address: Address, endpoint: Endpoint | None = None) -> AsyncIterator[tuple[Target, str | None]]:
    """The endpoint at an address, and what must be said of it if it is simulated (by `endpoint`, for tests).

    Raises ServerAway or KeyRefused.
    """
    if address.url != direct_simulated.ADDRESS:
        yield await find(address.url, address.key), None
        return
    endpoint = endpoint or direct_simulated.simulated()
    async with serve(endpoint.app) as served:
        line = direct_simulated.LINE.format(seconds=direct_simulated.seconds(endpoint))
        yield await find(f"{served}/v1", address.key), line


async def run(
    address: Address, wish: Wish, stop: asyncio.Event, step: Step, endpoint: Endpoint | None = None
) -> Result:
    """Measure an endpoint until all is done, `stop` is set or it fails; `step` is told how far it is."""
    began, taken = datetime.now(UTC), Taken()
    async with found(address, endpoint) as (target, simulated):
        if not await until(stop, direct.measure(target, wish, taken, step)):
            taken.ended = STOPPED
        told = conditions(target, taken, began, simulated=simulated)
        return Result(tuple(taken.rows), tuple(told), tuple(taken.tools), ended=taken.ended)
