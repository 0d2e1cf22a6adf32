"""How long a bot takes to its first poll, and what it holds once it idles: started again and again, one by
one.
"""

import asyncio
from pathlib import Path

from bot.bench.harness.stage import open_stage
from bot.bench.harness.statistics import BotName, FigureRow, FigureValue, limit_to, median, order_rounds
from bot.sim.vllm.server import SimulatedEndpoint

SETTLE_SECONDS = 0.5  # seconds after the first poll at which memory is read
MAX_START_SECONDS = 1.5
MAX_IDLE_MIB = 130.0


async def measure_startup(bot_names: tuple[BotName, ...], folder: Path, starts: int) -> list[FigureRow]:
    """Medians over `times` starts on an existing database; one start before them is not counted."""
    seconds: dict[BotName, list[float]] = {name: [] for name in bot_names}
    resident: dict[BotName, list[float]] = {name: [] for name in bot_names}
    shared_out: dict[BotName, list[float]] = {name: [] for name in bot_names}
    cpu: dict[BotName, list[float]] = {name: [] for name in bot_names}
    for place, order in enumerate(order_rounds(bot_names, starts + 1)):
        for name in order:
            async with open_stage(name, folder, SimulatedEndpoint()) as stage:
                took = await stage.start()
                worked = stage.process.read_cpu_seconds()
                await asyncio.sleep(SETTLE_SECONDS)
                memory = stage.process.read_memory()
            if place:
                seconds[name].append(took)
                cpu[name] += [worked] if worked is not None else []
                resident[name] += [memory.resident_mib] if memory.resident_mib else []
                shared_out[name] += [memory.proportional_mib] if memory.proportional_mib else []
    return [
        FigureRow(
            "start", "start to first poll", "s", _medians(seconds), limit_to(MAX_START_SECONDS), digits=2
        ),
        FigureRow("start_cpu", "of it processor time", "s", _medians(cpu), digits=2),
        FigureRow("idle", "memory idle", "MiB", _medians(resident), limit_to(MAX_IDLE_MIB), digits=0),
        FigureRow("idle_pss", "memory idle, shared pages in parts", "MiB", _medians(shared_out), digits=0),
    ]


def _medians(values_by_bot: dict[BotName, list[float]]) -> dict[BotName, FigureValue]:
    return {name: median(values) for name, values in values_by_bot.items()}
