"""Progress bars of the bench on stderr, so that what is printed can be piped; silent without a terminal.

Alone because it is the only part of the benches that knows rich's progress bars.
"""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

ProgressCallback = Callable[[str, int, int], None]
"""Called with what is measured, how much of it is done, and of how much."""


@contextlib.contextmanager
def progress_bars(console: Console | None = None) -> Iterator[ProgressCallback]:
    """A bar for each task that is reported, while the block runs."""
    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(complete_style="cyan"),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bars: dict[str, TaskID] = {}

        def step(task: str, done: int, total: int) -> None:
            if task not in bars:
                bars[task] = progress.add_task(task, total=total)
            progress.update(bars[task], completed=done)

        yield step
