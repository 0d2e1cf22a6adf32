"""Changes that no admin made: notices about what waits or fails, and refreshed OpenAPI documents.

What a document says today is stored; a tool that changed by it waits for an admin. Notices are one line a
source, so that a server with a hundred new tools is one line too, and files of TOOLS_DIR are one notice.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from bot.db import revisions
from bot.db.engine import Database
from bot.db.tools import sources, tools
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.errors import ChangeRefused
from bot.tool_registry.assembly import RegistryState
from bot.tool_registry.loader import RegistryRows, ToolSettings
from bot.tool_registry.secrets import SecretBox
from bot.tool_registry.sources import SIGN_IN
from bot.translations.formats import format_series
from bot.translations.translator import DeferredText, Translatable, Translator, defer

MAX_NAMED_TOOLS = 10  # tools of one source that a notice names, and lines of a list


def build_notices(rows: RegistryRows, state: RegistryState) -> Iterator[tuple[str, Translatable]]:
    """Yield subjects and texts of notices for admins. Pure.

    `rows` are those before the changes that `state` asks for.
    """
    pending_by_source: dict[str, list[StoredTool]] = defaultdict(list)
    for row in state.newly_pending:
        pending_by_source[row.source].append(row)
    for source_name, pending in pending_by_source.items():
        yield f"tools of {source_name}", partial(_format_pending, source_name, pending)
    sources_before = {source.name: source for source in rows.sources}
    file_troubles: list[Translatable] = []
    for name, trouble in state.trouble_changes.items():
        source = sources_before.get(name)
        # A server that is away words it differently each time; a file that is mended wrongly is news.
        # So is a sign-in, which only an admin can make.
        is_news = source is None or source.kind == "file" or source.trouble is None or SIGN_IN in str(trouble)
        if trouble is None or not is_news:
            continue
        text = defer("Tools of {source}: {trouble}.", source=name, trouble=trouble)
        if source is None or source.kind == "file":
            file_troubles.append(text)
        else:
            yield f"source {name}", text
    if file_troubles:
        yield "files of tools", partial(_format_file_troubles, file_troubles)
    if rows.secrets_error is not None:
        yield "secrets", DeferredText(rows.secrets_error)


def _format_file_troubles(troubles: list[Translatable], translate: Translator) -> str:
    return "\n".join(shorten_list(translate, [trouble(translate) for trouble in troubles]))


def shorten_list(translate: Translator, lines: list[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = len(lines) - MAX_NAMED_TOOLS
    if more <= 0:
        return lines
    return [*lines[:MAX_NAMED_TOOLS], translate("… and {count} more: /tools show NAME", count=more)]


def _format_pending(source_name: str, pending_rows: list[StoredTool], translate: Translator) -> str:
    shown = pending_rows[:MAX_NAMED_TOOLS]
    names = format_series(translate, (f"{row.name} ({_describe_reason(translate, row)})" for row in shown))
    unnamed = len(pending_rows) - MAX_NAMED_TOOLS
    if unnamed > 0:
        names = translate("{names} and {count} more", names=names, count=unnamed)
    return translate(
        "These tools of {source} are waiting for approval: {names}. /tools accept {source} shows them.",
        source=source_name,
        names=names,
    )


def _describe_reason(translate: Translator, row: StoredTool) -> str:
    reason = translate("changed") if row.definition else translate("new")
    if row.flagged:
        return translate("{reason}, please read its description closely", reason=reason)
    return reason


async def refresh_documents(database: Database, settings: ToolSettings) -> tuple[str, ...]:
    """Fetch every enabled OpenAPI document, one after the other; return what went wrong, a line each.

    Raises SettingsRefused if secrets cannot be decrypted.
    """
    secrets: Mapping[str, str] = {}
    async with database.read_transaction() as tx:
        documents = [
            source for source in await sources.list_all(tx) if source.kind == "openapi" and source.enabled
        ]
        if documents:
            secrets = await SecretBox(settings.secret_keys).decrypt_all(tx)
    lines: list[str] = []
    for source in documents:
        lines += await _refresh_source(database, source, secrets, settings.private_hosts)
    return tuple(lines)


async def _refresh_source(
    database: Database, source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> list[str]:
    from bot.tool_registry.openapi_sources import refresh_document  # few gateways have a document

    try:
        refreshed, lost = await refresh_document(source, secrets, private_hosts)
    except ChangeRefused as error:
        return [f"{source.name} stays as it was: {error}"]
    async with database.transaction() as tx:
        await tools.lock(tx)
        stored = await sources.find(tx, source.name)
        if stored is not None and stored.options == source.options != refreshed.options:
            await sources.put(tx, replace(stored, options=refreshed.options))
            await revisions.bump(tx, revisions.TOOLS)
    return [*lost]
