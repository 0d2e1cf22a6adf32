"""The commands: `setup`, `run`, `demo`, `check`, `report`, `turn`, `jobs`, `restore`, `migrate`, `bench`,
`tools`.

Owns printing, signals and exit codes; the last two stand in their own rooms. A command imports its rooms when
it is called, so that each starts as fast as what it needs; one that a signal may stop returns what there is
to do.
"""

import asyncio
import functools
import gc
import importlib.metadata
import logging
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bot.bench.cli import bench
from bot.cli.tools.commands import tools
from bot.errors import CanvasgramError, QuestionRefused, SettingsRefused
from bot.terminal import TerminalPrompter, Work, run_until_signal, show_progress, write_output
from bot.usage.plain_text import escape_for_terminal


def _run_work(work: Work | None, **_: object) -> None:
    """Do what a command has left to be done until a signal stops it."""
    if work is not None:
        raise typer.Exit(asyncio.run(run_until_signal(work)))


cli = typer.Typer(
    help="A Telegram agent gateway for DiffusionGemma served by vLLM.",
    epilog="`canvasgram demo` needs nothing. For real use: `canvasgram setup`, then `canvasgram run`.",
    no_args_is_help=True,
    add_completion=False,
    result_callback=_run_work,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # they print local variables, and those hold the token
)
cli.add_typer(bench, name="bench")
cli.add_typer(tools, name="tools")
jobs = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
cli.add_typer(jobs, name="jobs")

EnvFile = Annotated[Path, typer.Option(help="The file of settings; the environment goes before it.")]


def main() -> None:
    """Run the command line and end the process: 0 it worked, 1 it failed, 2 a setting or an option is wrong."""
    try:
        cli(prog_name="canvasgram")
    except Exception as error:
        known = _unwrap_error(error)
        if known is None:
            logging.getLogger(__name__).critical("stopped by a fault of its own", exc_info=True)
            sys.exit(1)
        typer.echo(escape_for_terminal(" ".join(str(known).split())), err=True)  # one line, whatever its text
        sys.exit(2 if isinstance(known, SettingsRefused | QuestionRefused) else 1)


@cli.callback(invoke_without_command=True)
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", is_eager=True)
    ] = False,
) -> None:
    if version:
        typer.echo(f"canvasgram {importlib.metadata.version('canvasgram')}")
        raise typer.Exit


@cli.command(
    epilog="Example without questions: canvasgram setup --yes --token 1234567890:AAE… --model-url http://gpu:8000/v1"
)
def setup(
    token: Annotated[str | None, typer.Option(help="The bot's token from @BotFather.")] = None,
    model_url: Annotated[
        str | None, typer.Option(help="The endpoint, such as http://localhost:8000/v1.")
    ] = None,
    model_key: Annotated[str | None, typer.Option(help="The endpoint's key, if it wants one.")] = None,
    database: Annotated[str | None, typer.Option(help="Such as sqlite+aiosqlite:///canvasgram.db.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing; end with one line if something is missing.")
    ] = False,
    env_file: EnvFile = Path(".env"),
) -> None:
    """Check token and endpoint, write `.env`, and print the link that makes you admin."""
    from bot.cli.setup import SetupWizard

    given = {
        "telegram_token": token,
        "model_url": model_url,
        "model_api_key": model_key,
        "database_url": database,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    asyncio.run(SetupWizard(env_file, TerminalPrompter(silent=yes or not sys.stdin.isatty()), chosen).run())


@cli.command(
    epilog="Examples: canvasgram run · LOG_FORMAT=json canvasgram run --env-file /etc/canvasgram.env"
)
def run(env_file: EnvFile = Path(".env")) -> Work:
    """Run the gateway until SIGTERM or Ctrl-C; nothing is lost by either. A second Ctrl-C leaves at once."""
    from bot.settings import load_settings

    settings = load_settings(env_file)  # a wrong setting is said before the slow imports

    # What is imported stays: to look through it for garbage costs a fifth of the start and a twentieth of a
    # reply.
    gc.disable()
    from bot import logs
    from bot.app import factory as app

    logs.configure(settings.log_level, settings.log_format, settings.list_secrets())
    gc.freeze()
    gc.enable()
    return functools.partial(app.run, settings, announce=typer.echo)


@cli.command(epilog='Examples: canvasgram demo · canvasgram demo --say "What is 19 % of 84.50?"')
def demo(
    model_url: Annotated[
        str | None, typer.Option(help="Talk to this endpoint instead of the simulated one.")
    ] = None,
    model_key: Annotated[str | None, typer.Option(help="The key of that endpoint, if it wants one.")] = None,
    say: Annotated[str | None, typer.Option(help="Send this, print the exchange, and end.")] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the chat page; 0 takes a free one.")
    ] = 0,
) -> Work:
    """Try it without a token and without a GPU: a chat page on this machine, model and Telegram simulated."""
    from bot import demo as room

    return functools.partial(room.run, model_url=model_url, model_key=model_key, say=say, port=port)


