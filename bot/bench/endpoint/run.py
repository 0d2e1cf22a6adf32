"""A run of `bench direct` or `bench gateway`, from address to result: finds the endpoint or simulates one,
measures, keeps what is done.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bot.bench.endpoint import direct, gateway
from bot.bench.endpoint import simulated as direct_simulated
from bot.bench.endpoint.client import Target, find
from bot.bench.endpoint.conditions import conditions
from bot.bench.endpoint.direct import Taken, Wish, until, words
from bot.bench.endpoint.gateway import Turned
from bot.bench.endpoint.protocols import ANSWERS
from bot.bench.endpoint.result import STOPPED, Result
from bot.bench.harness.bots import BenchFailed
from bot.bench.harness.progress import Step
from bot.errors import SettingsRefused
from bot.http_server import serve
from bot.settings import NO_BOT, given
from bot.sim.vllm.server import Endpoint

Work = Callable[[Target, Taken], Coroutine[None, None, None]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where the endpoint is, and its key; `url` may be direct_simulated.ADDRESS."""

    url: str
    key: str | None = None


@contextlib.asynccontextmanager
async def found(
    address: Address, endpoint: Endpoint | None = None
) -> AsyncIterator[tuple[Target, str | None]]:
    """The endpoint at an address, and what must be said of it if it is simulated (by `endpoint`, for tests).

    Raises SettingsRefused, ServerAway or KeyRefused.
    """
    if address.url != direct_simulated.ADDRESS:
        yield await find(_url(address.url), address.key), None
        return
    endpoint = endpoint or direct_simulated.simulated()
    async with serve(endpoint.app) as served:
        line = direct_simulated.LINE.format(seconds=direct_simulated.seconds(endpoint))
        yield await find(f"{served}/v1", address.key), line


async def run(
    address: Address, wish: Wish, stop: asyncio.Event, step: Step, endpoint: Endpoint | None = None
) -> Result:
    """Measure an endpoint until all is done, `stop` is set or it fails; `step` is told how far it is."""

    async def work(target: Target, taken: Taken) -> None:
        await direct.measure(target, wish, taken, step)

    return await _kept(address, work, stop, endpoint)


async def run_gateway(
    address: Address,
    stop: asyncio.Event,
    step: Step,
    *,
    quick: bool = False,
    endpoint: Endpoint | None = None,
) -> Result:
    """The same prompts directly and then through the gateway, and what lies between the two."""
    turned: list[Turned] = []

    async def work(target: Target, taken: Taken) -> None:
        await direct.measure(target, Wish(ANSWERS, quick=quick, whole=False, tools=False), taken, step)
        if taken.ended is None:
            with tempfile.TemporaryDirectory(prefix="canvasgram-bench-") as folder:
                await gateway.measure(target, Path(folder), taken, turned, step, quick=quick)

    result = await _kept(address, work, stop, endpoint)
    both = ((result.of("direct", one.protocol.key), one) for one in turned)
    found = [gateway.difference(row, one) for row, one in both if row is not None]
    return replace(result, differences=tuple(one for one in found if one is not None))


async def _kept(address: Address, work: Work, stop: asyncio.Event, endpoint: Endpoint | None) -> Result:
    began = datetime.now(UTC)
    taken = Taken()
    async with found(address, endpoint) as (target, simulated):
        try:
            if not await until(stop, work(target, taken)):
                taken.ended = STOPPED
        except* BenchFailed as failed:  # the gateway's process
            taken.ended = f"The measurement failed: {words(failed)}."
        told = conditions(target, taken, began, simulated=simulated)
        return Result(tuple(taken.rows), tuple(told), tuple(taken.tools), ended=taken.ended)


def _url(address: str) -> str:
    try:
        return given(telegram_token=NO_BOT, model_url=address).model_url
    except SettingsRefused:
        example = "--endpoint http://localhost:8000/v1"
        raise SettingsRefused(f"--endpoint must be a web address, or `sim`. Example: {example}") from None
