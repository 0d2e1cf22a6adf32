"""Own time and processor time of a reply, and memory: one message at a time, in alternating rounds."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bot.bench.harness.statistics import median, percentile
from tests.bench.harness.figures import BotName, FigureRow, limit_to_memory_loop, order_rounds
from tests.bench.harness.stage import AnswerTimes, Stage, open_stages
from tests.bench.harness.workload import ProseBrain
from tests.support.endpoint.server import ScriptedEndpoint

CHATS = 20
SLICE_MESSAGES = 5  # that a bot answers before it is another bot's turn
# Between two messages: what a bot still has to do counts as its processor time, not as own time.
PAUSE_SECONDS = 0.03
# The first numbers of questions: none is asked twice.
FIRST_NEAR_NUMBER = 100_000
FIRST_FAR_NUMBER = 200_000
FAR_ROUND_INTERVAL = 3  # rounds from one that is far away to the next
FAR_SECONDS = 0.080  # that Telegram's answers take when it is far away

MAX_OWN_P50_FACTOR = 1.2
MAX_OWN_P95_FACTOR = 1.5
MAX_FAR_FACTOR = 0.3
MAX_CPU_FACTOR = 1.2


@dataclass(slots=True)
class LatencyMeasurements:
    """What was measured of one bot; `cpu_seconds` is the sum over all of `near_times`."""

    near_times: list[AnswerTimes] = field(default_factory=list)
    far_times: list[AnswerTimes] = field(default_factory=list)
    cpu_seconds: float | None = None
    resident_mib_after: float | None = None


async def measure_latency(bot_names: tuple[BotName, ...], folder: Path, messages: int) -> list[FigureRow]:
    """Rows of own time, distance and processor time over `messages` a bot, after a warm-up message a chat.

    Rounds with Telegram far away come between the others, so that drift of the machine affects both alike.
    """
    measurements = {name: LatencyMeasurements() for name in bot_names}
    async with open_stages(bot_names, folder, partial(ScriptedEndpoint, brain=ProseBrain())) as stages:
        for round_number, order in enumerate(order_rounds(bot_names, CHATS // SLICE_MESSAGES)):
            for name in order:
                await ask_in_a_row(stages[name], _slice_numbers(0, round_number))
        for round_number, order in enumerate(order_rounds(bot_names, max(1, messages // SLICE_MESSAGES))):
            for name in order:
                await _ask_near(
                    stages[name], measurements[name], _slice_numbers(FIRST_NEAR_NUMBER, round_number)
                )
            if round_number % FAR_ROUND_INTERVAL == 0:
                for name in order:
                    measurements[name].far_times += await _ask_far(
                        stages[name], _slice_numbers(FIRST_FAR_NUMBER, round_number)
                    )
        for name, stage in stages.items():
            measurements[name].resident_mib_after = stage.process.read_resident_mib()
    return build_rows(measurements)


def _slice_numbers(first: int, slice_index: int) -> range:
    """The numbers of the questions of one slice."""
    return range(first + slice_index * SLICE_MESSAGES, first + (slice_index + 1) * SLICE_MESSAGES)


async def _ask_far(stage: Stage, numbers: range) -> list[AnswerTimes]:
    stage.api.latency = FAR_SECONDS
    times = await ask_in_a_row(stage, numbers)
    await asyncio.sleep(2 * FAR_SECONDS)  # the last answers are still on their way
    stage.api.latency = 0.0
    return times


async def _ask_near(stage: Stage, measurements: LatencyMeasurements, numbers: range) -> None:
    before = stage.process.read_cpu_seconds()
    measurements.near_times += await ask_in_a_row(stage, numbers)
    after = stage.process.read_cpu_seconds()
    if before is not None and after is not None:
        measurements.cpu_seconds = (measurements.cpu_seconds or 0.0) + after - before


async def ask_in_a_row(stage: Stage, numbers: range) -> list[AnswerTimes]:
    """Ask these questions one after the other, with a pause after each."""
    times = []
    for number in numbers:
        times.append(await stage.ask(number, number % CHATS))
        await asyncio.sleep(PAUSE_SECONDS)
    return times


def build_rows(measurements: dict[BotName, LatencyMeasurements]) -> list[FigureRow]:
    """The figures of the measurements."""
    p50 = {name: _own_milliseconds(measured, 0.50) for name, measured in measurements.items()}
    p95 = {name: _own_milliseconds(measured, 0.95) for name, measured in measurements.items()}
    far = {name: _far_milliseconds(measured) for name, measured in measurements.items()}
    cpu = {name: _cpu_milliseconds(measured) for name, measured in measurements.items()}
    after = {name: measured.resident_mib_after for name, measured in measurements.items()}
    return [
        FigureRow("own_p50", "own time a reply, p50", "ms", p50, limit_to_memory_loop(MAX_OWN_P50_FACTOR)),
        FigureRow("own_p95", "own time a reply, p95", "ms", p95, limit_to_memory_loop(MAX_OWN_P95_FACTOR)),
        FigureRow(
            "far_p50", "Telegram 80 ms away: round trip, p50", "ms", far, limit_to_memory_loop(MAX_FAR_FACTOR)
        ),
        FigureRow("cpu", "processor time a reply", "ms", cpu, limit_to_memory_loop(MAX_CPU_FACTOR)),
        FigureRow("after", "memory after these replies", "MiB", after, digits=0),
    ]


def _own_milliseconds(measured: LatencyMeasurements, fraction: float) -> float | None:
    return _to_milliseconds(percentile([times.own_seconds for times in measured.near_times], fraction))


def _far_milliseconds(measured: LatencyMeasurements) -> float | None:
    return _to_milliseconds(median([times.round_trip_seconds for times in measured.far_times]))


def _cpu_milliseconds(measured: LatencyMeasurements) -> float | None:
    if measured.cpu_seconds is None:
        return None
    return _to_milliseconds(measured.cpu_seconds / len(measured.near_times))


def _to_milliseconds(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    return 1000 * seconds
