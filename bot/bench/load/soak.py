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

from bot.bench.harness.stage import FIRST_CHAT_ID, Stage, open_stage
from bot.bench.harness.statistics import FigureRow, limit_to, percentile
from bot.bench.harness.workload import ProseBrain
from bot.sim.vllm.server import SimulatedEndpoint, Timing

CHATS = 12
SEATS = 4
CANVAS_SECONDS = 0.05
LOST = 25.0  # seconds without an answer; a bot that says nothing for longer has failed
MEMORY_SAMPLES = 60  # at the memory, over the whole run
NUMBERS_PER_CHAT = 10_000_000  # numbers of questions from one chat to the next

_ANSWER_NUMBER = re.compile(r"This was answer (\d+)\.$")


@dataclass(frozen=True, slots=True)
class SoakAnswer:
    """An answer, `at` seconds into the run, and what its round trip took."""

    elapsed_seconds: float
    round_trip_seconds: float


@dataclass(slots=True)
class SoakRun:
    """What was seen: questions by chat, in order, answers by chat as Telegram has them, times, and memory in
    MiB.
    """

    question_numbers: dict[int, list[int]] = field(default_factory=dict)
    answer_numbers: dict[int, list[int]] = field(default_factory=dict)
    answers: list[SoakAnswer] = field(default_factory=list)
    memory_samples: list[tuple[float, float]] = field(default_factory=list)


async def measure_soak(folder: Path, minutes: float) -> list[FigureRow]:
    """Rows over so many minutes."""
    endpoint = SimulatedEndpoint(timing=Timing.canvas(CANVAS_SECONDS), seats=SEATS, brain=ProseBrain())
    async with open_stage("ours", folder, endpoint) as stage:
        await stage.start()
        run = SoakRun()
        began = monotonic()
        async with asyncio.TaskGroup() as tasks:
            for chat in range(CHATS):
                tasks.create_task(_write_questions(stage, run, chat, began, 60 * minutes))
            tasks.create_task(_sample_memory(stage, run, began, 60 * minutes))
        run.answer_numbers = {chat: _read_answer_numbers(stage, chat) for chat in range(CHATS)}
    return build_rows(run, minutes)


def build_rows(run: SoakRun, minutes: float) -> list[FigureRow]:
    """What a run amounts to."""
    lost, copies, disorder = (
        sum(counts) for counts in zip(*map(_count_errors, *_pair_by_chat(run)), strict=True)
    )
    tenth = 6 * minutes
    first = [one.round_trip_seconds for one in run.answers if one.elapsed_seconds <= tenth]
    last = [one.round_trip_seconds for one in run.answers if one.elapsed_seconds >= 60 * minutes - tenth]
    held = [mib for _, mib in run.memory_samples]
    return [
        FigureRow(
            "soak_answers",
            f"soak of {minutes:g} min: answers",
            "",
            {"ours": float(len(run.answers))},
            digits=0,
        ),
        FigureRow(
            "soak_lost", "messages without an answer", "", {"ours": float(lost)}, limit_to(0), digits=0
        ),
        FigureRow("soak_copies", "answers given twice", "", {"ours": float(copies)}, limit_to(0), digits=0),
        FigureRow(
            "soak_order",
            "answers out of order in their chat",
            "",
            {"ours": float(disorder)},
            limit_to(0),
            digits=0,
        ),
        _latency_row("soak_first_p50", "round trip in the first tenth, p50", first, 0.5),
        _latency_row("soak_last_p50", "round trip in the last tenth, p50", last, 0.5),
        _latency_row("soak_last_p95", "round trip in the last tenth, p95", last, 0.95),
        FigureRow(
            "soak_memory_first",
            "memory after a tenth",
            "MiB",
            {"ours": held[len(held) // 10] if held else None},
        ),
        FigureRow("soak_memory_last", "memory at the end", "MiB", {"ours": held[-1] if held else None}),
        FigureRow(
            "soak_memory_growth",
            "its growth over the second half",
            "MiB/h",
            {"ours": memory_growth(run.memory_samples)},
        ),
    ]


def memory_growth(memory_samples: Sequence[tuple[float, float]]) -> float | None:
    """MiB an hour over the second half of (seconds, MiB), by a straight line through it; None of too little."""
    half = memory_samples[len(memory_samples) // 2 :]
    if len(half) < 2:
        return None
    middle_at = sum(at for at, _ in half) / len(half)
    middle = sum(mib for _, mib in half) / len(half)
    spread = sum((at - middle_at) ** 2 for at, _ in half)
    if spread:
        return 3600 * sum((at - middle_at) * (mib - middle) for at, mib in half) / spread
    return None


def _latency_row(key: str, label: str, seconds: list[float], fraction: float) -> FigureRow:
    found = percentile(seconds, fraction)
    return FigureRow(key, label, "ms", {"ours": None if found is None else 1000 * found})


def _pair_by_chat(run: SoakRun) -> tuple[list[list[int]], list[list[int]]]:
    chats = sorted(run.question_numbers)
    return [run.question_numbers[chat] for chat in chats], [
        run.answer_numbers.get(chat, []) for chat in chats
    ]


def _count_errors(question_numbers: list[int], answer_numbers: list[int]) -> tuple[int, int, int]:
    """How many questions were lost, how many answers came twice, and how many stand before an earlier one."""
    times = Counter(answer_numbers)
    lost = sum(times[number] == 0 for number in question_numbers)
    copies = sum(times[number] - 1 for number in times)
    disorder = sum(later < earlier for earlier, later in pairwise(answer_numbers))
    return lost, copies, disorder


async def _write_questions(stage: Stage, run: SoakRun, chat: int, started_at: float, seconds: float) -> None:
    asked = run.question_numbers.setdefault(chat, [])
    number = chat * NUMBERS_PER_CHAT
    while monotonic() - started_at < seconds:
        number += 1
        asked.append(number)
        update = stage.write_question(number, chat)
        try:
            async with asyncio.timeout(LOST):
                await stage.wait_for_answer(number, chat)
        except TimeoutError:
            continue  # it counts as lost, and the next is written
        run.answers.append(
            SoakAnswer(monotonic() - started_at, stage.read_times(update, number, chat).round_trip_seconds)
        )


async def _sample_memory(stage: Stage, run: SoakRun, started_at: float, seconds: float) -> None:
    while (at := monotonic() - started_at) < seconds:
        held = stage.process.read_memory().resident_mib
        if held is not None:
            run.memory_samples.append((at, held))
        await asyncio.sleep(seconds / MEMORY_SAMPLES)


def _read_answer_numbers(stage: Stage, chat: int) -> list[int]:
    said = (
        _ANSWER_NUMBER.search(message.text) for message in stage.api.chat(FIRST_CHAT_ID + chat).bot_messages
    )
    return [int(found[1]) for found in said if found]
