"""Where commands are typed: what is shown there, asked there, and the signals that end what runs.

Owns the terminal and the exit of a process that is told to end; the commands themselves know neither.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import typer

from bot.errors import QuestionRefused

GRACE_SECONDS = 9.5  # seconds a stop may take; supervisors kill at ten

Work = Callable[[asyncio.Event], Awaitable[int]]
"""What a command leaves to be done until it ends or the event is set; returns the exit code."""


def show_progress(done: int, total: int, label: str) -> None:
    """Show how far something is, in a line that goes away; nothing where nobody looks."""
    if sys.stderr.isatty():
        line = f"{done}/{total} {label}" if done < total else ""
        typer.echo(f"\r\x1b[K{line}", nl=False, err=True)


def write_output(output: str | bytes, path: Path | None) -> None:
    """Print an answer, or write it to a file only its owner may read."""
    if path is None and isinstance(output, bytes) and _is_terminal():
        raise QuestionRefused("A picture is no text for a terminal. Example: --format png --out report.png")
    if path is None:
        typer.echo(output, nl=isinstance(output, str))
        return
    body = output if isinstance(output, bytes) else f"{output}\n".encode()
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            file.write(body)
    except OSError as error:
        raise QuestionRefused(f"{path} cannot be written: {error.strerror}.") from None


def _is_terminal() -> bool:
    return sys.stdout.isatty()


class TerminalPrompter:
    """The person at the terminal, or nobody when `silent`."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    def say(self, line: str) -> None:
        typer.echo(line)

    def ask(self, question: str, *, hidden: bool = False) -> str | None:
        if self._silent:
            return None
        before = signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # asyncio's own would not end the waiting
        try:
            return str(typer.prompt(question, hide_input=hidden))
        finally:
            signal.signal(signal.SIGINT, before)


async def run_until_signal(work: Work) -> int:
    """Do `work` with an event that SIGTERM and Ctrl-C set; a second signal, or GRACE after the first, ends it
    all.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()
        loop.call_later(
            GRACE_SECONDS, os._exit, 1
        )  # whatever still hangs is stored, and goes on at the next start

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return await work(stop)
