"""The sub-commands of `canvasgram bench`: options in, figures out. `bot.cli.main` prints the errors.

A command imports what it needs when it is called; one that Ctrl-C may interrupt returns its work instead.
"""

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot.terminal import Work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.bench.endpoint.terminal import MeasureEndpoint
    from bot.bench.harness.statistics import LoadReport

bench = typer.Typer(help="Measure the gateway on this machine.", no_args_is_help=True, rich_markup_mode=None)

EndpointOption = Annotated[
    str, typer.Option("--endpoint", help="The endpoint to measure; `sim` simulates one.")
]
KeyOption = Annotated[str | None, typer.Option("--key", help="Its key, if it requires one.")]
NoteOption = Annotated[
    str | None,
    typer.Option("--note", help="What the server does not tell, such as its hardware; shown as it is."),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Use fewer prompts, streamed only.")]
ResultFolderOption = Annotated[
    Path | None, typer.Option("--out", help="Also write JSON, Markdown and a chart to this folder.")
]


DatabaseFolderOption = Annotated[
    Path | None, typer.Option("--folder", help="Folder of the measured database; a temporary one if unset.")
]
LimitCheckOption = Annotated[bool, typer.Option("--check", help="Exit with 1 if a limit is missed.")]


@bench.command(
    epilog="Examples: canvasgram bench load · canvasgram bench load --quick --only own,start --check"
)
def load(
    messages: Annotated[
        int, typer.Option(min=1, help="Messages per bot and run, for own time and processor time.")
    ] = 100,
    only: Annotated[
        str,
        typer.Option(
            help="Run only these sections: own, start, idle, crowd, throughput, words, tokens, "
            "faults, ledger, page, screens, minute."
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
    from bot.bench.load.run import LoadOptions, run_load

    sections = tuple(only.split(",")) if only else ()
    options = LoadOptions(messages=messages, only_sections=sections, folder=folder, quick=quick)
    print_line = functools.partial(typer.echo, err=True)
    return _build_load_work(functools.partial(run_load, options, print_line), as_json=json, check=check)


@bench.command(epilog="Example: canvasgram bench soak --minutes 30 --check")
def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the load lasts.")] = 30,
    folder: DatabaseFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: LimitCheckOption = False,
) -> Work:
    """Load the gateway steadily. Counts lost messages, and shows whether memory and descriptors grow."""
    from bot.bench.load.soak import run_soak

    typer.echo(f"loading the gateway for {minutes:g} min; Ctrl-C prints what was seen by then", err=True)
    return _build_load_work(functools.partial(run_soak, minutes, folder=folder), as_json=json, check=check)


@bench.command(epilog="Example: uv run --with vllm-router canvasgram bench routing --check")
def routing(
    folder: DatabaseFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: LimitCheckOption = False,
) -> Work:
    """Measure two simulated servers behind a real vllm-router, one of which dies. Needs that program."""
    from bot.bench.load.router import RoutingOptions, run_routing

    print_line = functools.partial(typer.echo, err=True)
    measure = functools.partial(run_routing, RoutingOptions(folder=folder), print_line)
    return _build_load_work(measure, as_json=json, check=check)


@bench.command(epilog="Examples: canvasgram bench postgresql --check · --only pairs --messages 1000")
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
    from bot.bench.load.postgresql import PostgresOptions, run_postgresql

    sections = tuple(only.split(",")) if only else ()
    options = PostgresOptions(messages, database_url=database_url, only_sections=sections, folder=folder)
    print_line = functools.partial(typer.echo, err=True)
    return _build_load_work(functools.partial(run_postgresql, options, print_line), as_json=json, check=check)


@bench.command(
    epilog="Examples: canvasgram bench direct --endpoint http://gpu:8000/v1 --out spark · --endpoint sim"
)
def direct(
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    note: NoteOption = None,
    quick: QuickOption = False,
    out: ResultFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> Work:
    """Measure an endpoint directly by the published protocols. Ctrl-C prints partial results."""
    from bot.bench.endpoint.direct import DirectOptions
    from bot.bench.endpoint.run import EndpointAddress, run

    measure = functools.partial(run, EndpointAddress(endpoint, key, note), DirectOptions(quick=quick))
    return _build_work(measure, out, json)


@bench.command(
    epilog="Examples: canvasgram bench gateway --endpoint http://gpu:8000/v1 --out spark · --endpoint sim"
)
def gateway(
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    note: NoteOption = None,
    quick: QuickOption = False,
    out: ResultFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> Work:
    """Measure the same prompts directly and through the gateway. Compares interval by interval."""
    from bot.bench.endpoint.run import EndpointAddress, run_gateway

    measure = functools.partial(run_gateway, EndpointAddress(endpoint, key, note), quick=quick)
    return _build_work(measure, out, json)


@bench.command(epilog="Examples: canvasgram bench thinking --data cases · --data a --data b --json")
def thinking(
    data: Annotated[list[Path], typer.Option(help="A folder with *.jsonl cases and tools.json; repeatable.")],
    costs: Annotated[bool, typer.Option(help="Also run turns against the simulated endpoint.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Measure the choice to think. In which turns it is made, how fast, what it costs or saves."""
    from bot.bench.policies.output import format_json, format_lines
    from bot.bench.policies.thinking import ThinkingOptions, run_thinking

    options = ThinkingOptions(tuple(data), costs)
    report = asyncio.run(run_thinking(options, functools.partial(typer.echo, err=True)))
    typer.echo(format_json(report) if json else "\n".join(format_lines(report)))


@bench.command(
    epilog="Examples: canvasgram bench addressing --data cases --endpoint http://gpu:8000/v1 · --endpoint sim"
)
def addressing(
    data: Annotated[Path, typer.Option(help="A folder with cases.jsonl: labelled messages of groups.")],
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure how well an endpoint tells which messages of a group are meant for the assistant."""
    from bot.bench.endpoint.run import EndpointAddress
    from bot.bench.policies import address_reads

    typer.echo("measuring: one read of each message", err=True)
    report = asyncio.run(address_reads.run_addressing(EndpointAddress(endpoint, key), data))
    lines = address_reads.format_lines(report)
    typer.echo(address_reads.format_json(report) if json else "\n".join(lines))


@bench.command(epilog="Examples: canvasgram bench prefill · canvasgram bench prefill --turns 200 --check")
def prefill(
    turns: Annotated[int, typer.Option(min=20, max=1000, help="Turns of each conversation.")] = 60,
    budget: Annotated[
        int | None, typer.Option(min=2000, help="Largest prompt in tokens; the default of PROMPT_BUDGET.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if too much is computed.")] = False,
) -> None:
    """Measure how much of the prompts an endpoint computes. Compares with the least for the same prompts."""
    from bot.bench.policies.prefill import PrefillOptions, format_json, format_lines, run_prefill

    options = PrefillOptions(turns) if budget is None else PrefillOptions(turns, budget)
    report = run_prefill(options, functools.partial(typer.echo, err=True))
    typer.echo(format_json(report) if json else "\n".join(format_lines(report)))
    if check and not report.has_passed:
        raise typer.Exit(1)


@bench.command(
    "tools", epilog="Examples: canvasgram bench tools --data cases --registered 1000 · --documents openapi"
)
def many_tools(
    data: Annotated[
        list[Path] | None, typer.Option(help="A folder with *.jsonl cases and tools.json; repeatable.")
    ] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Instead, a folder of OpenAPI documents: what is told, what arrives.")
    ] = None,
    registered: Annotated[int, typer.Option(min=10, help="Tools registered for each case.")] = 200,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if too few tools are reached, or calls arrive.")
    ] = False,
) -> None:
    """Measure how the model reaches one of many tools, or what it is told of real documents."""
    from bot.bench.policies import documents as document_bench
    from bot.bench.policies import tool_search as search_bench

    if (documents is None) == (not data):
        raise typer.BadParameter("Give --data or --documents, one of them.")
    print_line = functools.partial(typer.echo, err=True)
    if documents is not None:
        document_report = document_bench.run_documents(document_bench.DocumentOptions(documents), print_line)
        has_passed = document_report.has_passed
        lines = document_bench.format_lines(document_report)
        text = document_bench.format_json(document_report) if json else "\n".join(lines)
    else:
        options = search_bench.ToolSearchOptions(tuple(data or ()), registered)
        report = search_bench.run_tool_search(options, print_line)
        has_passed = report.has_passed
        text = search_bench.format_json(report) if json else "\n".join(search_bench.format_lines(report))
    typer.echo(text)
    if check and not has_passed:
        raise typer.Exit(1)


def _build_load_work(
    measure: "Callable[[asyncio.Event], Awaitable[LoadReport]]", *, as_json: bool, check: bool
) -> Work:
    from bot.bench.output import format_json, format_lines

    async def work(stop: asyncio.Event) -> int:
        report = await measure(stop)
        typer.echo(format_json(report) if as_json else "\n".join(format_lines(report)))
        if not report.is_complete:
            return 130
        if check and not report.has_passed:
            return 1
        return 0

    return work


def _build_work(measure: "MeasureEndpoint", out: Path | None, as_json: bool) -> Work:
    from bot.bench.endpoint.terminal import OutputOptions, run_and_print

    return functools.partial(
        run_and_print,
        measure,
        OutputOptions(typer.echo, functools.partial(typer.echo, err=True), out, as_json),
    )
