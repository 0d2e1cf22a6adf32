"""The sub-commands of `canvasgram tools`: options in, lines out. `bot.cli.main` prints the errors.

A command imports what it needs when it is called, as all commands do.
"""

from pathlib import Path
from typing import Annotated

import typer

from bot.cli.tools.secret_commands import secret
from bot.cli.tools.service_options import (
    BaseUrl,
    Basic,
    Cookie,
    Fixed,
    Header,
    Query,
    Variable,
    list_access_options,
)
from bot.cli.tools.session_runner import (
    DEFAULT_ENV_FILE,
    EnvFile,
    Json,
    ToolOrSourceName,
    print_result,
    run_in_session,
)

tools = typer.Typer(
    help="Add, list, try and grant tools, also beside a running gateway.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
tools.add_typer(secret, name="secret")


@tools.command("list", epilog="Examples: canvasgram tools list · canvasgram tools list --json")
def list_(json: Json = False, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """List every tool and every source. Shows state, grants and prompt cost."""
    from bot.cli.tools import actions

    print_result(env_file, lambda session: actions.list_tools(session, as_json=json))


@tools.command(
    "add",
    epilog="Examples: canvasgram tools add https://api.example.com/openapi.json --name shop --pick getItem · "
    "canvasgram tools add --mcp https://mcp.example.com/mcp --header 'Authorization: Bearer {shop}' · "
    "canvasgram tools add --stdio '/usr/local/bin/uvx mcp-server-time' --name time",
)
def add_(  # noqa: PLR0913  # an option is an argument here
    address: Annotated[str, typer.Argument(help="A URL, the file of a document, or a command with --stdio.")],
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
    search: Annotated[str, typer.Option(help="List only operations with these words.")] = "",
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
    personal: Annotated[
        bool, typer.Option("--personal", help="A connection for each person to the MCP server.")
    ] = False,
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
        search=search,
        access=list_access_options(
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
        personal=personal,
        confirmed=yes,
    )
    if stdio and may_install(address):
        typer.echo("It may have to be installed first, which may take minutes.", err=True)
    print_result(env_file, lambda session: add_tools(session, options), can_create=True)


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

    options = list_access_options(
        header=header,
        query=query,
        cookie=cookie,
        basic=basic,
        fixed=fixed,
        base_url=base_url,
        variable=variable,
    )
    hosts = tuple(confirm_host or ())
    print_result(env_file, lambda session: actions.configure_source(session, name, options, hosts))


@tools.command("signin", epilog="Example: canvasgram tools signin notes")
def sign_in(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Sign in to an MCP server, for the first time or again. Prints the link."""
    from bot.cli.tools import sign_in as sign_in_module

    print_result(env_file, lambda session: sign_in_module.sign_in(session, name))


@tools.command("remove", epilog="Example: canvasgram tools remove shop")
def remove(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Remove a source with all its tools, or one tool of a document."""
    from bot.cli.tools import actions

    print_result(env_file, lambda session: actions.remove_source_or_tool(session, name))


@tools.command("enable", epilog="Example: canvasgram tools enable shop_order")
def enable(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Enable a tool or a source."""
    _set_enabled(env_file, name, enabled=True)


@tools.command("disable", epilog="Example: canvasgram tools disable shop_order")
def disable(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Disable a tool or a source; its settings are kept."""
    _set_enabled(env_file, name, enabled=False)


def _set_enabled(env_file: Path, name: str, *, enabled: bool) -> None:
    from bot.cli.tools import actions

    print_result(env_file, lambda session: actions.set_enabled(session, name, enabled=enabled))


@tools.command("show", epilog="Examples: canvasgram tools show shop_order · … show shop_order --checked")
def show(
    name: ToolOrSourceName,
    checked: Annotated[
        bool, typer.Option("--checked", help="Show the schema that arguments must fit, not what is told.")
    ] = False,
    json: Json = False,
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Show a tool (what the model is told, rule, grants, cost, problems) or how a source is reached."""
    from bot.cli.tools import actions

    print_result(
        env_file,
        lambda session: actions.show_tool(session, name, as_json=json, show_checked=checked),
    )


@tools.command("try", epilog="""Example: canvasgram tools try clock '{"zone": "Asia/Tokyo"}'""")
def try_(
    name: ToolOrSourceName,
    arguments: Annotated[str, typer.Argument(help="Its arguments, as a JSON object.")] = "{}",
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Run a tool once and show result and time. Recorded in the audit log; ignores grants."""
    from bot.cli.tools import actions

    lines, succeeded = run_in_session(env_file, lambda session: actions.run_tool(session, name, arguments))
    typer.echo("\n".join(lines))
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

    print_result(env_file, lambda session: actions.accept_change(session, name, seen, allow_flagged=flagged))


@tools.command(
    "rule",
    epilog="Examples: canvasgram tools rule shop_order always admins · canvasgram tools rule search reads",
)
def rule(
    name: ToolOrSourceName,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RULE",
            help="never, once or always [asker|admins] [when JSON], reads, default, trusted or untrusted.",
        ),
    ],
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Set whether calls of a tool, or of a source's tools, need approval, and whose."""
    from bot.tool_registry.tool_settings import set_rule

    print_result(env_file, lambda session: session.change_setting(set_rule, name, " ".join(words)))


@tools.command("deliver", epilog="Example: canvasgram tools deliver browser_screenshot on")
def deliver(
    name: ToolOrSourceName,
    word: Annotated[str, typer.Argument(metavar="on|off", help="on or off.")],
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Set whether people are sent the pictures and files that a tool, or a source's tools, return."""
    from bot.tool_registry.tool_settings import set_delivery

    print_result(env_file, lambda session: session.change_setting(set_delivery, name, word))


@tools.command(
    "reduce",
    epilog="Examples: canvasgram tools reduce find_pages 'results[:6].{title: title, url: url}' · "
    "canvasgram tools reduce find_pages default",
)
def reduce(
    name: ToolOrSourceName,
    expression: Annotated[str, typer.Argument(help="A JMESPath, or default: the whole result.")],
    env_file: EnvFile = DEFAULT_ENV_FILE,
) -> None:
    """Set what the model reads of a tool's JSON result; `tools try` shows the size before and after."""
    from bot.tool_registry.tool_settings import set_reduction

    print_result(env_file, lambda session: session.change_setting(set_reduction, name, expression))


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

    print_result(env_file, lambda session: actions.set_timeout(session, name, " ".join(words)))


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
    _change_grant(env_file, name, whom, is_grant=True)


@tools.command(
    "revoke",
    context_settings=ALLOW_NEGATIVE_NUMBERS,
    epilog="Example: canvasgram tools revoke clock everyone",
)
def revoke(name: ToolOrSourceName, whom: GranteeWords, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Revoke a grant."""
    _change_grant(env_file, name, whom, is_grant=False)


def _change_grant(env_file: Path, name: str, whom: list[str], *, is_grant: bool) -> None:
    from bot.cli.tools import actions

    grantee = " ".join(whom)
    print_result(env_file, lambda session: actions.change_grant(session, name, grantee, is_grant=is_grant))


@tools.command("reload", epilog="Example: canvasgram tools reload")
def reload(env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Fetch documents and load Python files again. Changed tools wait until you accept them."""
    from bot.cli.tools import actions

    print_result(env_file, actions.reload_tools)


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

    print_result(env_file, lambda session: actions.list_calls(session, name, top, as_json=json))
