"""Adds tools on the machine: from a document, an endpoint, or an MCP server at a URL or started here."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.cli.tools.session import ToolsSession
from bot.cli.tools.sign_in import sign_in_and_add
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.errors import ChangeRefused, NeedsConfirming
from bot.tool_registry import openapi_sources
from bot.tool_registry.add_source import extend_source, refuse_taken_source, register_source
from bot.tool_registry.configure_source import check_fixed_names
from bot.tool_registry.endpoint_params import build_parameter_schema, suggest_name
from bot.tool_registry.formatting import format_add_result
from bot.tool_registry.openapi_sources import DocumentPreview
from bot.tool_registry.operation_search import search_operations
from bot.tool_registry.previews import (
    SignInRequired,
    SourcePreview,
    SourceRequest,
    check_source_name,
    preview_endpoint,
    preview_server,
)
from bot.tool_registry.program_homes import delete_home
from bot.tool_registry.secret_references import remove_references
from bot.tool_registry.secret_scanner import has_likely_secret
from bot.tool_registry.service_access import (
    check_access,
    parse_access,
    parse_pair,
    read_access,
    refuse_plain_secret,
)
from bot.tool_registry.sources import NOBODY
from bot.tool_registry.time_limits import TimeLimits
from bot.translations.translator import ENGLISH
from bot.usage.plain_text import escape_for_terminal

SERVICE_OPTIONS = ("query", "cookie", "basic", "set")
SERVER_OPTIONS = ("base-url", "variable")


@dataclass(frozen=True, slots=True)
class AddOptions:
    """What was asked for on the command line; one of `mcp`, `stdio` and `method` at most.

    `access` are names and texts of ACCESS_OPTIONS.
    """

    address: str
    name: str | None = None
    mcp: bool = False
    stdio: bool = False
    method: str | None = None
    description: str = ""
    parameters: tuple[str, ...] = ()
    pick: tuple[str, ...] = ()
    search: str = ""
    access: tuple[tuple[str, str], ...] = ()
    environment: tuple[str, ...] = ()
    home: str | None = None
    timeout: float | None = None
    start_timeout: float | None = None
    client_id: str | None = None
    client_secret: str | None = None
    personal: bool = False
    confirmed: bool = False


async def add_tools(session: ToolsSession, options: AddOptions) -> list[str]:
    """Add the tools; return the lines to print. Raises ChangeRefused.

    Of a document without a pick only its operations are listed.
    """
    if options.mcp + options.stdio + (options.method is not None) > 1:
        raise ChangeRefused("Take one of --mcp, --stdio and --endpoint.")
    _check_options(options)
    request = _build_request(session, options)
    _refuse_plain_secrets(request, confirmed=options.confirmed)
    if options.stdio:
        return await _add_program(session, request, options.pick)
    if options.mcp:
        try:
            preview = await preview_server(request, await session.load_secrets(), is_remote=True)
        except SignInRequired as required:
            return await sign_in_and_add(session, required.source, options.pick)
        return await _add_source(session, preview, options.pick)
    if options.method is not None:
        if not options.description:
            raise ChangeRefused("Say in --description what the endpoint does: the model reads it.")
        schema = build_parameter_schema(options.parameters)
        preview = await preview_endpoint(request, options.method, options.description, schema)
        return await _add_source(session, preview)
    source = await _find_document(session, request)
    if source is not None and options.pick:
        return await _extend_document(session, source, options)
    document_preview = await openapi_sources.preview_document(request, await session.load_secrets())
    if not options.pick:
        return list(_format_operations(document_preview, options.search))
    return await _add_operations(session, request, document_preview, options)


def may_install(command_line: str) -> bool:
    """Whether starting this command may download it first."""
    from tools.mcp.location import is_installer

    try:
        return is_installer(shlex.split(command_line))
    except (ValueError, IndexError):  # it is no command, which adding it says
        return False


def _check_options(options: AddOptions) -> None:
    """Refuse options that would be ignored silently."""
    is_endpoint = options.method is not None
    is_service = not options.mcp and not options.stdio
    given = {option for option, _ in options.access}
    for option, is_given, fits, kind in (
        ("--environment", options.environment, options.stdio, "with --stdio"),
        ("--home", options.home, options.stdio, "with --stdio"),
        ("--start-timeout", options.start_timeout, options.stdio or options.mcp, "with --mcp or --stdio"),
        ("--header", "header" in given, not options.stdio, "with a URL"),
        ("--personal", options.personal, options.stdio or options.mcp, "with --mcp or --stdio"),
        ("--client-id", options.client_id, options.mcp, "with --mcp"),
        ("--client-secret", options.client_secret, options.client_id, "with --client-id"),
        *(
            (f"--{option}", option in given, is_service, "with a document or an endpoint")
            for option in SERVICE_OPTIONS
        ),
        *(
            (f"--{option}", option in given, is_service and not is_endpoint, "with a document")
            for option in SERVER_OPTIONS
        ),
        ("--description", options.description, is_endpoint, "with --endpoint"),
        ("--parameter", options.parameters, is_endpoint, "with --endpoint"),
        ("--pick", options.pick, not is_endpoint, "without --endpoint"),
        ("--search", options.search, is_service and not is_endpoint and not options.pick, "without --pick"),
    ):
        if is_given and not fits:
            raise ChangeRefused(f"{option} goes {kind} only.")


async def _add_program(
    session: ToolsSession, request: SourceRequest, selected_names: Sequence[str]
) -> list[str]:
    """Start a program and add its tools; of one that cannot be added no home is left."""
    check_source_name(request.name)
    async with session.database.read_transaction() as tx:
        await refuse_taken_source(tx, request.name)
    try:
        preview = await preview_server(request, await session.load_secrets(), is_remote=False)
        return await _add_source(session, preview, selected_names)
    except BaseException:
        if request.homes is not None and not request.home:
            delete_home(request.homes / request.name)
        raise


async def _find_document(session: ToolsSession, request: SourceRequest) -> Source | None:
    """The source that is this document under this name already."""
    async with session.database.read_transaction() as tx:
        source = await sources.find(tx, request.name)
    if source is not None and (source.kind, source.address) == ("openapi", request.address):
        return source
    return None


async def _extend_document(session: ToolsSession, source: Source, options: AddOptions) -> list[str]:
    """Add more operations of a document that is a source already."""
    if options.access:
        raise ChangeRefused(
            f"There is a source {source.name} already. Change how it is reached with "
            f"`canvasgram tools configure {source.name}`, then pick."
        )
    if options.timeout is not None:
        raise ChangeRefused(
            f"There is a source {source.name} already. Change its time limit with "
            f"`canvasgram tools timeout {source.name} {options.timeout:g}`, then pick."
        )
    operations = openapi_sources.resolve_operations(source, options.pick)
    preview = await openapi_sources.fetch_and_preview_operations(
        _confirm_hosts(source, operations, options),
        operations,
        await session.load_secrets(),
        session.tool_settings.private_hosts,
    )
    async with session.open_action() as action:
        result = await extend_source(action, preview)
    return [*format_add_result(ENGLISH, result), *map(escape_for_terminal, preview.warnings)]


def _confirm_hosts(source: Source, operations: Sequence[str], options: AddOptions) -> Source:
    """The source with the hosts of these operations confirmed. Raises NeedsConfirming without --yes."""
    hosts = openapi_sources.find_unconfirmed_hosts(source, operations)
    if hosts and not options.confirmed:
        reason = f"{source.name} is at {source.address}, but these calls would go to {', '.join(hosts)}."
        raise NeedsConfirming(reason, reasons=("Say --yes if they shall.",))
    return openapi_sources.with_confirmed_hosts(source, hosts)


async def _add_operations(
    session: ToolsSession, request: SourceRequest, document_preview: DocumentPreview, options: AddOptions
) -> list[str]:
    source = document_preview.source
    operations = openapi_sources.resolve_operations(source, options.pick)
    source = _confirm_hosts(source, operations, options)
    preview = await openapi_sources.preview_operations(
        source, document_preview.document, operations, request.private_hosts
    )
    return await _add_source(session, preview)


async def _add_source(
    session: ToolsSession, preview: SourcePreview, selected_names: Sequence[str] = ()
) -> list[str]:
    check_fixed_names(preview.source, read_access(preview.source.options).fixed)
    async with session.open_action() as action:
        result = await register_source(action, preview, selected_names or None)
    return [*format_add_result(ENGLISH, result), *map(escape_for_terminal, preview.warnings)]


def _format_operations(document_preview: DocumentPreview, search: str) -> Iterable[str]:
    """The operations of a document, or those that a search finds, and how to continue."""
    operations = openapi_sources.list_operations(document_preview.source)
    indices: Iterable[int] = range(len(operations))
    if search:
        indices = search_operations(operations, search)
    for index in indices:
        operation = operations[index]
        path = escape_for_terminal(operation.path)
        line = f"{index + 1}. {escape_for_terminal(operation.operation)} · {operation.method} {path}"
        if operation.summary:
            line += f" – {escape_for_terminal(operation.summary)}"
        yield line
    yield from map(escape_for_terminal, document_preview.warnings)
    for suggestion in document_preview.suggestions:
        yield escape_for_terminal(suggestion.format_for_command_line())
    yield "Nothing is added yet: say --pick with a name or a number, as often as you like, or --pick all."


def _find_document_file(address: str) -> str:
    """The file: URL of a document on this machine. Raises ChangeRefused."""
    path = Path(address).expanduser()
    if not path.is_file():
        raise ChangeRefused(f"There is no file {address[:200]}, and it is no URL. Give one of both.")
    return path.resolve().as_uri()


def _build_request(session: ToolsSession, options: AddOptions) -> SourceRequest:
    name = options.name
    address = options.address
    is_document = not (options.mcp or options.stdio or options.method)
    if is_document and "://" not in address:
        name = name or suggest_name(Path(address).name)
        address = _find_document_file(address)
    if not name and "://" in address:
        name = suggest_name(address)
    if not name:
        raise ChangeRefused("Say --name: the tools' names will begin with it.")
    return SourceRequest(
        name=name,
        address=address,
        access=parse_access(options.access),
        environment=dict(parse_pair("environment", variable, "=") for variable in options.environment),
        home=str(Path(options.home).absolute()) if options.home else None,  # a gateway may run elsewhere
        private_hosts=session.tool_settings.private_hosts,
        homes=session.tool_settings.homes,
        time_limits=TimeLimits(options.timeout, options.start_timeout),
        client=_parse_client(options),
        personal=NOBODY if options.personal else None,
    )


def _parse_client(options: AddOptions) -> dict[str, str]:
    """Return the client that was registered for sign-ins; its secret is named only."""
    client = {"client_id": options.client_id, "client_secret": options.client_secret}
    if options.client_secret is not None and remove_references(options.client_secret):
        raise ChangeRefused(
            "Keep the client's secret with `canvasgram tools secret set NAME` and write {NAME} here."
        )
    return {key: value for key, value in client.items() if value is not None}


def _refuse_plain_secrets(request: SourceRequest, *, confirmed: bool) -> None:
    """Refuse a secret in what is stored unencrypted and shown in lists; there it is named only."""
    check_access(request.access)
    for name, value in request.environment.items():
        refuse_plain_secret(name, value)
    if has_likely_secret(request.address) and not confirmed:
        reason = "The address looks as if it held a secret; it would be kept in the open and shown in lists."
        raise NeedsConfirming(reason, reasons=("Say --yes if it may be.",))
