"""The terminal of the command line: output, questions, progress, and the signals that end a command.

Owns the terminal and the exit after a signal; the commands themselves know neither.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import typer

from bot.errors import QuestionRefused
from bot.tables import Line

GRACE_SECONDS = 9.5  # a stop may take this long; supervisors kill at ten

Work = Callable[[asyncio.Event], Awaitable[int]]
"""The work of a long command: runs until it ends or the event is set, and returns the exit code."""


def show_progress(done: int, total: int, label: str) -> None:
    """Show progress in a line that is overwritten; nothing if stderr is no terminal."""
    if sys.stderr.isatty():
        line = f"{done}/{total} {label}" if done < total else ""
        typer.echo(f"\r\x1b[K{line}", nl=False, err=True)


def write_output(output: str | Iterable[Line], path: Path | None = None) -> None:
    """Print the output, or write it to a file (mode 0600). Raises QuestionRefused.

    Lines and tables are laid out for the terminal or for a file; a whole text stays as it is.
    """
    text = output if isinstance(output, str) else _lay_out(output, path)
    if path is None:
        typer.echo(text)
        return
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            file.write(f"{text}\n".encode())
    except OSError as error:
        raise QuestionRefused(f"{path} cannot be written: {error.strerror}.") from None


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _lay_out(lines: Iterable[Line], path: Path | None = None) -> str:
    from bot.tables.layout import build_console, format_lines

    console = build_console(is_terminal=path is None and _is_terminal())
    return "\n".join(format_lines(lines, console))


class TerminalPrompter:
    """Asks the user at the terminal; asks nobody when `silent`."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    def say(self, line: str) -> None:
        write_output(line.splitlines())

    def ask(self, question: str, *, hidden: bool = False) -> str | None:
        if self._silent:
            return None
        with _default_interrupt():
            return str(typer.prompt(_lay_out(question.splitlines()), hide_input=hidden))

    def choose(self, question: str, default: str) -> str:
        if self._silent:
            return default
        with _default_interrupt():
            return str(typer.prompt(_lay_out(question.splitlines()), default=default))


@contextlib.contextmanager
def _default_interrupt() -> Iterator[None]:
    """Let Ctrl-C end a prompt, which asyncio's own handler would not."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


async def run_until_signal(work: Work, *, grace_seconds: float = GRACE_SECONDS) -> int:
    """Run `work` with an event that SIGTERM and Ctrl-C set, and return its exit code.

    A second signal, or `grace_seconds` after the first, ends the process at once.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()
        # Work that still hangs then is stored, and continues at the next start.
        loop.call_later(grace_seconds, os._exit, 1)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return await work(stop)
