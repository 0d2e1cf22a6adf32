"""Progress bars of the bench on the terminal, beside what is printed, so that this can be piped. Else silent."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

ProgressCallback = Callable[[str, int, int], None]
"""Told what is measured, how much of it is done, and of how much."""


@contextlib.contextmanager
def progress_bars(console: Console | None = None) -> Iterator[ProgressCallback]:
    """A bar for everything that is begun, while the block runs."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        known: dict[str, TaskID] = {}

        def step(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = progress.add_task(what, total=total)
            progress.update(known[what], completed=done)

        yield step
