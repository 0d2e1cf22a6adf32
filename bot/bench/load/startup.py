"""How long a bot takes to its first poll, and what it holds once it idles: started again and again, one by
one.
"""

import asyncio
from pathlib import Path

from bot.bench.harness.stage import staged
from bot.bench.harness.statistics import Name, Row, Value, at_most, median, rounds
from bot.sim.vllm.server import Endpoint

SETTLED = 0.5  # seconds after the first poll at which memory is read
START_SECONDS = 1.5
IDLE_MIB = 130.0


async def measure(names: tuple[Name, ...], folder: Path, times: int) -> list[Row]:
    """Medians over `times` starts on an existing database; one start before them is not counted."""
    seconds: dict[Name, list[float]] = {name: [] for name in names}
    resident: dict[Name, list[float]] = {name: [] for name in names}
    shared_out: dict[Name, list[float]] = {name: [] for name in names}
    cpu: dict[Name, list[float]] = {name: [] for name in names}
    for place, order in enumerate(rounds(names, times + 1)):
        for name in order:
            async with staged(name, folder, Endpoint()) as stage:
                took = await stage.start()
                worked = stage.running.cpu()
                await asyncio.sleep(SETTLED)
                memory = stage.running.memory()
            if place:
                seconds[name].append(took)
                cpu[name] += [worked] if worked is not None else []
                resident[name] += [memory.resident] if memory.resident else []
                shared_out[name] += [memory.shared_out] if memory.shared_out else []
    return [
        Row("start", "start to first poll", "s", _medians(seconds), at_most(START_SECONDS), digits=2),
        Row("start_cpu", "of it processor time", "s", _medians(cpu), digits=2),
        Row("idle", "memory idle", "MiB", _medians(resident), at_most(IDLE_MIB), digits=0),
        Row("idle_pss", "memory idle, shared pages in parts", "MiB", _medians(shared_out), digits=0),
    ]


def _medians(found: dict[Name, list[float]]) -> dict[Name, Value]:
    return {name: median(values) for name, values in found.items()}
