"""How long a bot takes to its first poll, and its memory when idle; bots are started one after the other."""

import asyncio
from pathlib import Path

from bot.bench.harness.stage import open_stage
from bot.bench.harness.statistics import BotName, FigureRow, FigureValue, limit_to, median, order_rounds
from bot.sim.vllm.server import SimulatedEndpoint

SETTLE_SECONDS = 0.5  # after the first poll, before memory is read
MAX_START_SECONDS = 1.5
MAX_IDLE_MIB = 130.0


async def measure_startup(bot_names: tuple[BotName, ...], folder: Path, starts: int) -> list[FigureRow]:
    """Medians over `starts` starts on an existing database; one start before them is not counted."""
    seconds_to_poll: dict[BotName, list[float]] = {name: [] for name in bot_names}
    resident_mib: dict[BotName, list[float]] = {name: [] for name in bot_names}
    proportional_mib: dict[BotName, list[float]] = {name: [] for name in bot_names}
    cpu_seconds: dict[BotName, list[float]] = {name: [] for name in bot_names}
    for round_number, order in enumerate(order_rounds(bot_names, starts + 1)):
        for name in order:
            async with open_stage(name, folder, SimulatedEndpoint()) as stage:
                start_seconds = await stage.start()
                start_cpu_seconds = stage.process.read_cpu_seconds()
                await asyncio.sleep(SETTLE_SECONDS)
                memory = stage.process.read_memory()
            if round_number == 0:
                continue
            seconds_to_poll[name].append(start_seconds)
            if start_cpu_seconds is not None:
                cpu_seconds[name].append(start_cpu_seconds)
            if memory.resident_mib:
                resident_mib[name].append(memory.resident_mib)
            if memory.proportional_mib:
                proportional_mib[name].append(memory.proportional_mib)
    return [
        FigureRow(
            "start",
            "start to first poll",
            "s",
            _medians(seconds_to_poll),
            limit_to(MAX_START_SECONDS),
            digits=2,
        ),
        FigureRow("start_cpu", "of it processor time", "s", _medians(cpu_seconds), digits=2),
        FigureRow("idle", "memory idle", "MiB", _medians(resident_mib), limit_to(MAX_IDLE_MIB), digits=0),
        FigureRow(
            "idle_pss", "memory idle, shared pages in parts", "MiB", _medians(proportional_mib), digits=0
        ),
    ]


def _medians(values_by_bot: dict[BotName, list[float]]) -> dict[BotName, FigureValue]:
    return {name: median(values) for name, values in values_by_bot.items()}
