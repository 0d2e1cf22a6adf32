"""The sub-commands of `canvasgram tools`: options in, lines out. Errors are printed by whoever runs them.

A command imports its rooms when it is called, as all commands do.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from bot.cli.tools.session import ToolsSession


T = TypeVar("T")

tools = typer.Typer(
    help="Tools that admins add: list, try, grant and look after them, also beside a running gateway.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
secret = typer.Typer(help="Secrets of tools: entered here, sealed, never shown.", no_args_is_help=True)
tools.add_typer(secret, name="secret")

EnvFile = Annotated[Path, typer.Option(help="The file of settings; the environment goes before it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]
ToolOrSourceName = Annotated[str, typer.Argument(metavar="NAME", help="The tool, or the source.")]
DEFAULT_ENV_FILE = Path(".env")


@tools.command("list", epilog="Examples: canvasgram tools list · canvasgram tools list --json")
def list_(json: Json = False, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """List every tool: how it stands, who may use it, what it costs; then the sources."""
    from bot.cli.tools import actions as acts

    _print(_run_in_session(env_file, lambda desk: acts.list_tools(desk, as_json=json)))


@tools.command(
    "add",
    epilog="Examples: canvasgram tools add https://api.example.com/openapi.json --name shop --pick getItem · "
    "canvasgram tools add --mcp https://mcp.example.com/mcp --header 'Authorization: Bearer {shop}' · "
    "canvasgram tools add --stdio '/usr/local/bin/uvx mcp-server-time' --name time",
)
def add_(  # noqa: PLR0913  # an option is an argument here
    address: Annotated[str, typer.Argument(help="A URL; with --stdio a command.")],
    name: Annotated[str | None, typer.Option(help="What the tools' names begin with.")] = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="The URL is an MCP server's.")] = False,
    stdio: Annotated[bool, typer.Option("--stdio", help="A command that starts an MCP server here.")] = False,
    endpoint: Annotated[
        str | None, typer.Option(metavar="METHOD", help="The URL is one plain endpoint.")
    ] = None,
    description: Annotated[str, typer.Option(help="What the endpoint does.")] = "",
    parameter: Annotated[
        list[str] | None, typer.Option(help="Of the endpoint: `city: the city's name`.")
    ] = None,
    pick: Annotated[
        list[str] | None, typer.Option(help="An operation of the document, or all; else they are listed.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="Sent with each call; {name} stands for a secret.")
    ] = None,
    environment: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the command; {name} for a secret.")
    ] = None,
    home: Annotated[
        str | None, typer.Option(help="A folder the command may keep; else it gets an empty one for a while.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Calls may go to other hosts, or the address may be shown.")
    ] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Add tools: of an OpenAPI document, one endpoint, or an MCP server. Admins alone may use them until you
    grant.
    """
    from bot.cli.tools.add import AddOptions, add_tools

    several = (tuple(some or ()) for some in (parameter, pick, header, environment))
    parameters, picked, headers, variables = several
    asked = AddOptions(
        *(address, name, mcp, stdio, endpoint, description, parameters, picked, headers, variables, home),
        confirmed=yes,
    )
    _print(_run_in_session(env_file, lambda desk: add_tools(desk, asked)))


