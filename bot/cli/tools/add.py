"""Adding tools on the machine: by what is named, a document, an endpoint, an MCP server at a URL or started
here.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.cli.tools.session import ToolsSession
from bot.errors import ChangeRefused, NeedsConfirming
from bot.tool_registry import add_source as adding
from bot.tool_registry import formatting as words
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry import previews as offers
from bot.tool_registry import secret_scanner as keys
from bot.tool_registry.endpoint_params import build_parameter_schema, suggest_name
from bot.tool_registry.openapi_sources import DocumentPreview
from bot.tool_registry.previews import SourcePreview, SourceRequest
from bot.usage.plain_text import escape_for_terminal

_SECRET_REFERENCE = re.compile(r"\{[A-Za-z0-9_-]+\}")


@dataclass(frozen=True, slots=True)
class AddOptions:
    """What was asked for on the command line, word by word; one of `mcp`, `stdio` and `method` at most."""

    address: str
    name: str | None = None
    mcp: bool = False
    stdio: bool = False
    method: str | None = None
    description: str = ""
    parameters: tuple[str, ...] = ()
    pick: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    home: str | None = None
    confirmed: bool = False


async def add_tools(session: ToolsSession, options: AddOptions) -> list[str]:
    """Add it; the lines to print. Of a document without a pick only what there is to pick. Raises
    ChangeRefused.
    """
    if options.mcp + options.stdio + (options.method is not None) > 1:
        raise ChangeRefused("Take one of --mcp, --stdio and --endpoint.")
    _check_options(options)
    wish = _build_request(session, options)
    _refuse_plain_secrets(wish, confirmed=options.confirmed)
    if options.mcp or options.stdio:
        offer = await offers.preview_server(wish, await session.load_secrets(), is_remote=options.mcp)
        return await _add_source(session, offer, options.pick)
    if options.method is not None:
        if not options.description:
            raise ChangeRefused("Say in --description what the endpoint does: the model reads it.")
        return await _add_source(
            session,
            offers.preview_endpoint(
                wish, options.method, options.description, build_parameter_schema(options.parameters)
            ),
        )
    looked = await documents.preview_document(wish, await session.load_secrets())
    if not options.pick:
        return list(_format_operations(looked))
    return await _add_operations(session, wish, looked, options)


def _check_options(options: AddOptions) -> None:
    """Refuse what would be passed over in silence."""
    is_endpoint = options.method is not None
    for option, is_given, fits, kind in (
        ("--environment", options.environment, options.stdio, "with --stdio"),
        ("--home", options.home, options.stdio, "with --stdio"),
        ("--header", options.headers, not options.stdio, "with a URL"),
        ("--description", options.description, is_endpoint, "with --endpoint"),
        ("--parameter", options.parameters, is_endpoint, "with --endpoint"),
        ("--pick", options.pick, not is_endpoint, "without --endpoint"),
    ):
        if is_given and not fits:
            raise ChangeRefused(f"{option} goes {kind} only.")


async def _add_operations(
    session: ToolsSession, request: SourceRequest, document_preview: DocumentPreview, options: AddOptions
) -> list[str]:
    chosen = documents.resolve_operations(document_preview.source, options.pick)
    hosts = documents.find_unconfirmed_hosts(document_preview.source, chosen)
    source = document_preview.source
    if hosts and not options.confirmed:
        why = f"{source.name} is at {source.address}, but these calls would go to {', '.join(hosts)}."
        raise NeedsConfirming(why, ("Say --yes if they shall.",))
    if hosts:
        source = documents.with_confirmed_hosts(source, hosts)
    return await _add_source(
        session,
        await documents.preview_operations(source, document_preview.document, chosen, request.private_hosts),
    )


async def _add_source(
    session: ToolsSession, preview: SourcePreview, selected_names: Sequence[str] = ()
) -> list[str]:
    async with session.open_action() as act:
        done = await adding.register_source(act, preview, selected_names or None)
    return [*words.format_add_result(done), *(escape_for_terminal(one) for one in preview.warnings)]


def _format_operations(document_preview: DocumentPreview) -> Iterable[str]:
    """What a document offers, and how to go on."""
    for number, one in enumerate(documents.list_operations(document_preview.source), start=1):
        summary = f" – {escape_for_terminal(one.summary)}" if one.summary else ""
        yield f"{number}. {escape_for_terminal(one.operation)} · {one.method} {escape_for_terminal(one.path)}{summary}"
    yield from (escape_for_terminal(one) for one in document_preview.warnings)
    yield "Nothing is added yet: say --pick with a name or a number, as often as you like, or --pick all."


def _build_request(session: ToolsSession, options: AddOptions) -> SourceRequest:
    name = options.name or (suggest_name(options.address) if "://" in options.address else "")
    if not name:
        raise ChangeRefused("Say --name: the tools' names will begin with it.")
    return SourceRequest(
        name=name,
        address=options.address,
        headers=dict(_parse_pair("--header", one, ":") for one in options.headers),
        environment=dict(_parse_pair("--environment", one, "=") for one in options.environment),
        home=str(Path(options.home).absolute()) if options.home else None,  # a gateway may run elsewhere
        private_hosts=session.tool_settings.private_hosts,
    )


def _refuse_plain_secrets(request: SourceRequest, *, confirmed: bool) -> None:
    """What is kept in the open, and shown in lists, shall hold no secret but by its name."""
    for name, value in {**request.headers, **request.environment}.items():
        if keys.has_likely_secret(_SECRET_REFERENCE.sub("", value)) or (
            keys.is_secret_name(name) and not _SECRET_REFERENCE.search(value)
        ):
            why = f"The value of {name} looks like a secret and would be kept in the open."
            raise ChangeRefused(
                f"{why} Keep it with `canvasgram tools secret set NAME` and write {{NAME}} here."
            )
    if keys.has_likely_secret(request.address) and not confirmed:
        why = "The address looks as if it held a secret; it would be kept in the open and shown in lists."
        raise NeedsConfirming(why, ("Say --yes if it may be.",))


def _parse_pair(option: str, text: str, separator: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise ChangeRefused(
            f"{option} is written as NAME{separator} VALUE; a secret stands in it as {{name}}."
        )
    return name.strip(), value.strip()
