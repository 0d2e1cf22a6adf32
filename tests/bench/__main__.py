"""The developers' benches: `python -m tests.bench load`, and others. Options in, figures out.

A command that Ctrl-C may interrupt returns its work, as those of `canvasgram` do.
"""

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from bot.bench.cli import EndpointOption, KeyOption
from bot.bench.endpoint.run import EndpointAddress
from bot.bench.policies import output
from bot.cli.main import run_work
from bot.errors import CanvasgramError
from bot.terminal import Work, write_output
from tests.bench.harness.figures import LoadReport
from tests.bench.load.postgresql import PostgresOptions, run_postgresql
from tests.bench.load.router import RoutingOptions, run_routing
from tests.bench.load.run import LoadOptions, run_load
from tests.bench.load.soak import run_soak
from tests.bench.output import format_json, format_lines
from tests.bench.policies import address_reads, thinking_costs
from tests.bench.policies.documents import DocumentOptions, run_documents

bench = typer.Typer(
    help="Measure the gateway on this machine, beside two baseline bots.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    result_callback=run_work,
)

DatabaseFolderOption = Annotated[
    Path | None, typer.Option("--folder", help="Folder of the measured database; a temporary one if unset.")
]
LimitCheckOption = Annotated[bool, typer.Option("--check", help="Exit with 1 if a limit is missed.")]


@bench.command(epilog="Example: python -m tests.bench load --quick --only own,start --check")
def load(
    messages: Annotated[
        int, typer.Option(min=1, help="Messages per bot and run, for own time and processor time.")
    ] = 100,
    only: Annotated[
        str,
        typer.Option(
            help="Run only these sections: own, start, idle, crowd, throughput, words, tokens, "
            "posts, search, faults, ledger, page, screens, minute."
        ),
    ] = "",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="One run instead of five, without the ledger of a million calls."),
    ] = False,
    folder: DatabaseFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: LimitCheckOption = False,
) -> Work:
    """Load-test the gateway on loopback against two baseline bots. Ctrl-C prints partial results."""
    sections = tuple(only.split(",")) if only else ()
    options = LoadOptions(messages=messages, only_sections=sections, folder=folder, quick=quick)
    print_line = functools.partial(typer.echo, err=True)
    return _build_load_work(functools.partial(run_load, options, print_line), as_json=json, check=check)


@bench.command(epilog="Example: python -m tests.bench soak --minutes 30 --check")
def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the load lasts.")] = 30,
    folder: DatabaseFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: LimitCheckOption = False,
) -> Work:
    """Load the gateway steadily. Counts lost messages, and shows whether memory and descriptors grow."""
    typer.echo(f"loading the gateway for {minutes:g} min; Ctrl-C prints what was seen by then", err=True)
    return _build_load_work(functools.partial(run_soak, minutes, folder=folder), as_json=json, check=check)


@bench.command(epilog="Example: uv run --with vllm-router python -m tests.bench routing --check")
def routing(
    folder: DatabaseFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: LimitCheckOption = False,
) -> Work:
    """Measure two simulated servers behind a real vllm-router, one of which dies. Needs that program."""
    print_line = functools.partial(typer.echo, err=True)
    measure = functools.partial(run_routing, RoutingOptions(folder=folder), print_line)
    return _build_load_work(measure, as_json=json, check=check)


@bench.command(epilog="Examples: python -m tests.bench postgresql --check · --only pairs --messages 1000")
def postgresql(
    messages: Annotated[
        int, typer.Option(min=1, help="Messages on each database, and of each kind of chat.")
    ] = 500,
    only: Annotated[str, typer.Option(help="Run only these sections: pairs, foreign, replicas.")] = "",
    database_url: Annotated[
        str | None, typer.Option(help="An empty database to measure on; without it a server is started.")
    ] = None,
    folder: DatabaseFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: LimitCheckOption = False,
) -> Work:
    """Measure replies on PostgreSQL beside replies on SQLite, and several replicas beside one."""
    sections = tuple(only.split(",")) if only else ()
    options = PostgresOptions(messages, database_url=database_url, only_sections=sections, folder=folder)
    print_line = functools.partial(typer.echo, err=True)
    return _build_load_work(functools.partial(run_postgresql, options, print_line), as_json=json, check=check)


@bench.command(epilog="Example: python -m tests.bench addressing --data cases --endpoint http://gpu:8000/v1")
def addressing(
    data: Annotated[Path, typer.Option(help="A folder with cases.jsonl: labelled messages of groups.")],
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure how well an endpoint tells which messages of a group are meant for the assistant."""
    typer.echo("measuring: one read of each message", err=True)
    report = asyncio.run(address_reads.run_addressing(EndpointAddress(endpoint, key), data))
    lines = address_reads.format_lines(report)
    write_output(address_reads.format_json(report) if json else lines)


@bench.command(epilog="Example: python -m tests.bench documents tests/fixtures/openapi --check")
def documents(
    folder: Annotated[Path, typer.Argument(help="A folder of OpenAPI documents.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if too few calls arrive.")] = False,
) -> None:
    """Measure what the model is told of real operations, and whether valid calls of them arrive as meant."""
    report = run_documents(DocumentOptions(folder), functools.partial(typer.echo, err=True))
    write_output(output.format_json(report) if json else output.format_lines(report))
    if check and not report.holds:
        raise typer.Exit(1)


@bench.command(epilog="Example: python -m tests.bench thinking")
def thinking() -> None:
    """Price policies of thinking in a scripted day, on the simulated endpoint."""
    write_output(thinking_costs.format_lines(asyncio.run(thinking_costs.measure())))


def _build_load_work(
    measure: Callable[[asyncio.Event], Awaitable[LoadReport]], *, as_json: bool, check: bool
) -> Work:
    async def work(stop: asyncio.Event) -> int:
        report = await measure(stop)
        write_output(format_json(report) if as_json else format_lines(report))
        if not report.is_complete:
            return 130
        if report.failures or (check and not report.has_passed):
            return 1
        return 0

    return work


def main() -> None:
    """Run the command line; an error that has a text of its own is one line."""
    try:
        bench(prog_name="python -m tests.bench")
    except CanvasgramError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