@cli.command(
    epilog="Examples: canvasgram check · canvasgram check --endpoint http://gpu:8000/v1 --json. "
    "Exit codes: 0 all well, 1 something fails, 3 a warning, 4 something could not be told."
)
def check(
    endpoint: Annotated[str | None, typer.Option(help="Check this one instead of MODEL_URL.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key, if it wants one.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    env_file: EnvFile = Path(".env"),
) -> Work:
    """Find out what the endpoint really does, in at most 40 short calls: a row a finding, exit code by the
    worst.
    """
    from bot.check import command
    from bot.check import output as table

    wish = command.resolve_options(endpoint, key, env_file)

    async def work(stop: asyncio.Event) -> int:
        report = await command.run_check(wish, show_progress, stop)
        typer.echo(
            table.render_json(report)
            if json
            else "\n".join(map(escape_for_terminal, table.render_lines(report)))
        )
        return report.exit_code

    return work


@cli.command(
    epilog="Examples: canvasgram report --since 30d --by day · canvasgram report --list calls --sort input --top 5 · "
    "canvasgram report audit --since 7d"
)
def report(  # noqa: PLR0913  # an option is an argument here
    about: Annotated[
        str | None, typer.Argument(metavar="[audit]", help="With `audit`: what admins changed, instead.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="A date, a date and time (UTC), today, or 24h, 30d, 4w ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="The same; a date is meant with its whole day.")] = None,
    chat: Annotated[str | None, typer.Option(help="Only this chat, or chat:topic, by number.")] = None,
    user: Annotated[int | None, typer.Option(help="Only this person, by number.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    by: Annotated[
        str | None, typer.Option(help="Tell apart by day, chat, user, model, tool or purpose.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv, json, md or png.")] = "table",
    what: Annotated[
        str | None, typer.Option("--list", help="List turns or calls one by one instead.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="How many of them: 20, of an audit all.", show_default=False),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(help="By tokens, input, cached, output, reasoning, canvases, seconds, waited or when."),
    ] = "tokens",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None,
    env_file: EnvFile = Path(".env"),
) -> None:
    """Show where tokens and seconds went, from the ledger; also beside a running gateway. Shows no texts."""
    from bot.usage import report_command as telling

    wish = telling.ReportOptions(since, until, chat, user, model, by, form, what, top, sort)
    if about not in {None, "audit"}:
        raise QuestionRefused(
            f"There is no report {about!r}. Use `canvasgram report` or `canvasgram report audit`."
        )
    told = telling.render_report if about is None else telling.render_audit
    answer = asyncio.run(told(_load_database_url(env_file), wish, now=time.time()))
    write_output(answer, out)


@cli.command(epilog="Examples: canvasgram turn 1234 · canvasgram turn 1234 --texts")
def turn(
    number: Annotated[
        str, typer.Argument(metavar="ID", help="The turn's id, as /usage and report --list show it.")
    ],
    texts: Annotated[
        bool, typer.Option("--texts", help="Show what people, the model and tools wrote, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    env_file: EnvFile = Path(".env"),
) -> None:
    """Show one turn step by step: waits, calls, tools, thinking and why. Texts stay hidden unless asked for."""
    from bot.usage import report_command as telling
    from bot.usage.turn_report import TEXTS_SHOWN_NOTICE

    told = asyncio.run(
        telling.render_turn(
            _load_database_url(env_file), number, with_texts=texts, as_json=json, now=time.time()
        )
    )
    if texts:
        typer.echo(TEXTS_SHOWN_NOTICE, err=True)
    typer.echo(told)


@cli.command(epilog="Example: canvasgram migrate")
def migrate(env_file: EnvFile = Path(".env")) -> None:
    """Bring the database to this version's schema, after a backup copy; `run` does it by itself."""
    from bot.db import migrate as migrating

    url = _load_database_url(env_file)
    migrating.migrate(url)
    typer.echo(f"{url} is up to date.")


@cli.command(
    epilog="Example, with the gateway stopped: canvasgram restore backups/canvasgram-20261120T033000Z.db"
)
def restore(
    file: Annotated[Path, typer.Argument(help="The backup, or a copy made before a migration.")],
    waiting: Annotated[
        bool,
        typer.Option("--waiting", help="Do what waited and was due since then, even if it was done since."),
    ] = False,
    env_file: EnvFile = Path(".env"),
) -> None:
    """Put a backup in the database's place; nothing that was sent since is sent again. The gateway must not
    run.
    """
    from bot.db.engine import parse_database_path
    from bot.maintenance import restore as restoring

    url = _load_database_url(env_file)
    made = asyncio.run(restoring.restore_backup(url, file, answer_waiting=waiting, now=time.time()))
    typer.echo("\n".join(restoring.format_summary(made, parse_database_path(url))))


@jobs.callback(epilog="Examples: canvasgram jobs · canvasgram jobs run backup")
def list_jobs(context: typer.Context, env_file: EnvFile = Path(".env")) -> None:
    """List the house's own jobs: when each is due, when it ran last and how that went; count those of people."""
    if context.invoked_subcommand is not None:
        return
    from bot.cli import system_jobs as orders

    typer.echo(asyncio.run(orders.list_system_jobs(_load_database_url(env_file))))


@jobs.command("run", epilog="Examples: canvasgram jobs run backup · canvasgram jobs run retention")
def run_job(
    name: Annotated[str, typer.Argument(help="The job's name, as `canvasgram jobs` lists it.")],
    env_file: EnvFile = Path(".env"),
) -> None:
    """Have a job of the house done now, by the gateway that runs or the next one that starts."""
    from bot.cli import system_jobs as orders

    typer.echo(asyncio.run(orders.run_system_job(_load_database_url(env_file), name, now=time.time())))


def _load_database_url(env_file: Path) -> str:
    """Where the ledger is; whoever looks at it needs no bot."""
    from bot.settings import NO_BOT_TOKEN, load_settings

    return load_settings(env_file, telegram_token=NO_BOT_TOKEN).database_url


def _unwrap_error(error: Exception) -> CanvasgramError | None:
    """The error to tell a person, also out of task groups; None if anything else failed too."""
    if isinstance(error, CanvasgramError):
        return error
    if not isinstance(error, ExceptionGroup):
        return None
    found = [_unwrap_error(one) for one in error.exceptions]
    if None in found:
        return None
    return found[0]


if __name__ == "__main__":
    main()
