"""What the other commands do, each in one transaction, and the lines they print. Raises ChangeRefused."""

import asyncio
import json
from dataclasses import asdict

from bot.cli.tools.session import ToolsSession
from bot.db import revisions
from bot.db.tools import call_log as called
from bot.db.tools import sources
from bot.db.tools.audit import MACHINE
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.tool_registry import admin_actions as registering
from bot.tool_registry import formatting as words
from bot.tool_registry import grant_actions as permitting
from bot.tool_registry import grantees as whom
from bot.tool_registry import refresh as refreshing
from bot.tool_registry import rule_parser as ruling
from bot.tool_registry import secret_actions as safekeeping
from bot.tool_registry import try_tool as trying
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.secret_scanner import mask_secrets
from bot.tool_registry.tool_info import ToolInfo, load_tool_info, load_tool_infos
from bot.tool_registry.try_tool import Trial
from bot.usage.plain_text import escape_for_terminal

NOBODY = 0  # who tries a tool on the machine
HASH_PREFIX_CHARS = 12  # letters of a hash that name a definition


async def list_tools(session: ToolsSession, *, as_json: bool) -> list[str]:
    """Every tool and every source."""
    name = await session.load_name_lookup()
    async with session.database.read_transaction() as tx:
        found = await load_tool_infos(tx, session.builtin_tools)
        came = await sources.list_all(tx)
    if as_json:
        return [json.dumps([_to_record(one) for one in found], indent=1)]
    return [
        *(words.format_tool_line(one, name) for one in found),
        *(["", "Sources:"] if came else []),
        *map(words.format_source_line, came),
    ]


async def show_tool(session: ToolsSession, name: str, *, as_json: bool) -> list[str]:
    """All there is to know about a tool, or else a source."""
    async with session.database.read_transaction() as tx:
        source = await sources.find(tx, name)
        if source is not None and source.kind != "endpoint":
            record = {
                key: getattr(source, key)
                for key in ("name", "kind", "address", "enabled", "trouble", "added_by")
            }
            if as_json:
                return [json.dumps(record, indent=1)]
            return list(words.format_source(source))
        found = await load_tool_info(tx, session.builtin_tools, name)
    if as_json:
        return [json.dumps(_to_record(found) | {"definition": dict(found.effective_definition)}, indent=1)]
    return list(words.format_tool(found, await session.load_name_lookup()))


async def set_enabled(session: ToolsSession, name: str, *, enabled: bool) -> str:
    async with session.open_action() as act:
        what = await registering.set_enabled(act, name, enabled=enabled)
    also = " with all its tools" if what == "source" else ""
    return f"{name} is {'on' if enabled else 'off'}{also}."


async def remove_source_or_tool(session: ToolsSession, name: str) -> str:
    async with session.open_action() as act:
        went = await registering.remove_source_or_tool(act, name)
    return f"Removed: {', '.join(went) or name}."


async def accept_change(
    session: ToolsSession, name: str, seen_hash: str | None, *, allow_flagged: bool
) -> list[str]:
    """Show what waits; with its hash as `seen`, accept just that."""
    async with session.open_action() as act:
        waits = await registering.get_pending_change(act, name)
        if seen_hash is None:
            also = " --flagged" if waits.flags else ""
            how = f"To accept just this: canvasgram tools accept {name} --seen {waits.hash[:HASH_PREFIX_CHARS]}{also}"
            return [*words.format_pending_change(waits), how]
        if len(seen_hash) < HASH_PREFIX_CHARS or not waits.hash.startswith(seen_hash):
            raise ChangeRefused(f"{name} has changed again since it was shown. Look at it anew.")
        await registering.accept_change(act, name, seen_hash=waits.hash, confirmed=allow_flagged)
    return [f"{name} is accepted."]


async def set_rule(session: ToolsSession, name: str, rule_text: str) -> str:
    async with session.open_action() as act:
        after = await registering.set_rule(act, name, ruling.parse_rule(rule_text))
    return f"{after.name}: {words.format_effective_rule(after)}."


