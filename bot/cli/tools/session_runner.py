"""What the commands of `canvasgram tools` share: common options, a session to run in, lines to print."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

if TYPE_CHECKING:
    from bot.cli.tools.session import ToolsSession

T = TypeVar("T")
SessionWork: TypeAlias = Callable[["ToolsSession"], Awaitable[T]]

EnvFile = Annotated[Path, typer.Option(help="Settings file; environment variables win.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]
ToolOrSourceName = Annotated[str, typer.Argument(metavar="NAME", help="The tool or the source.")]
DEFAULT_ENV_FILE = Path(".env")


def run_in_session(env_file: Path, work: "SessionWork[T]", *, can_create: bool = False) -> T:
    """Run `work` in a session.

    What a gateway would log is printed in its lines instead; only bugs of our own are logged.
    """
    from bot import logs
    from bot.cli.tools.session import open_session

    logs.configure("CRITICAL")

    async def open_and_run() -> T:
        async with open_session(env_file, can_create=can_create) as session:
            return await work(session)

    return asyncio.run(open_and_run())


def print_result(
    env_file: Path,
    work: "SessionWork[Iterable[str] | str]",
    *,
    can_create: bool = False,
) -> None:
    """Run `work` in a session, and print the line or the lines that it returns."""
    result = run_in_session(env_file, work, can_create=can_create)
    for line in [result] if isinstance(result, str) else result:
        typer.echo(line)
