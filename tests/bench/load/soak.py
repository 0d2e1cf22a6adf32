"""`bench soak`: a long run of many chats, for lost or repeated answers and for drift.

Latency, memory, descriptors and threads are compared over time. Owns the people who write; each writes again
as soon as the answer has come.
"""

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic

from bot.bench.endpoint.direct import run_until_stopped
from bot.bench.harness import machine
from bot.bench.harness.statistics import percentile
from bot.sim.vllm.server import Timing
from tests.bench.harness import disk
from tests.bench.harness.figures import FigureRow, LoadReport, limit_to, merge_runs
from tests.bench.harness.page_viewer import build_page_settings
from tests.bench.harness.stage import FIRST_CHAT_ID, Stage, open_stage
from tests.bench.harness.workload import ProseBrain, find_answer_number
from tests.bench.load.first_uses import use_all_parts
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.machine import describe_machine

CHATS = 12
SEATS = 4
CANVAS_SECONDS = 0.05
LOST_SECONDS = 25.0  # without an answer, after which a message counts as lost
SAMPLE_SECONDS = 5.0  # from one look at memory, descriptors and threads to the next
WARM_UP_SECONDS = 300.0  # in which caches and pools fill; of a shorter run its first half
CURVE_POINTS = 6
NUMBERS_PER_CHAT = 10_000_000  # of questions, from one chat to the next

MAX_GROWTH_MIB = 2.0
MAX_MORE_DESCRIPTORS = 0
MAX_MORE_THREADS = 0


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
    seconds: float = 0.0


async def run_soak(minutes: float, stop: asyncio.Event, *, folder: Path | None = None) -> LoadReport:
    """Load the gateway for so many minutes, or until `stop` is set; what was seen by then is reported."""
    run = SoakRun()
    with tempfile.TemporaryDirectory(prefix="canvasgram-soak-", dir=folder) as temporary_folder:
        database_folder = Path(temporary_folder)
        conditions = [*describe_machine(), *disk.describe_database(database_folder)]
        conditions.append(("load before", machine.describe_load()))
        is_complete = await run_until_stopped(stop, _load_gateway(run, database_folder, 60 * minutes))
    conditions += [
        ("load after", machine.describe_load()),
        ("soak", _describe_soak(run)),
        ("before it", "every system job, every screen of the page, `/usage all` and `/remind`, once"),
        *describe_curve(run),
    ]
    return LoadReport(merge_runs(build_rows(run)), tuple(conditions), is_complete)


async def _load_gateway(run: SoakRun, folder: Path, seconds: float) -> None:
    endpoint = ScriptedEndpoint(timing=Timing.canvas(CANVAS_SECONDS), seats=SEATS, brain=ProseBrain())
    settings = build_page_settings()
    async with open_stage("ours", folder, endpoint, settings=settings) as stage:
        await stage.start()
        await use_all_parts(stage, folder / "ours" / "canvasgram.db", settings)
        started_at = monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_sample_resources(stage, run, started_at, seconds))
                for chat in range(CHATS):
                    tasks.create_task(_write_questions(stage, run, chat, started_at, seconds))
        finally:
            run.seconds = monotonic() - started_at
            run.answer_numbers = {chat: _read_answer_numbers(stage, chat) for chat in run.question_numbers}


async def _write_questions(stage: Stage, run: SoakRun, chat: int, started_at: float, seconds: float) -> None:
    question_numbers = run.question_numbers.setdefault(chat, [])
    number = chat * NUMBERS_PER_CHAT
    while monotonic() - started_at < seconds:
        number += 1
        update = stage.write_question(number, chat)
        with contextlib.suppress(TimeoutError):  # it counts as lost, and the next is written
            async with asyncio.timeout(LOST_SECONDS):
                await stage.wait_for_answer(number)
            round_trip = stage.read_times(update, number, chat).round_trip_seconds
            run.answers.append(SoakAnswer(monotonic() - started_at, round_trip))
        question_numbers.append(number)


async def _sample_resources(stage: Stage, run: SoakRun, started_at: float, seconds: float) -> None:
    process = stage.process
    while (elapsed := monotonic() - started_at) < seconds:
        run.samples.append(
            ResourceSample(
                elapsed, process.read_resident_mib(), process.count_descriptors(), process.count_threads()
            )
        )
        await asyncio.sleep(min(SAMPLE_SECONDS, seconds / CURVE_POINTS))


def _read_answer_numbers(stage: Stage, chat: int) -> list[int]:
    numbers = (
        find_answer_number(message.text) for message in stage.api.chat(FIRST_CHAT_ID + chat).bot_messages
    )
    return [number for number in numbers if number is not None]


