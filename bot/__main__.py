"""The commands: `setup`, `run`, `demo`, `bench …`, `migrate`. Owns what is printed, signals and exit codes.

A command imports its rooms when it is called, so that each starts as fast as what it needs.
"""

import asyncio
import functools
import gc
import importlib.metadata
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from bot.errors import CanvasgramError, SettingsRefused

GRACE = 9.5  # seconds a stop may take; supervisors kill at ten

cli = typer.Typer(
    help="A Telegram agent gateway for DiffusionGemma served by vLLM.",
    epilog="`canvasgram demo` needs nothing. For real use: `canvasgram setup`, then `canvasgram run`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # they print local variables, and those hold the token
)
bench = typer.Typer(help="Measure the gateway on this machine.", no_args_is_help=True, rich_markup_mode=None)
cli.add_typer(bench, name="bench")

EnvFile = Annotated[Path, typer.Option(help="The file of settings; the environment goes before it.")]


def main() -> None:
    """Run the command line and end the process: 0 it worked, 1 it failed, 2 a setting or an option is wrong."""
    try:
        cli(prog_name="canvasgram")
    except Exception as error:
        known = _of_the_house(error)
        if known is None:
            logging.getLogger(__name__).critical("stopped by a fault of its own", exc_info=True)
            sys.exit(1)
        typer.echo(" ".join(str(known).split()), err=True)  # one line, whatever its text
        sys.exit(2 if isinstance(known, SettingsRefused) else 1)


@cli.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"canvasgram {importlib.metadata.version('canvasgram')}")
        raise typer.Exit


@cli.command(
    epilog="Example without questions: canvasgram setup --yes --token 1234567890:AAE… --model-url http://gpu:8000/v1"
)
def setup(
    token: Annotated[str | None, typer.Option(help="The bot's token from @BotFather.")] = None,
    model_url: Annotated[str | None, typer.Option(help="The endpoint, such as http://localhost:8000/v1.")] = None,
    model_key: Annotated[str | None, typer.Option(help="The endpoint's key, if it wants one.")] = None,
    database: Annotated[str | None, typer.Option(help="Such as sqlite+aiosqlite:///canvasgram.db.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; end with one line if something is missing.")] = False,
    env_file: EnvFile = Path(".env"),
) -> None:
    """Check token and endpoint, write `.env`, and print the link that makes you admin."""
    from bot.setup import FirstRun

    given = {"telegram_token": token, "model_url": model_url, "model_api_key": model_key, "database_url": database}
    chosen = {name: value for name, value in given.items() if value is not None}
    asyncio.run(FirstRun(env_file, _Terminal(silent=yes or not sys.stdin.isatty()), chosen).lead())


@cli.command(epilog="Examples: canvasgram run · LOG_FORMAT=json canvasgram run --env-file /etc/canvasgram.env")
def run(env_file: EnvFile = Path(".env")) -> None:
    """Run the gateway until SIGTERM or Ctrl-C; nothing is lost by either. A second Ctrl-C leaves at once."""
    from bot.settings import load

    settings = load(env_file)  # a wrong setting is said before the slow imports

    # What is imported stays: to look through it for garbage costs a fifth of the start and a twentieth of a reply.
    gc.disable()
    from bot import app, logs

    logs.configure(settings.log_level, settings.log_format, settings.secrets())
    gc.freeze()
    gc.enable()
    raise typer.Exit(asyncio.run(_until_stopped(functools.partial(app.run, settings, say=typer.echo))))


@cli.command(epilog='Examples: canvasgram demo · canvasgram demo --say "What is 19 % of 84.50?"')
def demo(
    model_url: Annotated[str | None, typer.Option(help="Talk to this endpoint instead of the simulated one.")] = None,
    model_key: Annotated[str | None, typer.Option(help="The key of that endpoint, if it wants one.")] = None,
    say: Annotated[str | None, typer.Option(help="Send this, print the exchange, and end.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the chat page; 0 takes a free one.")] = 0,
) -> None:
    """Try it without a token and without a GPU: a chat page on this machine, model and Telegram simulated."""
    from bot import demo as room

    work = functools.partial(room.run, model_url=model_url, model_key=model_key, say=say, port=port)
    raise typer.Exit(asyncio.run(_until_stopped(work)))


