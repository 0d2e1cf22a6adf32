"""How long a bot takes to its first poll and answer, and what it takes while idle: memory and wake-ups."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.harness.statistics import median
from tests.bench.harness.figures import (
    BotName,
    FigureRow,
    FigureValue,
    limit_to,
    limit_to_memory_loop,
    order_rounds,
)
from tests.bench.harness.stage import Stage, open_stage, open_stages
from tests.bench.harness.workload import ProseBrain
from tests.support.endpoint.server import ScriptedEndpoint

MAX_START_FACTOR = 1.0
MAX_ANSWER_FACTOR = 1.5
MAX_IDLE_MIB = 100.0
MAX_WAKEUPS_PER_MINUTE = 60.0  # no timer under a second
SETTLE_SHARE = 0.25  # of the time in which wake-ups are counted, before it: what is loaded late is there


@dataclass(frozen=True, slots=True)
class _StartTimes:
    """Seconds of one start: to the first poll, of it processor time, and to the first answer."""

    poll_seconds: float
    cpu_seconds: float | None
    answer_seconds: float


async def measure_startup(bot_names: tuple[BotName, ...], folder: Path, starts: int) -> list[FigureRow]:
    """Medians over `starts` starts on an existing database, and the first start of all, which is before them.

    A message waits at Telegram each time. Bots are started one after the other, in alternating order.
    """
    first_starts: dict[BotName, _StartTimes] = {}
    later_starts: dict[BotName, list[_StartTimes]] = {name: [] for name in bot_names}
    for round_number, order in enumerate(order_rounds(bot_names, starts + 1)):
        for name in order:
            start_times = await _start_and_ask(name, folder, round_number)
            if round_number == 0:
                first_starts[name] = start_times
            else:
                later_starts[name].append(start_times)
    to_poll = _take_medians(later_starts, lambda start_times: start_times.poll_seconds)
    cpu = _take_medians(later_starts, lambda start_times: start_times.cpu_seconds)
    to_answer = _take_medians(later_starts, lambda start_times: start_times.answer_seconds)
    to_first_answer = {name: start_times.answer_seconds for name, start_times in first_starts.items()}
    return [
        FigureRow(
            "start", "start to first poll", "s", to_poll, limit_to_memory_loop(MAX_START_FACTOR), digits=2
        ),
        FigureRow("start_cpu", "of it processor time", "s", cpu, digits=2),
        FigureRow(
            "start_answer",
            "start to the first answer",
            "s",
            to_answer,
            limit_to_memory_loop(MAX_ANSWER_FACTOR),
            digits=2,
        ),
        FigureRow("first_start_answer", "the same, first start of all", "s", to_first_answer, digits=2),
    ]


async def _start_and_ask(name: BotName, folder: Path, number: int) -> _StartTimes:
    """Start a bot for which question `number` waits, until it is answered."""
    async with open_stage(name, folder, ScriptedEndpoint(brain=ProseBrain())) as stage:
        update = stage.write_question(number, 0)
        poll_seconds = await stage.start()
        cpu_seconds = stage.process.read_cpu_seconds()
        await stage.wait_for_answer(number)
        answered_at = stage.read_times(update, number, 0).answered_at
        return _StartTimes(poll_seconds, cpu_seconds, answered_at - stage.process.started_at)


def _take_medians(
    starts: Mapping[BotName, Sequence[_StartTimes]], read: Callable[[_StartTimes], float | None]
) -> dict[BotName, FigureValue]:
    """The median of each bot's figures that are known."""
    medians: dict[BotName, FigureValue] = {}
    for name, bot_starts in starts.items():
        values = [value for value in map(read, bot_starts) if value is not None]
        medians[name] = median(values)
    return medians


async def measure_idle(bot_names: tuple[BotName, ...], folder: Path, seconds: float) -> list[FigureRow]:
    """Memory and wake-ups while nothing happens for so many seconds; all bots are idle at the same time."""
    async with open_stages(bot_names, folder, ScriptedEndpoint) as stages:
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
