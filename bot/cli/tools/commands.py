"""The sub-commands of `canvasgram tools`: options in, lines out. `bot.cli.main` prints the errors.

A command imports what it needs when it is called, as all commands do.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from bot.cli.tools.session import ToolsSession


T = TypeVar("T")

tools = typer.Typer(
    help="Add, list, try and grant tools, also beside a running gateway.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
secret = typer.Typer(help="Store secrets of tools, encrypted and never shown.", no_args_is_help=True)
tools.add_typer(secret, name="secret")

EnvFile = Annotated[Path, typer.Option(help="Settings file; environment variables win.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]
ToolOrSourceName = Annotated[str, typer.Argument(metavar="NAME", help="The tool or the source.")]
DEFAULT_ENV_FILE = Path(".env")
Header = Annotated[
    list[str] | None, typer.Option(help="`NAME: VALUE` sent with each call; {name} stands for a secret.")
]
Query = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE in the query of each call; {name} stands for a secret.")
]
Cookie = Annotated[list[str] | None, typer.Option(help="NAME=VALUE as a cookie; {name} stands for a secret.")]
Basic = Annotated[str | None, typer.Option(help="NAME:{secret}, a name and a password (HTTP basic).")]
Fixed = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="NAME=VALUE of an argument that is the same in each call; the model neither sees nor gives it.",
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Where the service is, instead of the servers of the document.")
]
Variable = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE of a variable in the document's server.")
]


@tools.command("list", epilog="Examples: canvasgram tools list · canvasgram tools list --json")
def list_(json: Json = False, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """List every tool and every source. Shows state, grants and prompt cost."""
    from bot.cli.tools import actions

    _print(_run_in_session(env_file, lambda session: actions.list_tools(session, as_json=json)))


@tools.command(
    "add",
    epilog="Examples: canvasgram tools add https://api.example.com/openapi.json --name shop --pick getItem · "
    "canvasgram tools add --mcp https://mcp.example.com/mcp --header 'Authorization: Bearer {shop}' · "
    "canvasgram tools add --stdio '/usr/local/bin/uvx mcp-server-time' --name time",
)
def add_(  # noqa: PLR0913  # an option is an argument here
    address: Annotated[str, typer.Argument(help="A URL, or a command with --stdio.")],
    name: Annotated[str | None, typer.Option(help="Prefix of the tools' names.")] = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="The URL is an MCP server.")] = False,
    stdio: Annotated[bool, typer.Option("--stdio", help="The address is a command: start it here.")] = False,
    endpoint: Annotated[
        str | None, typer.Option(metavar="METHOD", help="The URL is a plain endpoint, called by METHOD.")
    ] = None,
    description: Annotated[str, typer.Option(help="What the endpoint does.")] = "",
    parameter: Annotated[
        list[str] | None, typer.Option(help="A parameter, as `city: the city's name`.")
    ] = None,
    pick: Annotated[
        list[str] | None,
        typer.Option(help="An operation of the document, or all; without it they are listed."),
    ] = None,
    header: Header = None,
    query: Query = None,
    cookie: Cookie = None,
    basic: Basic = None,
    fixed: Fixed = None,
    base_url: BaseUrl = None,
    variable: Variable = None,
    environment: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the command; {name} stands for a secret.")
    ] = None,
    home: Annotated[
        str | None, typer.Option(help="Home folder of the command; by default one beside the database.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds of a call; of an MCP server's, without progress.")
    ] = None,
    start_timeout: Annotated[
        float | None, typer.Option(help="Seconds in which an MCP server has to start.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option(help="Client registered for the sign-in of an MCP server.")
    ] = None,
    client_secret: Annotated[str | None, typer.Option(help="Its secret, as {name}.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Allow calls to other hosts, and an address that will be shown.")
    ] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Add tools of an OpenAPI document, an endpoint or an MCP server. Admins only until you grant them."""
    from bot.cli.tools.add import AddOptions, add_tools, may_install

    options = AddOptions(
        address=address,
        name=name,
        mcp=mcp,
        stdio=stdio,
        method=endpoint,
        description=description,
        parameters=tuple(parameter or ()),
        pick=tuple(pick or ()),
        access=_list_access_options(
            header=header,
            query=query,
            cookie=cookie,
            basic=basic,
            fixed=fixed,
            base_url=base_url,
            variable=variable,
        ),
        environment=tuple(environment or ()),
        home=home,
        timeout=timeout,
        start_timeout=start_timeout,
        client_id=client_id,
        client_secret=client_secret,
        confirmed=yes,
    )
    if stdio and may_install(address):
        typer.echo("It may have to be installed first, which may take minutes.", err=True)
    _print(_run_in_session(env_file, lambda session: add_tools(session, options)))