@bench.command(epilog="Examples: canvasgram bench load · canvasgram bench load --only own,start --messages 300 --check")
def load(
    messages: Annotated[int, typer.Option(min=1, help="Messages a bot, for own time and processor time.")] = 120,
    only: Annotated[str, typer.Option(help="Some of the sections, such as own,start,crowd,words,tokens,faults.")] = "",
    folder: Annotated[
        Path | None, typer.Option(help="Where the database lies while measured; else a temporary folder.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: Annotated[bool, typer.Option("--check", help="End with 1 if a limit is missed.")] = False,
) -> None:
    """Drive the gateway over loopback, beside two yardsticks in the same run, and print where the time went."""
    from bot.bench import load as room
    from bot.bench import table

    wish = room.Wish(messages=messages, only=tuple(only.split(",")) if only else (), folder=folder)
    report = asyncio.run(room.run(wish, functools.partial(typer.echo, err=True)))
    typer.echo(table.as_json(report) if json else "\n".join(table.lines(report)))
    if check and not report.holds:
        raise typer.Exit(1)


@bench.command(
    epilog="Examples: canvasgram bench thinking --data cases · canvasgram bench thinking --data a --data b --json"
)
def thinking(
    data: Annotated[list[Path], typer.Option(help="A folder with cases.jsonl and tools.json; may be given again.")],
    train: Annotated[
        Path | None, typer.Option(help="Train on these cases, judge by folds, and write the weights there.")
    ] = None,
    costs: Annotated[bool, typer.Option(help="Play turns before the simulated endpoint, too.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Judge the choice to think: who needs tools, how fast it is told, and what it costs or saves."""
    from bot.bench import thinking as room
    from bot.bench import thinking_table

    wish = room.Wish(tuple(data), train, costs)
    report = asyncio.run(room.run(wish, functools.partial(typer.echo, err=True)))
    typer.echo(thinking_table.as_json(report) if json else "\n".join(thinking_table.lines(report)))


@cli.command(epilog="Example: canvasgram migrate")
def migrate(env_file: EnvFile = Path(".env")) -> None:
    """Bring the database to this version's schema, after a backup copy; `run` does it by itself."""
    from bot.db import migrating
    from bot.settings import load

    settings = load(env_file)
    migrating.migrate(settings.database_url)
    typer.echo(f"{settings.database_url} is up to date.")


class _Terminal:
    """The person at the terminal, or nobody when `silent`."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    def say(self, line: str) -> None:
        typer.echo(line)

    def ask(self, question: str, *, hidden: bool = False) -> str | None:
        if self._silent:
            return None
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio's own would not end the waiting
        try:
            return str(typer.prompt(question, hide_input=hidden))
        finally:
            signal.signal(signal.SIGINT, before)


async def _until_stopped(work: Callable[[asyncio.Event], Awaitable[int]]) -> int:
    """Do `work` with an event that SIGTERM and Ctrl-C set; a second signal, or GRACE after the first, ends it all."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()
        loop.call_later(GRACE, os._exit, 1)  # whatever still hangs is stored, and goes on at the next start

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return await work(stop)


def _of_the_house(error: Exception) -> CanvasgramError | None:
    """The error to tell a person, also out of task groups; None if anything else failed too."""
    if isinstance(error, CanvasgramError):
        return error
    if not isinstance(error, ExceptionGroup):
        return None
    found = [_of_the_house(one) for one in error.exceptions]
    return None if None in found else found[0]


if __name__ == "__main__":
    main()
