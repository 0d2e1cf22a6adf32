"""The commands of `canvasgram`; `bench` and `tools` are in modules of their own.

Owns printing, exit codes and how errors end the process. A command imports what it needs when it is called,
so that each starts fast. A long command returns its work, which then runs until a signal stops it.
"""

import asyncio
import functools
import gc
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot.bench.cli import bench
from bot.cli.tools.commands import tools
from bot.cli.tools.session_runner import DEFAULT_ENV_FILE, EnvFile
from bot.errors import CanvasgramError, QuestionRefused, SettingsRefused, StoreReplaced
from bot.terminal import TerminalPrompter, Work, run_until_signal, show_progress, write_output
from bot.usage.plain_text import escape_for_terminal, escape_lines

if TYPE_CHECKING:
    from bot.settings import Settings


def run_work(work: Work | None, **_: object) -> None:
    """Run the work that a command returned, until it ends or a signal stops it."""
    if work is not None:
        raise typer.Exit(asyncio.run(run_until_signal(work)))


cli = typer.Typer(
    help="A Telegram agent gateway for DiffusionGemma served by vLLM.",
    epilog="Try it: `canvasgram demo`. Real use: `canvasgram setup`, then `canvasgram run`.",
    no_args_is_help=True,
    add_completion=False,
    result_callback=run_work,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # they print local variables, and those hold the token
)
cli.add_typer(bench, name="bench")
cli.add_typer(tools, name="tools")
jobs = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
cli.add_typer(jobs, name="jobs")


def main() -> None:
    """Run the command line and exit: 0 it worked, 1 it failed, 2 somebody has to mend what is wrong first."""
    try:
        cli(prog_name="canvasgram")
    except Exception as error:
        if _is_broken_pipe(error):  # of `| head`: nobody reads what Python flushes at its end, either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        known_error = _unwrap_error(error)
        if known_error is None:
            logging.getLogger(__name__).critical("stopped by a fault of its own", exc_info=True)
            sys.exit(1)
        line = " ".join(str(known_error).split())
        typer.echo(escape_for_terminal(line), err=True)
        sys.exit(2 if isinstance(known_error, SettingsRefused | QuestionRefused | StoreReplaced) else 1)


