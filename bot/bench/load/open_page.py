"""The admins' page in the way of replies: own time with the page open and closed, on a large ledger."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bot.bench.harness.page_viewer import PageViewer, build_page_settings, open_page
from bot.bench.harness.stage import AnswerTimes, open_stage
from bot.bench.harness.statistics import FigureRow, limit_to, percentile
from bot.bench.harness.workload import ProseBrain
from bot.bench.load.large_ledger import provide_full_ledger
from bot.bench.load.latency import CHATS, ask_in_a_row
from bot.sim.vllm.server import SimulatedEndpoint

SLICE_MESSAGES = 50  # some four seconds: two screens each
SLICES_PER_STATE = 10  # for a hundred messages: one reply in twenty meets a screen
MAX_SLOWDOWN = 1.03
MAX_SCREEN_SECONDS = 0.5
FIRST_QUESTION = 500_000


async def measure_open_page(folder: Path, messages: int, model_calls: int) -> list[FigureRow]:
    """Rows of own time with the page closed and open, in turns, and of the slowest screen."""
    database_file = await provide_full_ledger(folder, model_calls)
    settings = build_page_settings()
    slice_messages = min(messages, SLICE_MESSAGES)
    slices = max(1, messages * SLICES_PER_STATE // 100)
    times: dict[str, list[AnswerTimes]] = {"closed": [], "open": []}
    endpoint = SimulatedEndpoint(brain=ProseBrain())
    async with open_stage("ours", folder / "full", endpoint, settings=settings) as stage:
        await stage.start()
        await ask_in_a_row(stage, range(FIRST_QUESTION - CHATS, FIRST_QUESTION))
        async with open_page(database_file, settings) as viewer:
            await viewer.open_all()
            for number in range(2 * slices):
                first = FIRST_QUESTION + number * slice_messages
                questions = range(first, first + slice_messages)
                # Closed, open, open, closed: drift of the machine affects both alike.
                if number % 4 in {1, 2}:
                    async with asyncio.TaskGroup() as tasks:
                        watching = tasks.create_task(viewer.watch())
                        times["open"] += await ask_in_a_row(stage, questions)
                        watching.cancel()
                else:
                    times["closed"] += await ask_in_a_row(stage, questions)
    return build_rows(times["closed"], times["open"], viewer, model_calls)


def build_rows(
    closed: Sequence[AnswerTimes], opened: Sequence[AnswerTimes], viewer: PageViewer, model_calls: int
) -> list[FigureRow]:
    """The figures; a ratio is of the medians."""
    closed_p50 = _find_percentile(closed, 0.5)
    open_p50 = _find_percentile(opened, 0.5)
    path, seconds = viewer.find_slowest()
    return [
        FigureRow(
            "page_closed", f"ledger of {model_calls:,} calls, page closed: p50", "ms", {"ours": closed_p50}
        ),
        FigureRow("page_open", "page open: own time, p50", "ms", {"ours": open_p50}),
        FigureRow("page_open_p95", "the same, p95", "ms", {"ours": _find_percentile(opened, 0.95)}),
        FigureRow(
            "page_slower",
            "open, of closed",
            "x",
            {"ours": open_p50 / closed_p50},
            limit_to(MAX_SLOWDOWN),
            digits=3,
        ),
        build_screen_row(path, seconds),
    ]


def build_screen_row(path: str, seconds: float) -> FigureRow:
    """The row of the slowest screen."""
    return FigureRow(
        "page_screen",
        f"slowest screen: {path}",
        "s",
        {"ours": seconds},
        limit_to(MAX_SCREEN_SECONDS),
        digits=2,
    )


def _find_percentile(times: Sequence[AnswerTimes], fraction: float) -> float:
    return 1000 * (percentile([answer.own_seconds for answer in times], fraction) or 0.0)
