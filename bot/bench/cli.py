"""The sub-commands of `canvasgram bench`: options in, figures out. Errors are printed by whoever runs them.

A command imports its rooms when it is called; one that Ctrl-C may stop on its way returns what there is to
do.
"""

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot.terminal import Work

if TYPE_CHECKING:
    from bot.bench.endpoint.terminal import MeasureEndpoint as Measuring

bench = typer.Typer(help="Measure the gateway on this machine.", no_args_is_help=True, rich_markup_mode=None)

EndpointOption = Annotated[
    str, typer.Option("--endpoint", help="The endpoint that is measured; `sim` simulates one.")
]
KeyOption = Annotated[str | None, typer.Option("--key", help="Its key, if it wants one.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="Fewer prompts, and streamed alone.")]
ResultFolderOption = Annotated[
    Path | None, typer.Option("--out", help="Also write JSON, Markdown and a picture there.")
]


@bench.command(
    epilog="Examples: canvasgram bench load · canvasgram bench load --only own,start --messages 300 --check"
)
def load(  # noqa: PLR0913  # an option is an argument here
    messages: Annotated[
        int, typer.Option(min=1, help="Messages a bot, for own time and processor time.")
    ] = 120,
    only: Annotated[
        str,
        typer.Option(help="Some of the sections: own, start, crowd, words, tokens, faults, ledger, soak."),
    ] = "",
    soak: Annotated[
        float, typer.Option(min=0, help="Minutes of a soak: loss, order, latency, memory over time.")
    ] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Without the soak and the ledger of a million calls.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Where the database lies while measured; else a temporary folder.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: Annotated[bool, typer.Option("--check", help="End with 1 if a limit is missed.")] = False,
) -> Work:
    """Drive the gateway over loopback, beside two yardsticks, and print where the time went; Ctrl-C what is
    done.
    """
    from bot.bench import output as table
    from bot.bench.load import run as room

    sections = tuple(only.split(",")) if only else ()
    wish = room.LoadOptions(
        messages=messages, only_sections=sections, folder=folder, soak_minutes=soak, quick=quick
    )

    async def work(stop: asyncio.Event) -> int:
        report = await room.run_load(wish, functools.partial(typer.echo, err=True), stop)
        typer.echo(table.format_json(report) if json else "\n".join(table.format_lines(report)))
        if not report.is_complete:
            return 130
        if check and not report.has_passed:
            return 1
        return 0

    return work


@bench.command(
    epilog="Examples: canvasgram bench direct --endpoint http://gpu:8000/v1 --out spark · --endpoint sim"
)
def direct(
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    quick: QuickOption = False,
    out: ResultFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> Work:
    """Measure an endpoint itself by the published protocols, with nothing in between; Ctrl-C prints what is
    done.
    """
    from bot.bench.endpoint import run as direct_run
    from bot.bench.endpoint.direct import DirectOptions

    return _build_work(
        functools.partial(
            direct_run.run, direct_run.EndpointAddress(endpoint, key), DirectOptions(quick=quick)
        ),
        out,
        json,
    )


@bench.command(
    epilog="Examples: canvasgram bench gateway --endpoint http://gpu:8000/v1 --out spark · --endpoint sim"
)
def gateway(
    endpoint: EndpointOption = "http://localhost:8000/v1",
    key: KeyOption = None,
    quick: QuickOption = False,
    out: ResultFolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> Work:
    """Measure the same prompts directly and as Telegram messages through the whole gateway, interval by
    interval.
    """
    from bot.bench.endpoint import run as direct_run

    return _build_work(
        functools.partial(direct_run.run_gateway, direct_run.EndpointAddress(endpoint, key), quick=quick),
        out,
        json,
    )


@bench.command(
    epilog="Examples: canvasgram bench thinking --data cases · canvasgram bench thinking --data a --data b --json"
)
def thinking(
    data: Annotated[
        list[Path], typer.Option(help="A folder with cases.jsonl and tools.json; may be given again.")
    ],
    train: Annotated[
        Path | None, typer.Option(help="Train on these cases, judge by folds, and write the weights there.")
    ] = None,
    costs: Annotated[bool, typer.Option(help="Play turns before the simulated endpoint, too.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Judge the choice to think: who needs tools, how fast it is told, and what it costs or saves."""
    from bot.bench.policies import output as thinking_table
    from bot.bench.policies import thinking as room

    wish = room.ThinkingOptions(tuple(data), train, costs)
    report = asyncio.run(room.run_thinking(wish, functools.partial(typer.echo, err=True)))
    typer.echo(thinking_table.format_json(report) if json else "\n".join(thinking_table.format_lines(report)))


@bench.command(
    "tools", epilog="Examples: canvasgram bench tools --data cases · --data a --data b --registered 1000"
)
def many_tools(
    data: Annotated[
        list[Path], typer.Option(help="A folder with cases.jsonl and tools.json; may be given again.")
    ],
    registered: Annotated[int, typer.Option(min=10, help="Tools registered for each case.")] = 200,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 if a set reaches too few of its tools.")
    ] = False,
) -> None:
    """Judge how the model reaches one of many tools: in its prompt, or among the first five that a search
    finds.
    """
    from bot.bench.policies import tool_search as room

    report = room.run_tool_search(
        room.ToolSearchOptions(tuple(data), registered), functools.partial(typer.echo, err=True)
    )
    typer.echo(room.format_json(report) if json else "\n".join(room.format_lines(report)))
    if check and not report.has_passed:
        raise typer.Exit(1)


def _build_work(measure: "Measuring", out: Path | None, as_json: bool) -> Work:
    from bot.bench.endpoint.terminal import OutputOptions, run_and_print

    return functools.partial(
        run_and_print,
        measure,
        OutputOptions(typer.echo, functools.partial(typer.echo, err=True), out, as_json),
    )
