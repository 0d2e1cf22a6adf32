"""A long run of many chats: whether every message is answered once and in order, and how latency and memory
fare.

Owns the people who write; each of them writes again as soon as the answer is there.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic

from bot.bench.harness.stage import FIRST_CHAT, Stage, staged
from bot.bench.harness.statistics import Row, at_most, percentile
from bot.bench.harness.workload import Model
from bot.sim.vllm.server import Endpoint, Timing

CHATS = 12
SEATS = 4
CANVAS = 0.05
LOST = 25.0  # seconds without an answer; a bot that says nothing for longer has failed
LOOKS = 60  # at the memory, over the whole run
BETWEEN = 10_000_000  # numbers of questions from one chat to the next

_ENDED = re.compile(r"This was answer (\d+)\.$")


@dataclass(frozen=True, slots=True)
class Moment:
    """An answer, `at` seconds into the run, and what its round trip took."""

    at: float
    seconds: float


@dataclass(slots=True)
class Run:
    """What was seen: questions by chat, in order, answers by chat as Telegram has them, times, and memory in
    MiB.
    """

    asked: dict[int, list[int]] = field(default_factory=dict)
    answered: dict[int, list[int]] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)


async def measure(folder: Path, minutes: float) -> list[Row]:
    """Rows over so many minutes."""
    endpoint = Endpoint(timing=Timing.canvas(CANVAS), seats=SEATS, brain=Model())
    async with staged("ours", folder, endpoint) as stage:
        await stage.start()
        run = Run()
        began = monotonic()
        async with asyncio.TaskGroup() as tasks:
            for chat in range(CHATS):
                tasks.create_task(_write(stage, run, chat, began, 60 * minutes))
            tasks.create_task(_look(stage, run, began, 60 * minutes))
        run.answered = {chat: _answers(stage, chat) for chat in range(CHATS)}
    return rows(run, minutes)


def rows(run: Run, minutes: float) -> list[Row]:
    """What a run amounts to."""
    lost, copies, disorder = (sum(counts) for counts in zip(*map(_wrong, *_both(run)), strict=True))
    tenth = 6 * minutes
    first = [one.seconds for one in run.moments if one.at <= tenth]
    last = [one.seconds for one in run.moments if one.at >= 60 * minutes - tenth]
    held = [mib for _, mib in run.memory]
    return [
        Row(
            "soak_answers",
            f"soak of {minutes:g} min: answers",
            "",
            {"ours": float(len(run.moments))},
            digits=0,
        ),
        Row("soak_lost", "messages without an answer", "", {"ours": float(lost)}, at_most(0), digits=0),
        Row("soak_copies", "answers given twice", "", {"ours": float(copies)}, at_most(0), digits=0),
        Row(
            "soak_order",
            "answers out of order in their chat",
            "",
            {"ours": float(disorder)},
            at_most(0),
            digits=0,
        ),
        _latency("soak_first_p50", "round trip in the first tenth, p50", first, 0.5),
        _latency("soak_last_p50", "round trip in the last tenth, p50", last, 0.5),
        _latency("soak_last_p95", "round trip in the last tenth, p95", last, 0.95),
        Row(
            "soak_memory_first",
            "memory after a tenth",
            "MiB",
            {"ours": held[len(held) // 10] if held else None},
        ),
        Row("soak_memory_last", "memory at the end", "MiB", {"ours": held[-1] if held else None}),
        Row("soak_memory_growth", "its growth over the second half", "MiB/h", {"ours": growth(run.memory)}),
    ]


def growth(memory: Sequence[tuple[float, float]]) -> float | None:
    """MiB an hour over the second half of (seconds, MiB), by a straight line through it; None of too little."""
    half = memory[len(memory) // 2 :]
    if len(half) < 2:
        return None
    middle_at = sum(at for at, _ in half) / len(half)
    middle = sum(mib for _, mib in half) / len(half)
    spread = sum((at - middle_at) ** 2 for at, _ in half)
    if spread:
        return 3600 * sum((at - middle_at) * (mib - middle) for at, mib in half) / spread
    return None


def _latency(key: str, label: str, seconds: list[float], share: float) -> Row:
    found = percentile(seconds, share)
    return Row(key, label, "ms", {"ours": None if found is None else 1000 * found})


def _both(run: Run) -> tuple[list[list[int]], list[list[int]]]:
    chats = sorted(run.asked)
    return [run.asked[chat] for chat in chats], [run.answered.get(chat, []) for chat in chats]


def _wrong(asked: list[int], answered: list[int]) -> tuple[int, int, int]:
    """How many questions were lost, how many answers came twice, and how many stand before an earlier one."""
    times = Counter(answered)
    lost = sum(times[number] == 0 for number in asked)
    copies = sum(times[number] - 1 for number in times)
    disorder = sum(later < earlier for earlier, later in pairwise(answered))
    return lost, copies, disorder


async def _write(stage: Stage, run: Run, chat: int, began: float, seconds: float) -> None:
    asked = run.asked.setdefault(chat, [])
    number = chat * BETWEEN
    while monotonic() - began < seconds:
        number += 1
        asked.append(number)
        update = stage.write(number, chat)
        try:
            async with asyncio.timeout(LOST):
                await stage.answered(number, chat)
        except TimeoutError:
            continue  # it counts as lost, and the next is written
        run.moments.append(Moment(monotonic() - began, stage.timed(update, number, chat).round_trip))


async def _look(stage: Stage, run: Run, began: float, seconds: float) -> None:
    while (at := monotonic() - began) < seconds:
        held = stage.running.memory().resident
        if held is not None:
            run.memory.append((at, held))
        await asyncio.sleep(seconds / LOOKS)


def _answers(stage: Stage, chat: int) -> list[int]:
    said = (_ENDED.search(message.text) for message in stage.api.chat(FIRST_CHAT + chat).from_bot)
    return [int(found[1]) for found in said if found]