async def change_grant(session: ToolsSession, name: str, grantee: str, *, is_grant: bool) -> str:
    change = permitting.grant_tool if is_grant else permitting.revoke_grant
    async with session.open_action() as act:
        after = await change(act, name, await whom.resolve_grantee(act.tx, grantee))
    then = words.NEW_CONVERSATION_HINT if is_grant else ""
    return f"{after.name} may be used by: {words.format_grantees(after, await session.load_name_lookup())}.{then}"


async def run_tool(session: ToolsSession, name: str, arguments: str) -> tuple[list[str], bool]:
    """Run a tool once, with connections of this process; the lines, and whether it went well."""
    catalogue = _build_registry(session)
    await catalogue.load()
    tool = catalogue.get(name)
    if tool is None:
        raise ChangeRefused(f"{name[:80]} cannot be used now; `canvasgram tools list` shows how it stands.")
    trial = Trial(tool, arguments, NOBODY, "Admin", Lane(NOBODY))
    trying.parse_arguments(tool, arguments)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(catalogue.run(), name="tools")
        try:
            came = await trying.run_trial(session.database, trial)
        finally:
            running.cancel()
    async with session.open_action() as act:
        await trying.record_trial(act.tx, MACHINE, came, now=act.now)
    return [
        escape_for_terminal(line) for line in trying.format_trial_result(came)
    ], came.result.outcome == "ok"


async def reload_tools(session: ToolsSession) -> list[str]:
    """Look at documents and files anew, and have a running gateway do the same with its files."""
    troubles = await refreshing.refresh_documents(session.database, session.tool_settings)
    troubles += await _build_registry(session).reload_files()
    async with session.open_action() as act:
        await revisions.bump(act.tx, revisions.FILES)
    return [*map(escape_for_terminal, troubles), "A running gateway takes this over within two seconds."]


async def list_calls(session: ToolsSession, name: str | None, limit: int, *, as_json: bool) -> list[str]:
    """The last calls, the newest first."""
    async with session.database.read_transaction() as tx:
        found = await called.list_newest(tx, name=name, limit=limit)
    if as_json:
        return [
            json.dumps([asdict(one) | {"arguments": mask_secrets(one.arguments)} for one in found], indent=1)
        ]
    person = await session.load_name_lookup()
    return [words.format_call(one, person) for one in found] or [words.format_no_calls(name)]


async def store_secret(session: ToolsSession, name: str, value: str) -> str:
    async with session.open_action() as act:
        await safekeeping.store_secret(act, session.secret_box, name, value)
    return f"{name} is kept. Name it as {{{name}}} in a header or the environment of a source."


async def remove_secret(session: ToolsSession, name: str) -> str:
    async with session.open_action() as act:
        needed = await safekeeping.remove_secret(act, name)
    return f"{name} is gone." + (f" Still named by: {', '.join(needed)}." if needed else "")


async def list_secrets(session: ToolsSession, *, as_json: bool) -> list[str]:
    """The names of all secrets."""
    async with session.database.read_transaction() as tx:
        names = await safekeeping.list_secret_names(tx)
    if as_json:
        return [json.dumps(names)]
    return names or ["There are no secrets."]


async def rotate_secrets(session: ToolsSession) -> str:
    async with session.open_action() as act:
        count = await safekeeping.rotate_secrets(act, session.secret_box)
    return f"{count} secrets are sealed with the first key of SECRETS_KEY now; the others are not needed any more."


def _build_registry(session: ToolsSession) -> ToolRegistry:
    return ToolRegistry(
        session.database, session.builtin_tools.values(), lambda person: True, session.tool_settings
    )


def _to_record(info: ToolInfo) -> dict[str, object]:
    """A tool for machines."""
    return {
        "name": info.name,
        "source": info.source.name if info.source else None,
        "state": info.state,
        "trouble": info.source.trouble if info.source else None,
        "flagged": info.flagged,
        "rule": asdict(info.rule) if info.rule else None,
        "may_use": [str(one) for one in permitting.list_grantees(info)],
        "tokens_estimated": info.prompt_tokens,
        "hash": info.hash,
    }
