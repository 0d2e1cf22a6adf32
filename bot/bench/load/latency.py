"""Own time and processor time of a reply, and memory: one message at a time, in rounds there and back again."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bot.bench.harness.bots import Memory
from bot.bench.harness.stage import Stage, Timed, all_staged
from bot.bench.harness.statistics import Limit, Name, Row, Value, median, percentile, rounds, times
from bot.bench.harness.workload import Model
from bot.sim.vllm.server import Endpoint

CHATS = 20
SLICE = 5  # messages a bot answers before it is another's turn
# Seconds between two messages: what a bot has left to do counts as its processor time, not as own time
PAUSE = 0.03
NEAR_FIRST, FAR_FIRST = 100_000, 200_000  # numbers of questions: none is asked twice
FAR_EVERY = 3  # rounds from one that is far away to the next
FAR = 0.080  # seconds Telegram's answers take when it is far away

OWN_P50 = 2.0
OWN_P95 = 2.5
FAR_EXTRA_MS = 5.0
CPU = 2.0


@dataclass(slots=True)
class Taken:
    """What was measured of one bot. `cpu` is seconds over all of `near`."""

    near: list[Timed] = field(default_factory=list)
    far: list[Timed] = field(default_factory=list)
    cpu: float | None = None
    after: Memory | None = None


async def measure(names: tuple[Name, ...], folder: Path, messages: int) -> list[Row]:
    """Rows of own time, distance and processor time over `messages` a bot, after a message to warm up every
    chat.

    Rounds far away come between the others, so that a drift of the machine meets both alike.
    """
    taken = {name: Taken() for name in names}
    async with all_staged(names, folder, partial(Endpoint, brain=Model())) as stages:
        for place, order in enumerate(rounds(names, CHATS // SLICE)):
            for name in order:
                await in_a_row(stages[name], _questions(0, place))
        for place, order in enumerate(rounds(names, max(1, messages // SLICE))):
            for name in order:
                await _counted(stages[name], taken[name], _questions(NEAR_FIRST, place))
            if place % FAR_EVERY == 0:
                for name in order:
                    taken[name].far += await _far(stages[name], _questions(FAR_FIRST, place))
        for name, stage in stages.items():
            taken[name].after = stage.running.memory()
    return rows(taken)


def _questions(first: int, place: int) -> range:
    """The numbers of the questions of one slice."""
    return range(first + place * SLICE, first + (place + 1) * SLICE)


async def _far(stage: Stage, numbers: range) -> list[Timed]:
    stage.api.latency = FAR
    timed = await in_a_row(stage, numbers)
    await asyncio.sleep(2 * FAR)  # the last answers are still on their way
    stage.api.latency = 0.0
    return timed


async def _counted(stage: Stage, taken: Taken, numbers: range) -> None:
    before = stage.running.cpu()
    taken.near += await in_a_row(stage, numbers)
    after = stage.running.cpu()
    if before is not None and after is not None:
        taken.cpu = (taken.cpu or 0.0) + after - before


async def in_a_row(stage: Stage, numbers: range) -> list[Timed]:
    """Ask these questions one after the other, a little apart."""
    timed = []
    for number in numbers:
        timed.append(await stage.ask(number, number % CHATS))
        await asyncio.sleep(PAUSE)
    return timed


def rows(taken: dict[Name, Taken]) -> list[Row]:
    """The figures of what was measured."""
    p50 = {name: _ms(percentile([one.own for one in it.near], 0.50)) for name, it in taken.items()}
    p95 = {name: _ms(percentile([one.own for one in it.near], 0.95)) for name, it in taken.items()}
    far = {name: _ms(median([one.round_trip for one in it.far])) for name, it in taken.items()}
    cpu = {name: None if it.cpu is None else _ms(it.cpu / len(it.near)) for name, it in taken.items()}
    return [
        _row("own_p50", "own time a reply, p50", p50, times(OWN_P50, p50.get("memory"))),
        _row("own_p95", "own time a reply, p95", p95, times(OWN_P95, p95.get("memory"))),
        _row(
            "far_p50",
            "Telegram 80 ms away: round trip, p50",
            far,
            times(OWN_P50, p50.get("memory"), FAR_EXTRA_MS),
        ),
        _row("cpu", "CPU a reply", cpu, times(CPU, cpu.get("memory"))),
        Row(
            "after",
            "memory after the run",
            "MiB",
            {name: _mib(it.after) for name, it in taken.items()},
            digits=0,
        ),
    ]


def _row(key: str, label: str, values: dict[Name, float | None], limit: Limit | None) -> Row:
    return Row(key, label, "ms", dict[Name, Value](values), limit)


def _ms(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    return 1000 * seconds


def _mib(memory: Memory | None) -> float | None:
    if memory:
        return memory.resident
    return None
