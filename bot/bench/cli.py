"""The sub-commands of `canvasgram bench`: options in, figures out. `bot.cli.main` prints the errors.

A command imports what it needs when it is called; one that Ctrl-C may interrupt returns its work instead.
"""

import asyncio
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot.terminal import Work, write_output

if TYPE_CHECKING:
    from bot.bench.endpoint.terminal import MeasureEndpoint
    from bot.bench.policies.output import PolicyReport, ScoreT
    from bot.bench.policies.typed_reads import ReadCase
    from bot.llm.read_gains import ReadUse

bench = typer.Typer(help="Measure the gateway on this machine.", no_args_is_help=True, rich_markup_mode=None)

EndpointOption = Annotated[
    str, typer.Option("--endpoint", help="The endpoint to measure; `sim` simulates one.")
]
KeyOption = Annotated[str | None, typer.Option("--key", help="Its key, if it requires one.")]
NoteOption = Annotated[
    str | None,
    typer.Option("--note", help="What the server does not tell, such as its hardware; shown as it is."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="Use fewer prompts, streamed only.")]
ResultFolderOption = Annotated[
    Path | None, typer.Option("--out", help="Also write JSON, Markdown and a chart to this folder.")
]


ReadEndpointOption = Annotated[
    str | None, typer.Option("--endpoint", help="Instead, what typed reads gain at this endpoint.")
]
GainFolderOption = Annotated[
    Path | None, typer.Option("--out", help="Also store that gain; `bench` beside the database switches on.")
]


@bench.command(
    epilog="Examples: canvasgram bench direct --endpoint http://gpu:8000/v1 --out spark · --endpoint sim"
)
def direct(  # noqa: PLR0913  # an option is an argument here
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    note: NoteOption = None,
    quick: QuickOption = False,
    out: ResultFolderOption = None,
    json: JsonOption = False,
    compare: Annotated[bool, typer.Option("--compare", help="Also show what others have published.")] = False,
    widths: Annotated[
        list[int] | None, typer.Option(min=1, help="Instead, try this width of the canvas; repeatable.")
    ] = None,
    steps: Annotated[
        list[int] | None, typer.Option(min=1, help="Instead, try this limit of steps a canvas; repeatable.")
    ] = None,
) -> Work:
    """Measure an endpoint directly by the published protocols. Ctrl-C prints partial results."""
    from bot.bench.endpoint.canvas_sweep import list_limits
    from bot.bench.endpoint.direct import DirectOptions
    from bot.bench.endpoint.run import EndpointAddress, run

    options = DirectOptions(quick=quick, sweep=list_limits(widths or (), steps or ()))
    measure = functools.partial(run, EndpointAddress(endpoint, key, note), options)
    return _build_work(measure, out, json, compare=compare)


@bench.command(
    epilog="Examples: canvasgram bench gateway --endpoint http://gpu:8000/v1 --out spark · --endpoint sim"
)
def gateway(
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    note: NoteOption = None,
    quick: QuickOption = False,
    out: ResultFolderOption = None,
    json: JsonOption = False,
) -> Work:
    """Measure the same prompts directly and through the gateway. Compares interval by interval."""
    from bot.bench.endpoint.run import EndpointAddress, run_gateway

    measure = functools.partial(run_gateway, EndpointAddress(endpoint, key, note), quick=quick)
    return _build_work(measure, out, json)


@bench.command(epilog="Examples: canvasgram bench thinking --data cases · --data a --data b --json")
def thinking(
    data: Annotated[list[Path], typer.Option(help="A folder with *.jsonl cases and tools.json; repeatable.")],
    json: JsonOption = False,
    endpoint: ReadEndpointOption = None,
    key: KeyOption = None,
    out: GainFolderOption = None,
) -> None:
    """Measure the choice to think: in which turns it is made, and how fast."""
    from bot.bench.policies.thinking import list_read_cases, run_thinking

    if endpoint is not None:
        _measure_reads("thinking", list_read_cases(data), endpoint, key, out)
        return
    _print_report(run_thinking(data, _print_progress), as_json=json)