@cli.callback(invoke_without_command=True)
def show_version(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        from bot.cli.version import describe_version

        typer.echo(f"canvasgram {describe_version()}")
        raise typer.Exit


@cli.command(
    epilog="Example without questions: "
    "canvasgram setup --yes --token 1234567890:AAE… --model-url http://gpu:8000/v1"
)
def setup(
    token: Annotated[str | None, typer.Option(help="The bot's token from @BotFather.")] = None,
    model_url: Annotated[
        str | None, typer.Option(help="The model endpoint, such as http://localhost:8000/v1.")
    ] = None,
    model_key: Annotated[str | None, typer.Option(help="The endpoint's key, if it requires one.")] = None,
    database: Annotated[
        str | None, typer.Option(help="The database, such as sqlite+aiosqlite:///canvasgram.db.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask no questions; fail with one line if something is missing.")
    ] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Write `.env` and print the link that makes you admin. Checks the token and the endpoint first."""
    from bot.cli.setup import SetupWizard

    options = {
        "telegram_token": token,
        "model_url": model_url,
        "model_api_key": model_key,
        "database_url": database,
    }
    chosen = {name: value for name, value in options.items() if value is not None}
    prompter = TerminalPrompter(silent=yes or not sys.stdin.isatty())
    asyncio.run(SetupWizard(env_file, prompter, chosen).run())


@cli.command(
    epilog="Examples: canvasgram run · LOG_FORMAT=json canvasgram run --env-file /etc/canvasgram.env"
)
def run(
    here: Annotated[
        bool, typer.Option("--here", help="Work on this database again although it was copied.")
    ] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> Work:
    """Run the gateway until SIGTERM or Ctrl-C; neither loses anything. A second Ctrl-C exits at once."""
    # What is imported stays. Searching it for garbage costs a fifth of the start and a twentieth of a reply.
    gc.disable()
    from bot.settings import find_journal, list_ignored_names, load_settings

    settings = load_settings(env_file)  # before the slow imports, so that a wrong setting is reported at once
    from bot import logs
    from bot.app import process
    from bot.cli.exposure import describe_open_file, hide_memory

    hide_memory()
    logs.configure(settings.log_level, settings.log_format, settings.list_secrets(), journal=find_journal())
    for line in list_ignored_names(env_file):
        logging.getLogger(__name__).warning("%s", line, extra={"action": "settings.ignored"})
    if (warning := describe_open_file(env_file)) is not None:
        logging.getLogger(__name__).warning("%s", warning, extra={"action": "settings.open"})
    if here:
        from bot.db.maintenance.database_copy import remove_copy_mark

        remove_copy_mark(settings.database_url)
    gc.freeze()
    gc.enable()
    announce = typer.echo if settings.log_format == "text" else logs.announce
    return functools.partial(process.run, settings, announce=announce)


@cli.command(epilog='Examples: canvasgram demo · canvasgram demo --say "What is 19 % of 84.50?"')
def demo(
    model_url: Annotated[
        str | None, typer.Option(help="Use this endpoint instead of the simulated one.")
    ] = None,
    model_key: Annotated[str | None, typer.Option(help="Its key, if it requires one.")] = None,
    say: Annotated[str | None, typer.Option(help="Send this message, print the exchange and exit.")] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the chat page; 0 picks a free one.")
    ] = 0,
) -> Work:
    """Try it without a token or a GPU. Serves a chat page here; Telegram and the model are simulated."""
    from bot.demo import command

    return functools.partial(command.run, model_url=model_url, model_key=model_key, say=say, port=port)


@cli.command(
    epilog="Examples: canvasgram check · canvasgram check --endpoint http://gpu:8000/v1 --json. "
    "Exit codes: 0 all well, 1 a failure, 3 a warning, 4 something could not be determined."
)
def check(
    endpoint: Annotated[str | None, typer.Option(help="Probe this endpoint instead of MODEL_URL.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key, if it requires one.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> Work:
    """Probe the model endpoint with at most 40 short calls. The exit code is the worst finding."""
    from bot.check import output, probe

    options = probe.resolve_options(endpoint, key, env_file)

    async def work(stop: asyncio.Event) -> int:
        report = await probe.run_check(options, show_progress, stop)
        if json:
            typer.echo(output.render_json(report))
        else:
            write_output(escape_lines(output.render_lines(report)))
        return report.exit_code

    return work


@cli.command(
    epilog="Example: canvasgram status. "
    "Exit codes: 0 all is well, 1 a part fails, 3 a warning, 4 something could not be determined."
)
def status(env_file: EnvFile = DEFAULT_ENV_FILE) -> Work:
    """Show on one screen whether all is well: gateway, Telegram, model, queue, database, backup."""
    from bot.cli.status import load_status, render_status

    async def work(_: asyncio.Event) -> int:
        loaded_status = await load_status(env_file, now=time.time())
        write_output(render_status(loaded_status))
        return loaded_status.exit_code

    return work


@cli.command(
    epilog="Examples: canvasgram report --since 30d --by day · "
    "canvasgram report --list calls --sort input --top 5 · canvasgram report audit --since 7d"
)
def report(  # noqa: PLR0913  # an option is an argument here
    about: Annotated[
        str | None, typer.Argument(metavar="[audit]", help="With `audit`: show what admins changed instead.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Start: a date, a date and time, today, yesterday, or 24h, 30d, 4w ago."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="End, written like --since; a date is inclusive.")] = None,
    chat: Annotated[str | None, typer.Option(help="Only this chat, or chat:topic, by number.")] = None,
    user: Annotated[int | None, typer.Option(help="Only this user, by number.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Group by day, hour, chat, user, thinking, model, tool, purpose or user-model."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    list_of: Annotated[
        str | None,
        typer.Option(
            "--list",
            help="List single `turns` or `calls`, or `readings` of the server's counters, instead of sums.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Rows of the list: 20 if unset, all of an audit.", show_default=False
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            help="Sort by tokens, input, cached, output, reasoning, canvases, seconds, waited or when."
        ),
    ] = "tokens",
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of times and days, such as Europe/Berlin; TIME_ZONE if unset."),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Only turns at this endpoint, main or fallback.")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Only turns that called this tool.")] = None,
    purpose: Annotated[
        str | None, typer.Option(help="Only calls for this purpose, such as turn, summary or decision.")
    ] = None,
    thinking: Annotated[str | None, typer.Option(help="Only turns with thinking on, or off.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show token and time usage from the database. Message texts are never shown."""
    from bot.usage import report_command

    settings = _load_settings(env_file)
    options = report_command.ReportOptions(
        *(since, until, chat, user, model, by, form, list_of, top, sort, zone or settings.time_zone),
        *(endpoint, tool, purpose, thinking),
    )
    if about not in {None, "audit"}:
        raise QuestionRefused(
            f"There is no report {about!r}. Use `canvasgram report` or `canvasgram report audit`."
        )
    render = report_command.render_report if about is None else report_command.render_audit
    write_output(asyncio.run(render(settings.database_url, options, now=time.time())), out)


@cli.command(epilog="Examples: canvasgram turn 1234 · canvasgram turn 1234 --texts")
def turn(
    number: Annotated[
        str, typer.Argument(metavar="ID", help="The turn's id, as /usage and report --list show it.")
    ],
    texts: Annotated[
        bool, typer.Option("--texts", help="Also show what users, the model and tools wrote.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show one turn step by step. Waits, calls, tools, thinking and why; texts only with --texts."""
    from bot.usage import report_command
    from bot.usage.turn_report import TEXTS_SHOWN_NOTICE

    url = _load_settings(env_file).database_url
    rendered = asyncio.run(
        report_command.render_turn(url, number, with_texts=texts, as_json=json, now=time.time())
    )
    if texts:
        typer.echo(TEXTS_SHOWN_NOTICE, err=True)
    write_output(rendered)


@cli.command(epilog="Examples: canvasgram admin · canvasgram admin --link")
def admin(
    link: Annotated[
        bool, typer.Option("--link", help="Print a link that logs in to the running gateway's page.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port here; 0 picks a free one.")] = 0,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> Work | None:
    """Show the admins' page on this machine. Works without a running gateway, and changes nothing."""
    from bot.app import admin_page

    settings = _load_settings(env_file)
    if link:
        typer.echo(asyncio.run(admin_page.create_login_link(settings)))
        return None
    return functools.partial(admin_page.serve_admin_page, settings, port, typer.echo)


@cli.command(epilog="Example: canvasgram migrate")
def migrate(env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Migrate the database while no gateway runs. Makes a copy first; `run` does this by itself."""
    from bot.db import migrate as migration
    from bot.db.database_url import describe_database

    url = _load_settings(env_file).database_url
    copy = migration.migrate_stopped(url)
    if copy is not None:
        typer.echo(f"As it was before: {copy}")
    typer.echo(f"{describe_database(url)} is up to date.")


@cli.command(epilog="Example, with the gateway stopped: canvasgram copy < file-with-the-new-database-url")
def copy(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATABASE_URL]", help="An empty database; asked for, or read from a pipe, if not given."
        ),
    ] = None,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Copy the database from SQLite to PostgreSQL, or back. Stop the gateway first."""
    from bot.cli.database_copy import copy_to, read_target

    settings = _load_settings(env_file)
    lines = copy_to(settings, read_target() if target is None else target, env_file, now=time.time())
    typer.echo("\n".join(lines))


@cli.command(epilog="Examples: canvasgram backup · canvasgram backup /mnt/backup/canvasgram.db")
def backup(
    file: Annotated[
        Path | None, typer.Argument(help="A new file for it; a file in BACKUP_DIR if none is named.")
    ] = None,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Back the database up, beside a running gateway or without one. It is done, and sound, at the end."""
    from bot.cli.database_copy import describe_backup
    from bot.maintenance.backup import make_backup_now

    settings = _load_settings(env_file)
    typer.echo(f"Done: {asyncio.run(make_backup_now(settings, file, now=time.time()))}")
    typer.echo("\n".join(describe_backup(settings, env_file)))


@cli.command(
    epilog="Examples: canvasgram export 12345678 · canvasgram export -1001234567890:3 --folder /tmp --files",
    context_settings={"ignore_unknown_options": True},  # the number of a group begins with a dash
)
def export(
    chat: Annotated[str, typer.Argument(help="The chat's number, or chat:topic.")],
    folder: Annotated[Path, typer.Option(help="Where to write the files.")] = Path(),
    files: Annotated[bool, typer.Option("--files", help="With the files that the chat keeps.")] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Write what was said in a chat as Markdown and JSON, beside a running gateway or without one."""
    from bot.cli.export import export_chat

    settings = _load_settings(env_file)
    for path in asyncio.run(export_chat(settings, chat, folder, with_files=files, now=time.time())):
        typer.echo(f"Done: {path}")


@cli.command(
    epilog="Example, with the gateway stopped: canvasgram restore backups/canvasgram-20261120T033000Z.db"
)
def restore(
    file: Annotated[Path, typer.Argument(help="The backup, or a copy made before a migration.")],
    waiting: Annotated[
        bool,
        typer.Option(
            "--waiting", help="Also do what was waiting then or due since, even if it was done since."
        ),
    ] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Replace the database with a backup. Stop the gateway first; nothing sent since is sent again."""
    from bot.cli.database_copy import describe_backup
    from bot.db.database_url import parse_database_path
    from bot.maintenance.restore import format_summary, restore_backup

    settings = _load_settings(env_file)
    url = settings.database_url
    summary = asyncio.run(restore_backup(url, file, answer_waiting=waiting, now=time.time()))
    typer.echo("\n".join(format_summary(summary, parse_database_path(url))))
    typer.echo("\n".join(describe_backup(settings, env_file)))


@cli.command(
    context_settings={"ignore_unknown_options": True},  # the number of a group begins with a minus
    epilog='Examples: canvasgram send Family "Dinner is ready" · df -h | canvasgram send 1234567',
)
def send(
    chat: Annotated[str, typer.Argument(help="A person or a group, by name or by number.")],
    text: Annotated[str | None, typer.Argument(help="What to send; stdin is read without it.")] = None,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Send a message to a chat. It is stored at once; a running gateway sends it within three seconds."""
    from bot.cli.send import read_stdin, store_message

    settings = _load_settings(env_file)
    sent_text = read_stdin() if text is None else text
    storing = store_message(settings.database_url, chat, sent_text, settings.admin_ids, now=time.time())
    typer.echo(asyncio.run(storing))


@jobs.callback(epilog="Examples: canvasgram jobs · canvasgram jobs run backup")
def list_jobs(context: typer.Context, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """List system jobs with next run, last run and result. Counts user jobs, too."""
    if context.invoked_subcommand is not None:
        return
    from bot.cli import system_jobs

    write_output(asyncio.run(system_jobs.list_system_jobs(_load_settings(env_file).database_url)))


@jobs.command("run", epilog="Examples: canvasgram jobs run backup · canvasgram jobs run retention")
def run_job(
    name: Annotated[str, typer.Argument(help="The job's name, as `canvasgram jobs` lists it.")],
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Run a system job now, or at the next start if no gateway is running."""
    from bot.cli import system_jobs

    typer.echo(
        asyncio.run(system_jobs.run_system_job(_load_settings(env_file).database_url, name, now=time.time()))
    )


def _load_settings(env_file: Path) -> "Settings":
    """Load the settings of commands that only read the database and need no bot token."""
    from bot.settings import NO_BOT_TOKEN, load_settings

    return load_settings(env_file, telegram_token=NO_BOT_TOKEN)


def _is_broken_pipe(error: Exception) -> bool:
    """Whether all that went wrong is that the reader of the output has left."""
    if isinstance(error, ExceptionGroup):
        return all(_is_broken_pipe(inner) for inner in error.exceptions)
    return isinstance(error, BrokenPipeError)


def _unwrap_error(error: Exception) -> CanvasgramError | None:
    """Return the error to show, also out of task groups; None if an unexpected one is among them."""
    if isinstance(error, CanvasgramError):
        return error
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return CanvasgramError(
            "The system gives too little memory or too few threads. Raise `ulimit -v` and `ulimit -u`, in a "
            "unit MemoryMax and TasksMax."
        )
    if not isinstance(error, ExceptionGroup):
        return None
    inner_errors = [_unwrap_error(inner) for inner in error.exceptions]
    if None in inner_errors:
        return None
    return inner_errors[0]
