"""A long run of many chats: whether every message is answered once and in order, and how figures drift.

Latency, memory, descriptors and threads are compared over time. Owns the people who write; each writes again
as soon as the answer has come.
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
LOST_SECONDS = 25.0  # without an answer, after which a message counts as lost
SAMPLES = 120  # of memory, descriptors and threads, over the whole run
WARM_UP_SECONDS = 300.0  # in which caches and pools fill; of a shorter run its first half
NUMBERS_PER_CHAT = 10_000_000  # of questions, from one chat to the next

_ANSWER_NUMBER = re.compile(r"This was answer (\d+)\.$")


@dataclass(frozen=True, slots=True)
class SoakAnswer:
    """An answer: seconds since the start of the run, and its round trip."""

    elapsed_seconds: float
    round_trip_seconds: float


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """What the process holds, seconds since the start of the run; None where the machine does not say."""

    elapsed_seconds: float
    resident_mib: float | None
    descriptors: int | None
    threads: int | None


@dataclass(slots=True)
class SoakRun:
    """What was seen in a run.

    `question_numbers` and `answer_numbers` are by chat, in order, as Telegram has them.
    """

    question_numbers: dict[int, list[int]] = field(default_factory=dict)
    answer_numbers: dict[int, list[int]] = field(default_factory=dict)
    answers: list[SoakAnswer] = field(default_factory=list)
    samples: list[ResourceSample] = field(default_factory=list)


async def measure_soak(folder: Path, minutes: float) -> list[FigureRow]:
    """Rows over so many minutes."""
    endpoint = SimulatedEndpoint(timing=Timing.canvas(CANVAS_SECONDS), seats=SEATS, brain=ProseBrain())
    async with open_stage("ours", folder, endpoint) as stage:
        await stage.start()
        run = SoakRun()
        started_at = monotonic()
        async with asyncio.TaskGroup() as tasks:
            for chat in range(CHATS):
                tasks.create_task(_write_questions(stage, run, chat, started_at, 60 * minutes))
            tasks.create_task(_sample_resources(stage, run, started_at, 60 * minutes))
        run.answer_numbers = {chat: _read_answer_numbers(stage, chat) for chat in range(CHATS)}
    return build_rows(run, minutes)


def build_rows(run: SoakRun, minutes: float) -> list[FigureRow]:
    """The figures of a run."""
    lost, copies, disorder = (
        sum(counts) for counts in zip(*map(_count_errors, *_pair_by_chat(run)), strict=True)
    )
    tenth = 6 * minutes
    first = [answer.round_trip_seconds for answer in run.answers if answer.elapsed_seconds <= tenth]
    last = [
        answer.round_trip_seconds for answer in run.answers if answer.elapsed_seconds >= 60 * minutes - tenth
    ]
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
        *build_resource_rows(run.samples, min(WARM_UP_SECONDS, 30 * minutes)),
    ]


def build_resource_rows(samples: Sequence[ResourceSample], warm_up_seconds: float) -> list[FigureRow]:
    """What the process holds after the warm-up, at most and at the end, and its growth from then on."""
    rows: list[FigureRow] = []
    for key, name, unit, digits in (
        ("resident_mib", "memory", "MiB", 1),
        ("descriptors", "open descriptors", "", 0),
        ("threads", "threads", "", 0),
    ):
        values = [
            (sample.elapsed_seconds, float(value))
            for sample in samples
            if sample.elapsed_seconds >= warm_up_seconds and (value := getattr(sample, key)) is not None
        ]
        figures = (
            ("first", f"{name} after {warm_up_seconds / 60:g} min", unit, values[0][1] if values else None),
            ("most", f"{name}, most after that", unit, max((value for _, value in values), default=None)),
            ("last", f"{name} at the end", unit, values[-1][1] if values else None),
            ("growth", f"growth of {name} after that", f"{unit}/h", compute_growth(values)),
        )
        rows += [
            FigureRow(f"soak_{key}_{suffix}", label, figure_unit, {"ours": figure}, digits=digits)
            for suffix, label, figure_unit, figure in figures
        ]
    return rows


def compute_growth(samples: Sequence[tuple[float, float]]) -> float | None:
    """How much a value grows an hour, by linear regression over (seconds, value); None of too few samples."""
    if len(samples) < 2:
        return None
    mean_seconds = sum(seconds for seconds, _ in samples) / len(samples)
    mean_value = sum(value for _, value in samples) / len(samples)
    spread = sum((seconds - mean_seconds) ** 2 for seconds, _ in samples)
    if not spread:
        return None
    covariance = sum((seconds - mean_seconds) * (value - mean_value) for seconds, value in samples)
    return 3600 * covariance / spread


def _latency_row(key: str, label: str, round_trips: list[float], fraction: float) -> FigureRow:
    value = percentile(round_trips, fraction)
    if value is not None:
        value = 1000 * value
    return FigureRow(key, label, "ms", {"ours": value})


def _pair_by_chat(run: SoakRun) -> tuple[list[list[int]], list[list[int]]]:
    chats = sorted(run.question_numbers)
    questions = [run.question_numbers[chat] for chat in chats]
    answers = [run.answer_numbers.get(chat, []) for chat in chats]
    return questions, answers


def _count_errors(question_numbers: list[int], answer_numbers: list[int]) -> tuple[int, int, int]:
    """How many questions were lost, how many answers came twice, and how many stand before an earlier one."""
    counts = Counter(answer_numbers)
    lost = sum(counts[number] == 0 for number in question_numbers)
    copies = sum(counts[number] - 1 for number in counts)
    disorder = sum(later < earlier for earlier, later in pairwise(answer_numbers))
    return lost, copies, disorder


async def _write_questions(stage: Stage, run: SoakRun, chat: int, started_at: float, seconds: float) -> None:
    question_numbers = run.question_numbers.setdefault(chat, [])
    number = chat * NUMBERS_PER_CHAT
    while monotonic() - started_at < seconds:
        number += 1
        question_numbers.append(number)
        update = stage.write_question(number, chat)
        try:
            async with asyncio.timeout(LOST_SECONDS):
                await stage.wait_for_answer(number, chat)
        except TimeoutError:
            continue  # it counts as lost, and the next is written
        round_trip = stage.read_times(update, number, chat).round_trip_seconds
        run.answers.append(SoakAnswer(monotonic() - started_at, round_trip))


async def _sample_resources(stage: Stage, run: SoakRun, started_at: float, seconds: float) -> None:
    process = stage.process
    while (elapsed := monotonic() - started_at) < seconds:
        memory = process.read_memory()
        run.samples.append(
            ResourceSample(elapsed, memory.resident_mib, process.count_descriptors(), process.count_threads())
        )
        await asyncio.sleep(seconds / SAMPLES)


def _read_answer_numbers(stage: Stage, chat: int) -> list[int]:
    matches = (
        _ANSWER_NUMBER.search(message.text) for message in stage.api.chat(FIRST_CHAT_ID + chat).bot_messages
    )
    return [int(match[1]) for match in matches if match]
