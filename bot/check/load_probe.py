"""Sends several calls at once, and aborts one in the middle: this shows seats, order and aborts.

Reports only what arrived, never what it means.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from bot.check.client import CallBudgetSpent, CallLost, EndpointBusy, ProbeClient
from bot.check.observations import AbortProbeResult, Gauges, LoadProbeResult, ProbeResponse

CONCURRENT_CALLS: Final = 9  # one more than the seats vLLM gives a diffusion model by default

_NO_RESPONSE = ProbeResponse(0)
_BUSY_RESPONSE = ProbeResponse(503)


async def probe_load(
    client: ProbeClient, bodies: Sequence[Mapping[str, Any]], urgent_body: Mapping[str, Any]
) -> LoadProbeResult:
    """Send all `bodies` at once and read the gauges while they run.

    The urgent one is sent once some of them wait, or if there are no gauges. Each is a conversation of its
    own: a router spreads them as it does those of several chats.
    """
    before = await client.read_gauges()
    samples: list[Gauges] = []
    urgent: asyncio.Task[ProbeResponse] | None = None
    async with asyncio.TaskGroup() as tasks:

        def send_urgent() -> None:
            nonlocal urgent
            if urgent is None:
                urgent = tasks.create_task(_call_model(client, urgent_body, "check urgent"), name="urgent")

        calls = [
            tasks.create_task(_call_model(client, body, f"check {number}"), name=f"load {number}")
            for number, body in enumerate(bodies)
        ]
        if before is None:
            await asyncio.sleep(client.limits.pause_seconds[0])
            send_urgent()
        else:
            samples = await _sample_load(client, calls, send_urgent)
    return LoadProbeResult(
        before,
        tuple(call.result() for call in calls),
        tuple(samples),
        urgent.result() if urgent is not None else None,
    )


async def _sample_load(
    client: ProbeClient, calls: Sequence[asyncio.Task[ProbeResponse]], on_waiting: Callable[[], None]
) -> list[Gauges]:
    """Gauges until all calls are done or seen running; `on_waiting` is called whenever some of them wait."""
    samples: list[Gauges] = []
    async for sample in _watch_gauges(client):
        if sample is not None:
            samples.append(sample)
            if sample.waiting:
                on_waiting()
            if sample.running >= len(calls):
                break
        if all(call.done() for call in calls):
            break
    return samples


async def _watch_gauges(client: ProbeClient) -> AsyncIterator[Gauges | None]:
    """The gauges after each of the pauses."""
    for pause in client.limits.pause_seconds:
        await asyncio.sleep(pause)
        yield await client.read_gauges()


async def probe_abort(client: ProbeClient, body: Mapping[str, Any]) -> AbortProbeResult:
    """Abort a long reply after its first block, and see whether it still runs."""
    before = await client.read_gauges()
    if before is None:
        return AbortProbeResult(None)
    response = await client.call_model(body, is_aborted=True)
    samples: list[Gauges] = []
    aborted_at = time.monotonic()
    async for sample in _watch_gauges(client):
        if sample is not None:
            samples.append(sample)
            if sample.running <= before.running:
                break
    return AbortProbeResult(
        before,
        tuple(samples),
        has_ended=response.reply.finish_reason is not None or not response.ok,
        first_block_seconds=response.blocks[0].after_seconds if response.blocks else 0.0,
        watched_seconds=time.monotonic() - aborted_at,
    )


async def _call_model(client: ProbeClient, body: Mapping[str, Any], session: str) -> ProbeResponse:
    try:
        return await client.call_model(body, session=session)
    except EndpointBusy:
        return _BUSY_RESPONSE
    except (CallLost, CallBudgetSpent):
        return _NO_RESPONSE