@bench.command(epilog="Examples: canvasgram bench prefill · canvasgram bench prefill --turns 200 --check")
def prefill(
    turns: Annotated[int, typer.Option(min=20, max=1000, help="Turns of each conversation.")] = 60,
    budget: Annotated[
        int | None, typer.Option(min=2000, help="Largest prompt in tokens; the default of PROMPT_BUDGET.")
    ] = None,
    json: JsonOption = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if too much is computed.")] = False,
) -> None:
    """Measure how much of the prompts an endpoint computes. Compares with the least for the same prompts."""
    from bot.bench.policies.prefill import PrefillOptions, run_prefill

    options = PrefillOptions(turns) if budget is None else PrefillOptions(turns, budget)
    _print_report(run_prefill(options, _print_progress), as_json=json, must_hold=check)


@bench.command("tools", epilog="Example: canvasgram bench tools --data cases --registered 1000")
def many_tools(  # noqa: PLR0913  # an option is an argument here
    data: Annotated[list[Path], typer.Option(help="A folder with *.jsonl cases and tools.json; repeatable.")],
    registered: Annotated[int, typer.Option(min=10, help="Tools registered for each case.")] = 200,
    json: JsonOption = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if too few tools are reached.")] = False,
    endpoint: ReadEndpointOption = None,
    key: KeyOption = None,
    out: GainFolderOption = None,
) -> None:
    """Measure how the model reaches one of many tools."""
    from bot.bench.policies.tool_search import ToolSearchOptions, list_read_cases, run_tool_search

    options = ToolSearchOptions(tuple(data), registered)
    if endpoint is not None:
        _measure_reads("tools", list_read_cases(options), endpoint, key, out)
        return
    _print_report(run_tool_search(options, _print_progress), as_json=json, must_hold=check)


@bench.command(
    epilog="Examples: canvasgram bench recall --data recall · canvasgram bench recall --data recall --json"
)
def recall(
    data: Annotated[
        Path,
        typer.Option(help="A folder with conversations*.json.gz and paragraphs.*.json.gz, with questions."),
    ],
    json: JsonOption = False,
    endpoint: ReadEndpointOption = None,
    key: KeyOption = None,
    out: GainFolderOption = None,
) -> None:
    """Measure what a search of a chat finds. Shows BM25 beside it."""
    from bot.bench.policies.recall import list_read_cases, run_recall

    if endpoint is not None:
        _measure_reads("recall", list_read_cases(data), endpoint, key, out)
        return
    _print_report(run_recall(data, _print_progress), as_json=json)


@bench.command(epilog="Example: canvasgram bench questions --endpoint http://gpu:8000/v1")
def questions(endpoint: EndpointOption = "http://localhost:8000/v1", key: KeyOption = None) -> None:
    """Measure how often the model asks back. Sends 60 clear requests and 40 others in five languages."""
    from bot.bench.endpoint.questions_back import run_questions
    from bot.bench.endpoint.run import EndpointAddress
    from bot.bench.harness.progress import progress_bars

    with progress_bars() as step:
        lines = asyncio.run(run_questions(EndpointAddress(endpoint, key), step))
    write_output(lines)


def _measure_reads(
    use: "ReadUse", cases: Iterable["ReadCase"], endpoint: str, key: str | None, out: Path | None
) -> None:
    from bot.bench.endpoint.run import EndpointAddress
    from bot.bench.policies.typed_reads import measure_reads

    write_output(asyncio.run(measure_reads(EndpointAddress(endpoint, key), use, cases, out)))


_print_progress = functools.partial(typer.echo, err=True)


def _print_report(report: "PolicyReport[ScoreT]", *, as_json: bool, must_hold: bool = False) -> None:
    """Print a report; `must_hold`: exit with 1 if it does not hold."""
    from bot.bench.policies.output import format_json, format_lines

    write_output(format_json(report) if as_json else format_lines(report))
    if must_hold and not report.holds:
        raise typer.Exit(1)


def _build_work(
    measure: "MeasureEndpoint", out: Path | None, as_json: bool, *, compare: bool = False
) -> Work:
    from bot.bench.endpoint.terminal import OutputOptions, run_and_print

    return functools.partial(
        run_and_print,
        measure,
        OutputOptions(write_output, _print_progress, out, as_json, compare),
    )