@tools.command(
    "configure",
    epilog="Examples: canvasgram tools configure shop --query 'api_key={shop}' · "
    "canvasgram tools configure shop --confirm-host eu.shop.example",
)
def configure(  # noqa: PLR0913  # an option is an argument here
    name: Annotated[str, typer.Argument(metavar="NAME", help="A document or an endpoint.")],
    header: Header = None,
    query: Query = None,
    cookie: Cookie = None,
    basic: Basic = None,
    fixed: Fixed = None,
    base_url: BaseUrl = None,
    variable: Variable = None,
    confirm_host: Annotated[list[str] | None, typer.Option(help="A host that calls may go to, too.")] = None,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Change how a service is reached, and keep its tools and grants. NAME= without a value removes one."""
    from bot.cli.tools import actions

    options = _list_access_options(
        header=header,
        query=query,
        cookie=cookie,
        basic=basic,
        fixed=fixed,
        base_url=base_url,
        variable=variable,
    )
    hosts = tuple(confirm_host or ())
    _print(_run_in_session(env_file, lambda session: actions.configure_source(session, name, options, hosts)))


@tools.command("signin", epilog="Example: canvasgram tools signin notes")
def sign_in(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Sign in to an MCP server, for the first time or again. Prints the link."""
    from bot.cli.tools import sign_in as sign_in_module

    _print(_run_in_session(env_file, lambda session: sign_in_module.sign_in(session, name)))


@tools.command("remove", epilog="Example: canvasgram tools remove shop")
def remove(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Remove a source with all its tools, or one tool of a document."""
    from bot.cli.tools import actions

    _print([_run_in_session(env_file, lambda session: actions.remove_source_or_tool(session, name))])


@tools.command("enable", epilog="Example: canvasgram tools enable shop_order")
def enable(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Enable a tool or a source."""
    from bot.cli.tools import actions

    _print([_run_in_session(env_file, lambda session: actions.set_enabled(session, name, enabled=True))])


@tools.command("disable", epilog="Example: canvasgram tools disable shop_order")
def disable(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Disable a tool or a source; its settings are kept."""
    from bot.cli.tools import actions

    _print([_run_in_session(env_file, lambda session: actions.set_enabled(session, name, enabled=False))])


@tools.command("show", epilog="Examples: canvasgram tools show shop_order · … show shop_order --checked")
def show(
    name: ToolOrSourceName,
    checked: Annotated[
        bool, typer.Option("--checked", help="Show the schema that arguments must fit, not what is told.")
    ] = False,
    json: Json = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show a tool: what the model is told, source, rule, grants, cost and problems."""
    from bot.cli.tools import actions

    _print(
        _run_in_session(
            env_file,
            lambda session: actions.show_tool(session, name, as_json=json, show_checked=checked),
        )
    )


@tools.command("try", epilog="""Example: canvasgram tools try clock '{"zone": "Asia/Tokyo"}'""")
def try_(
    name: ToolOrSourceName,
    arguments: Annotated[str, typer.Argument(help="Its arguments, as a JSON object.")] = "{}",
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Run a tool once and show result and time. Recorded in the audit log; ignores grants."""
    from bot.cli.tools import actions

    lines, succeeded = _run_in_session(env_file, lambda session: actions.run_tool(session, name, arguments))
    _print(lines)
    if not succeeded:
        raise typer.Exit(1)


@tools.command(
    "accept", epilog="Example: canvasgram tools accept shop_order, then again with the --seen it prints"
)
def accept(
    name: ToolOrSourceName,
    seen: Annotated[str | None, typer.Option(help="The hash printed with the change.")] = None,
    flagged: Annotated[
        bool, typer.Option("--flagged", help="Confirm that you read the suspicious words.")
    ] = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show what is new or changed about a tool, or a source's tools. With --seen, accept exactly that."""
    from bot.cli.tools import actions

    _print(
        _run_in_session(
            env_file, lambda session: actions.accept_change(session, name, seen, allow_flagged=flagged)
        )
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
    """Set whether calls of a tool, or of a source's tools, need approval, and whose."""
    from bot.cli.tools import actions

    _print([_run_in_session(env_file, lambda session: actions.set_rule(session, name, " ".join(words)))])


@tools.command(
    "timeout",
    epilog="Examples: canvasgram tools timeout docs 120 · canvasgram tools timeout docs 120 start 300",
)
def timeout(
    name: Annotated[str, typer.Argument(metavar="SOURCE", help="The source.")],
    words: Annotated[list[str], typer.Argument(metavar="LIMITS", help="SECONDS, start SECONDS, or default.")],
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Set how long a call of a source's tools may take, and the start of its MCP server."""
    from bot.cli.tools import actions

    _print([_run_in_session(env_file, lambda session: actions.set_timeout(session, name, " ".join(words)))])


GranteeWords = Annotated[
    list[str], typer.Argument(metavar="WHOM", help="everyone, admins, @name, a number, or chat NUMBER.")
]


# Numbers of groups are below zero, and must not be read as options.
ALLOW_NEGATIVE_NUMBERS = {"ignore_unknown_options": True}


@tools.command(
    "grant",
    context_settings=ALLOW_NEGATIVE_NUMBERS,
    epilog="Examples: canvasgram tools grant shop_list everyone · … grant shop_list 12345678",
)
def grant(name: ToolOrSourceName, whom: GranteeWords, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Grant a tool, or all tools of a source, to everyone, admins, a person or a chat."""
    from bot.cli.tools import actions

    grantee = " ".join(whom)
    _print(
        [
            _run_in_session(
                env_file, lambda session: actions.change_grant(session, name, grantee, is_grant=True)
            )
        ]
    )


@tools.command(
    "revoke",
    context_settings=ALLOW_NEGATIVE_NUMBERS,
    epilog="Example: canvasgram tools revoke clock everyone",
)
def revoke(name: ToolOrSourceName, whom: GranteeWords, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Revoke a grant."""
    from bot.cli.tools import actions

    grantee = " ".join(whom)
    _print(
        [
            _run_in_session(
                env_file, lambda session: actions.change_grant(session, name, grantee, is_grant=False)
            )
        ]
    )


@tools.command("reload", epilog="Example: canvasgram tools reload")
def reload(env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Fetch documents and load Python files again. Changed tools wait until you accept them."""
    from bot.cli.tools import actions

    _print(_run_in_session(env_file, actions.reload_tools))


@tools.command(
    "log", epilog="Examples: canvasgram tools log · canvasgram tools log shop_order --top 100 --json"
)
def log(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this tool.")] = None,
    top: Annotated[int, typer.Option(min=1, max=10_000, help="Number of calls.")] = 20,
    json: Json = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show the last tool calls. Who, where, arguments, duration and outcome; secrets stay hidden."""
    from bot.cli.tools import actions

    _print(_run_in_session(env_file, lambda session: actions.list_calls(session, name, top, as_json=json)))


@secret.command(
    "set",
    epilog='Examples: canvasgram tools secret set shop · printf %s "$KEY" | canvasgram tools secret set shop',
)
def set_secret(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Store a secret, typed without echo or read from a pipe."""
    from bot.cli.tools import actions

    if sys.stdin.isatty():
        value = typer.prompt("Secret", hide_input=True)
    else:
        value = sys.stdin.readline().rstrip("\r\n")
    _print([_run_in_session(env_file, lambda session: actions.store_secret(session, name, str(value)))])


@secret.command("remove", epilog="Example: canvasgram tools secret remove shop")
def remove_secret(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Delete a secret, and list the sources that still use it."""
    from bot.cli.tools import actions

    _print([_run_in_session(env_file, lambda session: actions.remove_secret(session, name))])


@secret.command("list", epilog="Example: canvasgram tools secret list")
def list_secrets(json: Json = False, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """List the names of all secrets."""
    from bot.cli.tools import actions

    _print(_run_in_session(env_file, lambda session: actions.list_secrets(session, as_json=json)))


@secret.command(
    "rotate",
    epilog="Example: put a new key before the old one in SECRETS_KEY, then canvasgram tools secret rotate",
)
def rotate_secrets(env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Re-encrypt all secrets with the first key of SECRETS_KEY."""
    from bot.cli.tools import actions

    _print([_run_in_session(env_file, actions.rotate_secrets)])


def _list_access_options(**texts: list[str] | str | None) -> tuple[tuple[str, str], ...]:
    """The options that say how a service is reached, as names and texts."""
    options: list[tuple[str, str]] = []
    for name, text in texts.items():
        option = "set" if name == "fixed" else name.replace("_", "-")
        if isinstance(text, str):
            options.append((option, text))
        else:
            options += [(option, each) for each in text or ()]
    return tuple(options)


def _run_in_session(env_file: Path, run: Callable[["ToolsSession"], Awaitable[T]]) -> T:
    """Run something in a session.

    What a gateway would log is printed in its lines instead; only bugs of our own are logged.
    """
    from bot import logs
    from bot.cli.tools.session import open_session

    logs.configure("CRITICAL")

    async def open_and_run() -> T:
        async with open_session(env_file) as session:
            return await run(session)

    return asyncio.run(open_and_run())


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)
