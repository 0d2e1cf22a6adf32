"""Puts several calls before an endpoint at once, and leaves one in the middle: what shows seats, order and
aborts.

Talks through the wire; says only what came, never what it means.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bot.check.client import CallBudgetSpent, CallLost, EndpointBusy, ProbeClient
from bot.check.observations import AbortProbeResult, Gauges, LoadProbeResult, ProbeResponse

CONCURRENT_CALLS: Final = 9  # one more than the seats vLLM gives a diffusion model by itself

_NO_RESPONSE = ProbeResponse(0)
_BUSY_RESPONSE = ProbeResponse(503)


async def probe_load(
    client: ProbeClient, bodies: Sequence[Mapping[str, Any]], urgent_body: Mapping[str, Any]
) -> LoadProbeResult:
    """Send all `bodies` at once and look at the gauges while they run; `urgent` is sent once some of them
    wait.
    """
    before = await client.read_gauges()
    looks: list[Gauges] = []
    async with asyncio.TaskGroup() as tasks:
        calls = [
            tasks.create_task(_call_model(client, body), name=f"crowd {place}")
            for place, body in enumerate(bodies)
        ]
        for pause in client.limits.pause_seconds:
            await asyncio.sleep(pause)
            look = None if before is None else await client.read_gauges()
            looks += [] if look is None else [look]
            if before is None or _is_full(look, len(bodies)) or all(task.done() for task in calls):
                break
        waits = before is None or any(look.waiting for look in looks)
        hurried = await _call_model(client, urgent_body) if waits else None
    return LoadProbeResult(before, tuple(task.result() for task in calls), tuple(looks), hurried)


async def probe_abort(client: ProbeClient, body: Mapping[str, Any]) -> AbortProbeResult:
    """Leave a long reply after its first block, and look whether it still runs."""
    before = await client.read_gauges()
    if before is None:
        return AbortProbeResult(None)
    left = await client.call_model(
        body, stop_when=lambda heard: heard.block_count > 0 or heard.finish is not None
    )
    looks: list[Gauges] = []
    began = time.monotonic()
    for pause in client.limits.pause_seconds:
        await asyncio.sleep(pause)
        look = await client.read_gauges()
        looks += [] if look is None else [look]
        if look is not None and look.running <= before.running:
            break
    over = left.finish is not None or not left.ok
    pace = left.blocks[0].after_seconds if left.blocks else 0.0
    return AbortProbeResult(before, tuple(looks), over, pace, time.monotonic() - began)


def _is_full(gauges: Gauges | None, call_count: int) -> bool:
    """Whether the seats show: somebody waits, or all run."""
    return gauges is not None and (gauges.waiting > 0 or gauges.running >= call_count)


async def _call_model(client: ProbeClient, body: Mapping[str, Any]) -> ProbeResponse:
    try:
        return await client.call_model(body)
    except EndpointBusy:
        return _BUSY_RESPONSE
    except (CallLost, CallBudgetSpent):
        return _NO_RESPONSE
