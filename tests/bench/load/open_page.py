"""The admins' page on a large ledger: how much it slows replies, and how long each screen takes."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.admin.filters import PERIODS
from bot.admin.screens import load_screens
from bot.bench.harness.statistics import median, percentile
from bot.db.people.page_sessions import ADMIN_PATH
from tests.bench.harness.figures import FigureRow, limit_to
from tests.bench.harness.page_viewer import PageViewer, build_page_settings, list_paths, open_page
from tests.bench.harness.stage import AnswerTimes, Stage, open_stage
from tests.bench.harness.workload import ProseBrain
from tests.bench.load.large_ledger import provide_full_ledger
from tests.bench.load.latency import CHATS, ask_in_a_row
from tests.support.endpoint.server import ScriptedEndpoint

SLICE_MESSAGES = 25  # some two seconds, or one screen; the load of a machine changes slower than that
PAIRS = 40  # for a hundred messages; each is a slice with the page closed and one with it open
MAX_SLOWDOWN = 1.03
MAX_SCREEN_SECONDS = 0.5
MAX_LONG_SCREEN_SECONDS = 2.5  # of more than 200,000 calls, which a million of 90 days has in 30 days
_LONG_PERIODS = ("period=30d", "period=90d")
FIRST_QUESTION = 500_000
# In addition to the screens as they open: their other tables, and what comes of one click in a table.
_FURTHER_PATHS = (
    *(f"{ADMIN_PATH}/usage/table?by={by}" for by in ("chat", "model", "tool", "purpose", "user-model")),
    *(
        f"{ADMIN_PATH}/{path}?{chosen}"
        for chosen in ("model=model 1", "purpose=turn", "thinking=yes", "tool=tool 1", "user=1")
        for path in ("usage", "usage/table")
    ),
)


@dataclass(frozen=True, slots=True)
class PageSlice:
    """Replies in a row; `cpu_seconds` are those of the gateway meanwhile, the page's own among them."""

    times: Sequence[AnswerTimes]
    seconds: float
    cpu_seconds: float

    @property
    def own_milliseconds(self) -> list[float]:
        """Own time of each reply."""
        return [1000 * answer.own_seconds for answer in self.times]

    @property
    def load(self) -> float:
        """Processor time, in milliseconds a second."""
        return 1000 * self.cpu_seconds / self.seconds


async def measure_open_page(folder: Path, messages: int, model_calls: int) -> list[FigureRow]:
    """Rows of own time with the page closed and open, one of each for each pair of slices."""
    database_file = await provide_full_ledger(folder, model_calls)
    settings = build_page_settings()
    slice_messages = min(messages, SLICE_MESSAGES)
    rows: list[FigureRow] = []
    async with open_stage("ours", folder / "full", _build_endpoint(), settings=settings) as stage:
        await stage.start()
        await ask_in_a_row(stage, range(FIRST_QUESTION - CHATS, FIRST_QUESTION))
        async with open_page(database_file, settings, list_paths(load_screens())) as viewer:
            await viewer.open_all()
            for number in range(max(1, messages * PAIRS // 100)):
                first = FIRST_QUESTION + 2 * number * slice_messages
                slices: dict[bool, PageSlice] = {}
                # Closed, open, open, closed: drift of the machine affects both alike.
                for position, is_open in enumerate((number % 2 == 1, number % 2 == 0)):
                    begin = first + position * slice_messages
                    questions = range(begin, begin + slice_messages)
                    slices[is_open] = await _ask(stage, questions, viewer if is_open else None)
                rows += build_rows(slices[False], slices[True], model_calls)
    return rows


async def _ask(stage: Stage, questions: range, viewer: PageViewer | None) -> PageSlice:
    """Ask in a row; with a viewer, somebody looks at the page meanwhile."""
    began_at = time.monotonic()
    cpu_before = stage.process.read_cpu_seconds() or 0.0
    async with asyncio.TaskGroup() as tasks:
        watching = None if viewer is None else tasks.create_task(viewer.watch())
        times = await ask_in_a_row(stage, questions)
        if watching is not None:
            watching.cancel()
    cpu_seconds = (stage.process.read_cpu_seconds() or 0.0) - cpu_before
    return PageSlice(times, time.monotonic() - began_at, cpu_seconds)


def build_rows(closed: PageSlice, opened: PageSlice, model_calls: int) -> list[FigureRow]:
    """The figures of one pair; those of all pairs have the same keys, and are told by their median."""
    closed_p50 = _find_percentile(closed, 0.5)
    open_p50 = _find_percentile(opened, 0.5)
    mean_ratio = sum(opened.own_milliseconds) / sum(closed.own_milliseconds)
    mean_ratio *= len(closed.times) / len(opened.times)
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
        FigureRow("page_slower_mean", "the same of the means", "x", {"ours": mean_ratio}, digits=3),
        FigureRow(
            "page_cpu", "processor time of the page a second", "ms", {"ours": opened.load - closed.load}
        ),
    ]


def _find_percentile(page_slice: PageSlice, fraction: float) -> float:
    return percentile(page_slice.own_milliseconds, fraction) or 0.0


async def measure_screens(folder: Path, openings: int, model_calls: int) -> list[FigureRow]:
    """Rows of the seconds of each screen over each period, opened so often, while nobody writes."""
    database_file = await provide_full_ledger(folder, model_calls)
    settings = build_page_settings()
    paths = list(list_screens())
    rows: list[FigureRow] = []
    async with open_stage("ours", folder / "full", _build_endpoint(), settings=settings) as stage:
        await stage.start()
        async with open_page(database_file, settings, paths) as viewer:
            for path in paths:
                cpu_before = stage.process.read_cpu_seconds() or 0.0
                for _ in range(openings):
                    await viewer.open(path)
                cpu_seconds = ((stage.process.read_cpu_seconds() or 0.0) - cpu_before) / openings
                rows += build_screen_rows(path, median(viewer.seconds[path]) or 0.0, cpu_seconds)
    return rows


def list_screens() -> Iterator[str]:
    """The addresses of all screens over all periods."""
    for period in PERIODS:
        yield from list_paths(load_screens(), period)
        yield from (f"{path}&period={period}" for path in _FURTHER_PATHS)


def build_screen_rows(path: str, seconds: float, cpu_seconds: float) -> list[FigureRow]:
    """The rows of one screen over one period."""
    limit = limit_to(MAX_LONG_SCREEN_SECONDS if path.endswith(_LONG_PERIODS) else MAX_SCREEN_SECONDS)
    return [
        FigureRow(f"screen {path}", path, "s", {"ours": seconds}, limit, digits=2),
        FigureRow(f"screen_cpu {path}", "processor time", "s", {"ours": cpu_seconds}, digits=2),
    ]


def _build_endpoint() -> ScriptedEndpoint:
    return ScriptedEndpoint(brain=ProseBrain())
