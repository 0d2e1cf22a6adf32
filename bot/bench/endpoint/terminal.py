"""Leads a measurement on the terminal: bars while it runs, then what was found, printed and written; its exit
code.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bot.bench.endpoint import files as result_files
from bot.bench.endpoint import json_output as result_json
from bot.bench.endpoint import output as result_table
from bot.bench.endpoint.result import BenchResult
from bot.bench.harness import progress
from bot.bench.harness.progress import ProgressCallback

MeasureEndpoint = Callable[[asyncio.Event, ProgressCallback], Awaitable[BenchResult]]


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a result is told: by `say`, as tables or as JSON; files go to the folder `out`, and `note` names
    them.
    """

    print_result: Callable[[str], None]
    print_note: Callable[[str], None]
    folder: Path | None = None
    as_json: bool = False


async def run_and_print(measure: MeasureEndpoint, options: OutputOptions, stop: asyncio.Event) -> int:
    """Measure until all is done or `stop` is set; what was found is told in any case. Returns the exit code."""
    with progress.progress_bars() as step:
        result = await measure(stop, step)
    options.print_result(
        result_json.format_json(result) if options.as_json else "\n".join(result_table.format_lines(result))
    )
    for file in result_files.write_files(result, options.folder) if options.folder else ():
        options.print_note(f"written: {file}")
    return result.exit_code
