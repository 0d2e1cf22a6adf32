"""Puts several calls before an endpoint at once, and leaves one in the middle: what shows seats, order and
aborts.

Talks through the wire; says only what came, never what it means.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bot.check.client import Busy, Lost, Spent, Wire
from bot.check.observations import Abort, Answer, Crowd, Gauges

SIZE: Final = 9  # one more than the seats vLLM gives a diffusion model by itself

_NOTHING = Answer(0)
_BUSY = Answer(503)


async def gather(wire: Wire, bodies: Sequence[Mapping[str, Any]], urgent: Mapping[str, Any]) -> Crowd:
    """Send all `bodies` at once and look at the gauges while they run; `urgent` is sent once some of them
    wait.
    """
    before = await wire.gauges()
    looks: list[Gauges] = []
    async with asyncio.TaskGroup() as tasks:
        calls = [
            tasks.create_task(_asked(wire, body), name=f"crowd {place}") for place, body in enumerate(bodies)
        ]
        for pause in wire.limits.pauses:
            await asyncio.sleep(pause)
            look = None if before is None else await wire.gauges()
            looks += [] if look is None else [look]
            if before is None or _is_full(look, len(bodies)) or all(task.done() for task in calls):
                break
        waits = before is None or any(look.waiting for look in looks)
        hurried = await _asked(wire, urgent) if waits else None
    return Crowd(before, tuple(task.result() for task in calls), tuple(looks), hurried)


async def leave(wire: Wire, body: Mapping[str, Any]) -> Abort:
    """Leave a long reply after its first block, and look whether it still runs."""
    before = await wire.gauges()
    if before is None:
        return Abort(None)
    left = await wire.ask(body, enough=lambda heard: heard.blocks > 0 or heard.finish is not None)
    looks: list[Gauges] = []
    began = time.monotonic()
    for pause in wire.limits.pauses:
        await asyncio.sleep(pause)
        look = await wire.gauges()
        looks += [] if look is None else [look]
        if look is not None and look.running <= before.running:
            break
    over = left.finish is not None or not left.ok
    pace = left.blocks[0].after if left.blocks else 0.0
    return Abort(before, tuple(looks), over, pace, time.monotonic() - began)


def _is_full(look: Gauges | None, size: int) -> bool:
    """Whether the seats show: somebody waits, or all run."""
    return look is not None and (look.waiting > 0 or look.running >= size)


async def _asked(wire: Wire, body: Mapping[str, Any]) -> Answer:
    try:
        return await wire.ask(body)
    except Busy:
        return _BUSY
    except (Lost, Spent):
        return _NOTHING
