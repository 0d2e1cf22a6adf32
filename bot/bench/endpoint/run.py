"""A run of `bench direct` or `bench gateway`, from address to result.

Finds the endpoint or simulates one, measures, and keeps what is done.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bot.bench.endpoint import direct, gateway, simulated
from bot.bench.endpoint.canvas_sweep import describe_savings
from bot.bench.endpoint.client import BenchTarget, find_target
from bot.bench.endpoint.conditions import describe_conditions
from bot.bench.endpoint.direct import DirectOptions, EndpointMeasurements, first_error_text, run_until_stopped
from bot.bench.endpoint.gateway import ProtocolTurns
from bot.bench.endpoint.protocols import ANSWER_PROTOCOLS
from bot.bench.endpoint.result import STOPPED_BY_HAND, BenchResult
from bot.bench.harness import machine
from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.harness.progress import ProgressCallback
from bot.errors import SettingsRefused
from bot.http_server import serve
from bot.settings import NO_BOT_TOKEN, build_settings
from bot.sim.vllm.server import SimulatedEndpoint

MeasureTarget = Callable[[BenchTarget, EndpointMeasurements], Coroutine[None, None, None]]


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """The address of the endpoint, and its key; `url` may be SIMULATED_ADDRESS.

    `note`: what only its admin knows, such as its hardware.
    """

    url: str
    api_key: str | None = None
    note: str | None = None


@contextlib.asynccontextmanager
async def open_target(
    address: EndpointAddress, endpoint: SimulatedEndpoint | None = None
) -> AsyncIterator[tuple[BenchTarget, str | None]]:
    """The endpoint at an address, and the notice to show if it is simulated.

    Tests pass the simulated `endpoint`. Raises SettingsRefused, ServerAway or KeyRefused.
    """
    if address.url != simulated.SIMULATED_ADDRESS:
        yield await find_target(_check_url(address.url), address.api_key), None
        return
    endpoint = endpoint or simulated.build_simulated_endpoint()
    async with serve(endpoint.app) as server_url:
        notice = simulated.SIMULATION_NOTICE.format(seconds=endpoint.timing.canvas_time(0))
        yield await find_target(f"{server_url}/v1", address.api_key), notice


async def run(
    address: EndpointAddress,
    options: DirectOptions,
    stop: asyncio.Event,
    on_progress: ProgressCallback,
    endpoint: SimulatedEndpoint | None = None,
) -> BenchResult:
    """Measure an endpoint until all is done, `stop` is set or it fails; `on_progress` follows each step."""

    async def work(target: BenchTarget, measurements: EndpointMeasurements) -> None:
        await direct.measure_endpoint(target, options, measurements, on_progress)

    return await _run_and_keep(address, work, stop, endpoint)


async def run_gateway(
    address: EndpointAddress,
    stop: asyncio.Event,
    on_progress: ProgressCallback,
    *,
    quick: bool = False,
    endpoint: SimulatedEndpoint | None = None,
) -> BenchResult:
    """The same prompts directly and then through the gateway, and the difference between the two."""
    finished: list[ProtocolTurns] = []

    async def work(target: BenchTarget, measurements: EndpointMeasurements) -> None:
        await direct.measure_endpoint(
            target,
            DirectOptions(ANSWER_PROTOCOLS, quick=quick, include_whole=False, include_tools=False),
            measurements,
            on_progress,
        )
        if measurements.stop_reason is None:
            with tempfile.TemporaryDirectory(prefix="canvasgram-bench-") as folder:
                await gateway.measure_gateway(
                    target, Path(folder), measurements, finished, on_progress, quick=quick
                )

    result = await _run_and_keep(address, work, stop, endpoint)
    pairs = ((result.find_row("direct", turns.protocol.key), turns) for turns in finished)
    differences = [gateway.compute_difference(row, turns) for row, turns in pairs if row is not None]
    return replace(result, differences=tuple(turns for turns in differences if turns is not None))


async def _run_and_keep(
    address: EndpointAddress, measure: MeasureTarget, stop: asyncio.Event, endpoint: SimulatedEndpoint | None
) -> BenchResult:
    started_at = datetime.now(UTC)
    load_before = machine.read_load()
    measurements = EndpointMeasurements()
    async with open_target(address, endpoint) as (target, simulation_notice):
        try:
            if not await run_until_stopped(stop, measure(target, measurements)):
                measurements.stop_reason = STOPPED_BY_HAND
        except* BenchFailed as failed:  # the gateway's process
            measurements.stop_reason = f"The measurement failed: {first_error_text(failed)}."
        conditions = describe_conditions(
            target,
            measurements,
            started_at,
            simulated=simulation_notice,
            note=address.note,
            loads=(load_before, machine.read_load()),
        )
        return BenchResult(
            tuple(measurements.rows),
            tuple(conditions),
            tuple(measurements.tool_scores),
            ended=measurements.stop_reason,
            sentences=await describe_savings(measurements.sweep, simulated=simulation_notice is not None),
        )


def _check_url(address: str) -> str:
    try:
        return build_settings(telegram_token=NO_BOT_TOKEN, model_url=address).model_url
    except SettingsRefused:
        example = "--endpoint http://localhost:8000/v1"
        raise SettingsRefused(f"--endpoint must be a web address, or `sim`. Example: {example}") from None