@tools.command("remove", epilog="Example: canvasgram tools remove shop")
def remove(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Remove a source with all its tools, or one tool of a document."""
    from bot.cli.tools import actions as acts

    _print([_run_in_session(env_file, lambda desk: acts.remove_source_or_tool(desk, name))])


@tools.command("enable", epilog="Example: canvasgram tools enable shop_order")
def enable(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Have a tool, or a source, be used again."""
    from bot.cli.tools import actions as acts

    _print([_run_in_session(env_file, lambda desk: acts.set_enabled(desk, name, enabled=True))])


@tools.command("disable", epilog="Example: canvasgram tools disable shop_order")
def disable(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Have a tool, or a source, rest; what was set stays."""
    from bot.cli.tools import actions as acts

    _print([_run_in_session(env_file, lambda desk: acts.set_enabled(desk, name, enabled=False))])


@tools.command("show", epilog="Example: canvasgram tools show shop_order")
def show(name: ToolOrSourceName, json: Json = False, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Show a tool: definition, source, rule, grants, cost, trouble."""
    from bot.cli.tools import actions as acts

    _print(_run_in_session(env_file, lambda desk: acts.show_tool(desk, name, as_json=json)))


@tools.command("try", epilog="""Example: canvasgram tools try clock '{"zone": "Asia/Tokyo"}'""")
def try_(
    name: ToolOrSourceName,
    arguments: Annotated[str, typer.Argument(help="Its arguments, a JSON object.")] = "{}",
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Run a tool once with these arguments and show call, result and time; recorded, and past every grant."""
    from bot.cli.tools import actions as acts

    lines, well = _run_in_session(env_file, lambda desk: acts.run_tool(desk, name, arguments))
    _print(lines)
    if not well:
        raise typer.Exit(1)


@tools.command(
    "accept", epilog="Example: canvasgram tools accept shop_order, then again with the --seen it prints"
)
def accept(
    name: ToolOrSourceName,
    seen: Annotated[str | None, typer.Option(help="What the difference was shown with.")] = None,
    flagged: Annotated[
        bool, typer.Option("--flagged", help="Its words want a second look, and had it.")
    ] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show what is new or changed about a tool; with --seen, accept just that."""
    from bot.cli.tools import actions as acts

    _print(
        _run_in_session(env_file, lambda desk: acts.accept_change(desk, name, seen, allow_flagged=flagged))
    )


@tools.command("rule", epilog="Example: canvasgram tools rule shop_order always admins")
def rule(
    name: ToolOrSourceName,
    words: Annotated[
        list[str],
        typer.Argument(metavar="RULE", help="never, once or always [asker|admins] [when JSON], or default."),
    ],
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Set whether calls of a tool ask a person first, and whom."""
    from bot.cli.tools import actions as acts

    _print([_run_in_session(env_file, lambda desk: acts.set_rule(desk, name, " ".join(words)))])


GranteeWords = Annotated[
    list[str], typer.Argument(metavar="WHOM", help="everyone, admins, @name, a number, or chat NUMBER.")
]


# Numbers of groups are below zero: they are no options.
ALLOW_NEGATIVE_NUMBERS = {"ignore_unknown_options": True}


@tools.command(
    "grant",
    context_settings=ALLOW_NEGATIVE_NUMBERS,
    epilog="Examples: canvasgram tools grant shop_list everyone · … grant shop_list 12345678",
)
def grant(name: ToolOrSourceName, whom: GranteeWords, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Let somebody use a tool."""
    from bot.cli.tools import actions as acts

    _print(
        [_run_in_session(env_file, lambda desk: acts.change_grant(desk, name, " ".join(whom), is_grant=True))]
    )


@tools.command(
    "revoke",
    context_settings=ALLOW_NEGATIVE_NUMBERS,
    epilog="Example: canvasgram tools revoke clock everyone",
)
def revoke(name: ToolOrSourceName, whom: GranteeWords, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Take a grant back."""
    from bot.cli.tools import actions as acts

    _print(
        [
            _run_in_session(
                env_file, lambda desk: acts.change_grant(desk, name, " ".join(whom), is_grant=False)
            )
        ]
    )


@tools.command("reload", epilog="Example: canvasgram tools reload")
def reload(env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Fetch documents anew and have a running gateway load its files anew; what changed waits to be accepted."""
    from bot.cli.tools import actions as acts

    _print(_run_in_session(env_file, acts.reload_tools))


@tools.command(
    "log", epilog="Examples: canvasgram tools log · canvasgram tools log shop_order --top 100 --json"
)
def log(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this tool.")] = None,
    top: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 20,
    json: Json = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show the last calls of tools: who, where, with what, how long, and what came of it; secrets stay
    hidden.
    """
    from bot.cli.tools import actions as acts

    _print(_run_in_session(env_file, lambda desk: acts.list_calls(desk, name, top, as_json=json)))


@secret.command(
    "set",
    epilog='Examples: canvasgram tools secret set shop · printf %s "$KEY" | canvasgram tools secret set shop',
)
def set_secret(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Keep a secret, asked for without showing it, or read from a pipe."""
    from bot.cli.tools import actions as acts

    if sys.stdin.isatty():
        value = typer.prompt("Secret", hide_input=True)
    else:
        value = sys.stdin.readline().rstrip("\r\n")
    _print([_run_in_session(env_file, lambda desk: acts.store_secret(desk, name, str(value)))])


@secret.command("remove", epilog="Example: canvasgram tools secret remove shop")
def remove_secret(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Forget a secret, and say which sources still name it."""
    from bot.cli.tools import actions as acts

    _print([_run_in_session(env_file, lambda desk: acts.remove_secret(desk, name))])


@secret.command("list", epilog="Example: canvasgram tools secret list")
def list_secrets(json: Json = False, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """List the names of all secrets."""
    from bot.cli.tools import actions as acts

    _print(_run_in_session(env_file, lambda desk: acts.list_secrets(desk, as_json=json)))


@secret.command(
    "rotate",
    epilog="Example: put a new key before the old one in SECRETS_KEY, then canvasgram tools secret rotate",
)
def rotate_secrets(env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Seal all secrets with the first key of SECRETS_KEY."""
    from bot.cli.tools import actions as acts

    _print([_run_in_session(env_file, acts.rotate_secrets)])


def _run_in_session(env_file: Path, run: Callable[["ToolsSession"], Awaitable[T]]) -> T:
    """Do something at the desk; what a gateway would log is said in its lines, but for a fault of our own,
    and for what a program of this machine writes: nothing else tells why it ended.
    """
    from bot import logs
    from bot.cli.tools.session import open_session

    logs.configure("CRITICAL")
    logging.getLogger("tools.mcp.stdio").setLevel(logging.INFO)

    async def doing() -> T:
        async with open_session(env_file) as desk:
            return await run(desk)

    return asyncio.run(doing())


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)
