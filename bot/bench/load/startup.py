"""How long a bot takes to its first poll, and what it takes while nothing happens: memory and wake-ups."""

import asyncio
from pathlib import Path

from bot.bench.harness.stage import Stage, open_stage, open_stages
from bot.bench.harness.statistics import (
    BotName,
    FigureRow,
    FigureValue,
    limit_to,
    limit_to_memory_loop,
    median,
    order_rounds,
)
from bot.sim.vllm.server import SimulatedEndpoint

MAX_START_FACTOR = 1.0
MAX_IDLE_MIB = 100.0
MAX_WAKEUPS_PER_MINUTE = 60.0  # no timer under a second
SETTLE_SHARE = 0.25  # of the time in which wake-ups are counted, before it: what is loaded late is there


async def measure_startup(bot_names: tuple[BotName, ...], folder: Path, starts: int) -> list[FigureRow]:
    """Medians over `starts` starts on an existing database; one start before them is not counted.

    Bots are started one after the other, in alternating order.
    """
    seconds_to_poll: dict[BotName, list[float]] = {name: [] for name in bot_names}
    cpu_seconds: dict[BotName, list[float]] = {name: [] for name in bot_names}
    for round_number, order in enumerate(order_rounds(bot_names, starts + 1)):
        for name in order:
            async with open_stage(name, folder, SimulatedEndpoint()) as stage:
                start_seconds = await stage.start()
                start_cpu_seconds = stage.process.read_cpu_seconds()
            if round_number == 0:
                continue
            seconds_to_poll[name].append(start_seconds)
            if start_cpu_seconds is not None:
                cpu_seconds[name].append(start_cpu_seconds)
    starts_by_bot = {name: median(values) for name, values in seconds_to_poll.items()}
    cpu_by_bot = {name: median(values) for name, values in cpu_seconds.items()}
    return [
        FigureRow(
            "start",
            "start to first poll",
            "s",
            starts_by_bot,
            limit_to_memory_loop(MAX_START_FACTOR),
            digits=2,
        ),
        FigureRow("start_cpu", "of it processor time", "s", cpu_by_bot, digits=2),
    ]


async def measure_idle(bot_names: tuple[BotName, ...], folder: Path, seconds: float) -> list[FigureRow]:
    """Memory and wake-ups while nothing happens for so many seconds; all bots are idle at the same time."""
    async with open_stages(bot_names, folder, SimulatedEndpoint) as stages:
        await asyncio.sleep(SETTLE_SHARE * seconds)
        memory: dict[BotName, FigureValue] = {
            name: stage.process.read_resident_mib() for name, stage in stages.items()
        }
        before = _count_wakeups(stages)
        await asyncio.sleep(seconds)
        after = _count_wakeups(stages)
    wakeups: dict[BotName, FigureValue] = dict.fromkeys(bot_names)
    for name in before.keys() & after.keys():
        wakeups[name] = 60 / seconds * (after[name] - before[name])
    return [
        FigureRow("idle", "memory idle", "MiB", memory, limit_to(MAX_IDLE_MIB), digits=0),
        FigureRow(
            "wakeups", "wake-ups a minute idle", "", wakeups, limit_to(MAX_WAKEUPS_PER_MINUTE), digits=0
        ),
    ]


def _count_wakeups(stages: dict[BotName, Stage]) -> dict[BotName, int]:
    """How often each process has been woken so far; without those of which the machine does not say it."""
    counts = {name: stage.process.count_wakeups() for name, stage in stages.items()}
    return {name: count for name, count in counts.items() if count is not None}