def build_rows(run: SoakRun) -> list[FigureRow]:
    """The figures of a run."""
    lost = copies = disorder = 0
    for chat, question_numbers in run.question_numbers.items():
        answer_numbers = run.answer_numbers.get(chat, [])
        counts = Counter(answer_numbers)
        lost += sum(counts[number] == 0 for number in question_numbers)
        copies += sum(count - 1 for count in counts.values())
        disorder += sum(later < earlier for earlier, later in pairwise(answer_numbers))
    tenth = run.seconds / 10
    first = [answer.round_trip_seconds for answer in run.answers if answer.elapsed_seconds <= tenth]
    last = [
        answer.round_trip_seconds for answer in run.answers if answer.elapsed_seconds >= run.seconds - tenth
    ]
    return [
        _build_row("answers", f"{run.seconds / 60:.1f} min of steady load: answers", "", len(run.answers)),
        _build_row("lost", "messages without an answer", "", lost, maximum=0),
        _build_row("copies", "answers given twice", "", copies, maximum=0),
        _build_row("order", "answers out of order in their chat", "", disorder, maximum=0),
        _build_row("first_p50", "round trip in the first tenth, p50", "ms", _milliseconds(first, 0.5)),
        _build_row("last_p50", "round trip in the last tenth, p50", "ms", _milliseconds(last, 0.5)),
        _build_row("last_p95", "round trip in the last tenth, p95", "ms", _milliseconds(last, 0.95)),
        *build_resource_rows(run.samples, min(WARM_UP_SECONDS, run.seconds / 2)),
    ]


def build_resource_rows(samples: Sequence[ResourceSample], warm_up_seconds: float) -> list[FigureRow]:
    """The least that the process holds in the fifth after the warm-up, and how much more in the last one.

    The least, since what comes and goes with the load is no growth.
    """
    later = [sample for sample in samples if sample.elapsed_seconds >= warm_up_seconds]
    size = max(1, len(later) // 5)
    rows = []
    for key, label, unit, read, limit in _RESOURCES:
        before = _find_least(later[:size], read)
        after = _find_least(later[-size:], read)
        growth = None if before is None or after is None else after - before
        rows += [
            _build_row(key, f"{label} after {warm_up_seconds / 60:.1f} min", unit, before),
            _build_row(f"{key}_growth", f"{label} at the end, more than that", unit, growth, maximum=limit),
        ]
    return rows


def describe_curve(run: SoakRun) -> Iterator[tuple[str, str]]:
    """What the process held at a few moments of the run, as (name, text)."""
    step = max(1, len(run.samples) // CURVE_POINTS)
    points = run.samples[step - 1 :: step]
    yield "curve, min", " · ".join(f"{sample.elapsed_seconds / 60:.1f}" for sample in points)
    for _, label, unit, read, _ in _RESOURCES:
        values = (read(sample) for sample in points)
        yield (
            f"{label}, {unit}" if unit else label,
            " · ".join("-" if value is None else f"{value:.0f}" for value in values),
        )


def _describe_soak(run: SoakRun) -> str:
    per_second = len(run.answers) / run.seconds if run.seconds else 0.0
    return (
        f"{CHATS} chats, {SEATS} seats, {CANVAS_SECONDS:g} s a canvas; each writes as soon as it is "
        f"answered: {per_second:.1f} answers a second"
    )


_RESOURCES: tuple[tuple[str, str, str, Callable[[ResourceSample], float | None], float], ...] = (
    ("memory", "memory", "MiB", lambda sample: sample.resident_mib, MAX_GROWTH_MIB),
    ("descriptors", "open descriptors", "", lambda sample: sample.descriptors, MAX_MORE_DESCRIPTORS),
    ("threads", "threads", "", lambda sample: sample.threads, MAX_MORE_THREADS),
)


def _build_row(
    key: str, label: str, unit: str, value: float | None, *, maximum: float | None = None
) -> FigureRow:
    limit = None if maximum is None else limit_to(maximum)
    return FigureRow(f"soak_{key}", label, unit, {"ours": value}, limit, digits=1 if unit else 0)


def _milliseconds(round_trips: list[float], fraction: float) -> float | None:
    seconds = percentile(round_trips, fraction)
    return None if seconds is None else 1000 * seconds


def _find_least(
    samples: Sequence[ResourceSample], read: Callable[[ResourceSample], float | None]
) -> float | None:
    values = [value for sample in samples if (value := read(sample)) is not None]
    return min(values, default=None)
