"""Changes how a service is reached, with its tools kept: secrets, fixed arguments, server, confirmed hosts.

What changes in the definitions of its tools by that is an admin's own doing, and accepted with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.db.tools import grants, sources, tools
from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.openapi_sources import refresh_document
from bot.tool_registry.previews import build_tools
from bot.tool_registry.service_access import (
    ServiceAccess,
    check_access,
    list_access_lines,
    read_access,
    update_access,
    write_access,
)
from tools.base import Tool, definition_of, hash_tool


@dataclass(frozen=True, slots=True)
class SourceConfiguration:
    """A source before and after a change.

    `accepted` are the definitions of its tools that changed by that alone, by the hash of the one before.
    `warnings` are what was lost, a sentence each.
    """

    before: Source
    after: Source
    accepted: Mapping[str, Tool]
    warnings: tuple[str, ...] = ()


async def preview_configuration(
    source: Source,
    changes: ServiceAccess,
    confirmed_hosts: Sequence[str],
    secrets: Mapping[str, str],
    private_hosts: frozenset[str],
) -> SourceConfiguration:
    """Look what a source gives with these changes; a document is read again where that matters.

    Raises ChangeRefused.
    """
    if source.kind not in ("openapi", "endpoint"):
        raise ChangeRefused(f"{source.name} is no document and no endpoint. Remove it and add it again.")
    if not changes and not confirmed_hosts:
        raise ChangeRefused("Say what shall change; `canvasgram tools configure --help` lists it.")
    access = update_access(read_access(source.options), changes)
    check_access(access)
    hosts = list(dict.fromkeys([*source.options.get("hosts", ()), *confirmed_hosts]))
    after = replace(source, options={**source.options, **write_access(access), "hosts": hosts})
    warnings: tuple[str, ...] = ()
    if source.kind == "openapi" and (changes.base_url or changes.variables or changes.cookies):
        after, warnings = await refresh_document(after, secrets, private_hosts)
    check_fixed_names(after, changes.fixed)
    new_tools = await build_tools(after, private_hosts)
    accepted = await _list_own_changes(source, new_tools, private_hosts)
    return SourceConfiguration(source, after, accepted, warnings)


async def _list_own_changes(
    before: Source, new_tools: Sequence[Tool], private_hosts: frozenset[str]
) -> dict[str, Tool]:
    """The tools whose definitions differ by nothing but how the service is reached, by the hash before."""
    try:
        old_tools = {tool.name: tool for tool in await build_tools(before, private_hosts)}
    except ChangeRefused:
        return {}
    return {
        hash_tool(old_tools[tool.name]): tool
        for tool in new_tools
        if tool.name in old_tools and _has_same_words(old_tools[tool.name], tool)
    }


def _has_same_words(old: Tool, new: Tool) -> bool:
    """Whether two definitions say the same, but for arguments that one of them does not have."""
    old_arguments = old.input_schema["properties"]
    new_arguments = new.input_schema["properties"]
    shared = set(old_arguments) & set(new_arguments)
    return (
        (old.description, old.changes, old.outside) == (new.description, new.changes, new.outside)
        and len(shared) == min(len(old_arguments), len(new_arguments))
        and all(old_arguments[name] == new_arguments[name] for name in shared)
    )


def check_fixed_names(source: Source, names: Mapping[str, str]) -> None:
    """Refuse a fixed argument that no tool of the source has. Raises ChangeRefused."""
    routes = source.options.get("routes", ())
    known = {name for route in routes for name in _list_argument_names(route)}
    unknown = sorted(name for name, text in names.items() if text and name not in known)
    if routes and unknown:
        raise ChangeRefused(
            f"No tool of {source.name} has an argument {unknown[0][:60]}; they have "
            f"{', '.join(sorted(known))[:300] or 'none'}."
        )


def _list_argument_names(route: Mapping[str, Any]) -> list[str]:
    """The names that a service has for the arguments of a route."""
    body = route.get("body") or {}
    return [*(value["name"] for value in route["values"]), *(body.get("fields") or {}).values()]


async def store_configuration(action: AdminAction, configured: SourceConfiguration) -> tuple[str, ...]:
    """Store a source as it was looked at; return its lines for an admin. Raises ChangeRefused."""
    before = configured.before
    stored = await sources.find(action.tx, before.name)
    if stored is None or stored.options != before.options:
        raise ChangeRefused(f"{before.name} has changed meanwhile. Try again.")
    await sources.put(action.tx, replace(stored, options=configured.after.options))
    for old_hash, tool in configured.accepted.items():
        await _accept_definition(action, tool, old_hash)
    await action.record_change(
        "configured", f"source {before.name}", _to_record(before), _to_record(configured.after)
    )
    return tuple(list_access_lines(read_access(configured.after.options)))


async def _accept_definition(action: AdminAction, tool: Tool, old_hash: str) -> None:
    """Accept the new definition of a tool if its last one was accepted; its grants hold for the new one."""
    row = await tools.find(action.tx, tool.name)
    new_hash = hash_tool(tool)
    if row is None or row.pending is not None or row.hash != old_hash or new_hash == old_hash:
        return
    changed = replace(row, definition=definition_of(tool), hash=new_hash, changed_at=action.now)
    await tools.put(action.tx, changed)
    await grants.rebind(action.tx, tool.name, new_hash, old_hash=old_hash)


def _to_record(source: Source) -> dict[str, Any]:
    return {**write_access(read_access(source.options)), "hosts": list(source.options.get("hosts", ()))}
