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
from bot.bench.endpoint.result import Result
from bot.bench.harness import progress
from bot.bench.harness.progress import Step

Work = Callable[[asyncio.Event, Step], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Form:
    """How a result is told: by `say`, as tables or as JSON; files go to the folder `out`, and `note` names
    them.
    """

    say: Callable[[str], None]
    note: Callable[[str], None]
    out: Path | None = None
    as_json: bool = False


async def tell(work: Work, form: Form, stop: asyncio.Event) -> int:
    """Measure until all is done or `stop` is set; what was found is told in any case. Returns the exit code."""
    with progress.bars() as step:
        result = await work(stop, step)
    form.say(result_json.as_json(result) if form.as_json else "\n".join(result_table.lines(result)))
    for file in result_files.write(result, form.out) if form.out else ():
        form.note(f"written: {file}")
    return result.exit_code
