"""Runs a measurement on the terminal: progress bars, then the result, printed and written to files."""

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bot.bench.endpoint.output import format_json, format_lines, format_markdown
from bot.bench.endpoint.result import BenchResult
from bot.bench.harness import progress
from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.harness.progress import ProgressCallback
from bot.tables import Line

FILE_NAME = "canvasgram-bench"
NO_CHARTS = "The picture cannot be drawn here: add it with `uv sync --extra bench`, or leave out --out."


def _is_matplotlib_installed() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


MeasureEndpoint = Callable[[asyncio.Event, ProgressCallback], Awaitable[BenchResult]]


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a result is shown.

    `print_result` gets lines and tables, or JSON; files go to `folder`, and `print_note` names them.
    `compare`: with what others have published.
    """

    print_result: Callable[[str | Iterable[Line]], None]
    print_note: Callable[[str], None]
    folder: Path | None = None
    as_json: bool = False
    compare: bool = False
    can_draw_charts: bool = field(default_factory=_is_matplotlib_installed)


async def run_and_print(measure: MeasureEndpoint, options: OutputOptions, stop: asyncio.Event) -> int:
    """Measure until all is done or `stop` is set, and show what was measured in any case.

    Returns the exit code. Raises BenchFailed before anything is measured if a chart is wanted that cannot be
    drawn.
    """
    if options.folder is not None and not options.can_draw_charts:
        raise BenchFailed(NO_CHARTS)
    with progress.progress_bars() as step:
        result = await measure(stop, step)
    if options.as_json:
        options.print_result(format_json(result))
    else:
        options.print_result(format_lines(result, compare=options.compare))
    if options.folder is not None:
        for file in write_files(result, options.folder):
            options.print_note(f"written: {file}")
    return result.exit_code


def write_files(result: BenchResult, folder: Path) -> list[Path]:
    """Write JSON, a Markdown page and the chart, and return the files.

    There is no chart where there is nothing to draw. Raises BenchFailed.
    """
    data = folder / f"{FILE_NAME}.json"
    page = folder / f"{FILE_NAME}.md"
    picture = folder / f"{FILE_NAME}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        data.write_text(format_json(result) + "\n", encoding="utf-8")
        page.write_text("\n".join(format_markdown(result)) + "\n", encoding="utf-8")
        from bot.bench.endpoint.chart import draw_chart  # late: matplotlib takes a second to import

        is_drawn = draw_chart(result, picture)
    except OSError as error:
        raise BenchFailed(f"{folder} cannot be written: {error.strerror}.") from None
    if is_drawn:
        return [data, page, picture]
    return [data, page]
