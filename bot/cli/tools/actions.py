"""What the sub-commands but `add` do, each in one transaction, and the lines they print.

Raises ChangeRefused.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

from bot.cli.tools.session import ToolsSession
from bot.db import revisions
from bot.db.tools import call_log, sources
from bot.db.tools.audit import MACHINE
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.tool_registry import (
    admin_actions,
    formatting,
    grants,
    secrets,
    source_actions,
    try_tool,
)
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.changes import refresh_documents
from bot.tool_registry.configure_source import preview_configuration, store_configuration
from bot.tool_registry.program_homes import delete_home, is_own_home
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.secret_scanner import mask_secrets
from bot.tool_registry.service_access import parse_access
from bot.tool_registry.source_actions import change_tools
from bot.tool_registry.source_info import format_source, load_source_info, to_source_record
from bot.tool_registry.sources import NOBODY
from bot.tool_registry.time_limits import format_time_limits, parse_time_limits, set_time_limits
from bot.tool_registry.tool_info import ToolInfo, derive_told_schema, load_tool_info, load_tool_infos
from bot.tool_registry.try_tool import Trial
from bot.translations.translator import ENGLISH
from bot.usage.plain_text import escape_for_terminal

HASH_PREFIX_CHARS = 12  # of a hash, to name a definition by


async def list_tools(session: ToolsSession, *, as_json: bool) -> list[str]:
    """List every tool and every source."""
    lookup_name = await session.load_name_lookup()
    async with session.database.read_transaction() as tx:
        infos = await load_tool_infos(tx, session.builtin_tools)
        all_sources = await sources.list_all(tx)
    if as_json:
        return [json.dumps([_to_record(info) for info in infos], indent=1)]
    lines = [formatting.format_tool_line(ENGLISH, info, lookup_name) for info in infos]
    if all_sources:
        lines += ["", "Sources:", *(formatting.format_source_line(ENGLISH, source) for source in all_sources)]
    return lines


async def show_tool(
    session: ToolsSession, name: str, *, as_json: bool, show_checked: bool = False
) -> list[str]:
    """Show everything about a tool, or else a source."""
    async with session.database.read_transaction() as tx:
        source = await sources.find(tx, name)
        if source is not None and source.kind != "endpoint":
            homes = session.tool_settings.homes
            source_info = await load_source_info(tx, session.builtin_tools, source, homes)
            if as_json:
                return [json.dumps(to_source_record(source_info), indent=1)]
            return list(format_source(ENGLISH, source_info))
        info = await load_tool_info(tx, session.builtin_tools, name)
    if as_json:
        definition = info.effective_definition
        schemas = {"definition": dict(definition), "told": derive_told_schema(definition, info.source_kind)}
        return [json.dumps(_to_record(info) | schemas, indent=1)]
    lookup_name = await session.load_name_lookup()
    return list(formatting.format_tool(ENGLISH, info, lookup_name, show_checked=show_checked))


async def set_enabled(session: ToolsSession, name: str, *, enabled: bool) -> str:
    async with session.open_action() as action:
        kind = await admin_actions.set_enabled(action, name, enabled=enabled)
    state = "on" if enabled else "off"
    scope = " with all its tools" if kind == "source" else ""
    return f"{name} is {state}{scope}."


async def remove_source_or_tool(session: ToolsSession, name: str) -> str:
    async with session.open_action() as action:
        source = await sources.find(action.tx, name)
        removed = await admin_actions.remove_source_or_tool(action, name)
    homes = session.tool_settings.homes
    if source is not None and homes is not None and is_own_home(source):
        delete_home(homes / name)  # a running gateway does so as well, once its program has ended
    return f"Removed: {', '.join(removed) or name}."


async def configure_source(
    session: ToolsSession, name: str, options: Sequence[tuple[str, str]], confirmed_hosts: Sequence[str]
) -> list[str]:
    """Change how a service is reached; list what holds now."""
    async with session.database.read_transaction() as tx:
        source = await sources.find(tx, name)
    if source is None:
        raise ChangeRefused(f"There is no source called {name[:60]}.")
    configured = await preview_configuration(
        source,
        parse_access(options),
        confirmed_hosts,
        await session.load_secrets(),
        session.tool_settings.private_hosts,
    )
    async with session.open_action() as action:
        lines = await store_configuration(action, configured)
    await _build_registry(session).load()  # stores what waits for an admin by that
    return [f"{name} has been changed.", *map(escape_for_terminal, (*lines, *configured.warnings))]


async def accept_change(
    session: ToolsSession, name: str, seen_hash: str | None, *, allow_flagged: bool
) -> list[str]:
    """Show the pending change; with its hash as `seen_hash`, accept just that."""
    async with session.open_action() as action:
        if await admin_actions.is_source(action, name):
            return await _accept_source(action, name, seen_hash)
        change = await admin_actions.get_pending_change(action, name)
        if seen_hash is None:
            options = f"--seen {change.hash[:HASH_PREFIX_CHARS]}"
            if change.flags:
                options += " --flagged"
            hint = f"To accept just this: canvasgram tools accept {name} {options}"
            return [*formatting.format_pending_change(ENGLISH, change), hint]
        if len(seen_hash) < HASH_PREFIX_CHARS or not change.hash.startswith(seen_hash):
            raise ChangeRefused(f"{name} has changed again since you saw it. Please look again.")
        await admin_actions.accept_change(action, name, seen_hash=change.hash, confirmed=allow_flagged)
    return [f"{name} has been accepted."]


async def _accept_source(action: AdminAction, name: str, seen_hash: str | None) -> list[str]:
    pending = await source_actions.get_pending_source(action, name)
    if seen_hash is None:
        lines = list(formatting.format_pending_source(ENGLISH, pending))
        if pending.changes:
            option = f"--seen {pending.hash[:HASH_PREFIX_CHARS]}"
            lines.append(f"To accept just this: canvasgram tools accept {name} {option}")
        return lines
    if len(seen_hash) < HASH_PREFIX_CHARS or not pending.hash.startswith(seen_hash):
        raise ChangeRefused(f"{name} has changed again since you saw it. Please look again.")
    await source_actions.accept_source(action, name, seen_hash=pending.hash)
    return [f"{change.tool_name} has been accepted." for change in pending.changes]


async def set_timeout(session: ToolsSession, name: str, limits_text: str) -> str:
    async with session.open_action() as action:
        after = await set_time_limits(action, name, parse_time_limits(limits_text))
    return f"{after.name}: {format_time_limits(ENGLISH, after)}."


async def change_grant(session: ToolsSession, name: str, grantee: str, *, is_grant: bool) -> str:
    change = grants.grant_tool if is_grant else grants.revoke_grant
    async with session.open_action() as action:
        whom = await grants.resolve_grantee(action.tx, grantee)
        changed = await change_tools(action, name, lambda tool_name: change(action, tool_name, whom))
    lookup_name = await session.load_name_lookup()
    text = formatting.format_changed_tools(
        ENGLISH,
        name,
        changed,
        lambda info: f" may be used by: {formatting.format_grantees(ENGLISH, info, lookup_name)}",
    )
    hint = formatting.format_grant_hint(ENGLISH, changed.changed) if is_grant else ""
    return f"{text}{hint}"


async def run_tool(session: ToolsSession, name: str, arguments: str) -> tuple[list[str], bool]:
    """Run a tool once, with connections of this process; return the lines, and whether it succeeded."""
    registry = _build_registry(session)
    await registry.load()
    tool = registry.get(name)
    if tool is None:
        raise ChangeRefused(f"{name[:80]} cannot be used now; `canvasgram tools list` shows how it stands.")
    trial = Trial(tool, arguments, NOBODY, "Admin", Lane(NOBODY))
    try_tool.parse_arguments(tool, arguments)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(registry.run(), name="tools")
        try:
            trial_result = await try_tool.run_trial(session.database, trial)
        finally:
            running.cancel()
    async with session.open_action() as action:
        await try_tool.record_trial(action.tx, MACHINE, trial_result, now=action.now)
    lines = [escape_for_terminal(line) for line in try_tool.format_trial_result(ENGLISH, trial_result)]
    return lines, trial_result.result.outcome == "ok"


async def reload_tools(session: ToolsSession) -> list[str]:
    """Refresh documents and load files again, and have a running gateway load its files again."""
    troubles = await refresh_documents(session.database, session.tool_settings)
    troubles += await _build_registry(session).reload_files()
    async with session.open_action() as action:
        await revisions.bump(action.tx, revisions.FILES)
        registered = await load_tool_infos(action.tx, builtin_tools={})
    return [
        *map(escape_for_terminal, troubles),
        *formatting.format_waiting_tools(ENGLISH, registered, "canvasgram tools accept"),
        "A running gateway takes this over within two seconds.",
    ]


async def list_calls(session: ToolsSession, name: str | None, limit: int, *, as_json: bool) -> list[str]:
    """List the last calls, the newest first."""
    async with session.database.read_transaction() as tx:
        calls = await call_log.list_newest(tx, name=name, limit=limit)
    if as_json:
        records = [asdict(call) | {"arguments": mask_secrets(call.arguments)} for call in calls]
        return [json.dumps(records, indent=1)]
    lookup_name = await session.load_name_lookup()
    lines = [formatting.format_call(ENGLISH, call, lookup_name) for call in calls]
    return lines or [formatting.format_no_calls(ENGLISH, name)]


async def store_secret(session: ToolsSession, name: str, value: str) -> str:
    async with session.open_action() as action:
        await secrets.store_secret(action, session.secret_box, name, value)
    return (
        f"{name} is kept. Write it as {{{name}}} in a --header, --query, --cookie, --basic or --environment."
    )


async def remove_secret(session: ToolsSession, name: str) -> str:
    async with session.open_action() as action:
        source_names = await secrets.remove_secret(action, name)
    text = f"{name} is gone."
    if source_names:
        text += f" Still named by: {', '.join(source_names)}."
    return text


async def list_secrets(session: ToolsSession, *, as_json: bool) -> list[str]:
    """List the names of all secrets."""
    async with session.database.read_transaction() as tx:
        names = await secrets.list_secret_names(tx)
    if as_json:
        return [json.dumps(names)]
    return names or ["There are no secrets."]


async def rotate_secrets(session: ToolsSession) -> str:
    async with session.open_action() as action:
        count = await secrets.rotate_secrets(action, session.secret_box)
    return (
        f"{count} secrets are sealed with the first key of SECRETS_KEY now; "
        "the others are not needed any more."
    )


def _build_registry(session: ToolsSession) -> ToolRegistry:
    return ToolRegistry(
        session.database, session.builtin_tools.values(), lambda person: True, session.tool_settings
    )


def _to_rule_record(info: ToolInfo) -> dict[str, object] | None:
    """The rule that holds for a tool, set or not; None: as its file says."""
    rule = formatting.find_effective_rule(info)
    if rule is None:
        return None
    return {**asdict(rule), "is_set": info.is_set}


def _to_record(info: ToolInfo) -> dict[str, object]:
    """A tool as a record for JSON."""
    return {
        "name": info.name,
        "source": info.source.name if info.source else None,
        "state": info.state,
        "trouble": info.source.trouble if info.source else None,
        "flagged": info.flagged,
        "rule": _to_rule_record(info),
        "reduction": info.reduction or None,
        "delivers": info.delivers,
        "may_use": [str(grantee) for grantee in grants.list_grantees(info)],
        "tokens_estimated": info.prompt_tokens,
        "hash": info.hash,
    }
