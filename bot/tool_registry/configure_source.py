"""Changes how a service is reached, with its tools kept: secrets, fixed arguments, server, confirmed hosts.

What changes in the definitions of its tools by that alone is an admin's own doing, and accepted with it; what
the document says otherwise than before waits for an admin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bot.db.tools import grants, sources, tools
from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import AdminAction, find_flags
from bot.tool_registry.openapi_sources import list_operations, refresh_document
from bot.tool_registry.previews import build_tools
from bot.tool_registry.service_access import (
    ServiceAccess,
    check_access,
    list_access_lines,
    read_access,
    update_access,
    write_access,
)
from bot.translations.formats import format_series
from tools.base import Tool, definition_of, hash_tool
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.http.routes import HttpRoute


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
        raise ChangeRefused(
            "{source} is neither a document nor an endpoint. Remove it and add it again.", source=source.name
        )
    if not changes and not confirmed_hosts:
        raise ChangeRefused("Say what to change; `canvasgram tools configure --help` lists the options.")
    access = update_access(read_access(source.options), changes)
    check_access(access)
    hosts = list(dict.fromkeys([*source.options.get("hosts", ()), *confirmed_hosts]))
    after = source.with_options(**write_access(access), hosts=hosts)
    warnings: tuple[str, ...] = ()
    is_moved = changes.base_url is not None or changes.variables
    if source.kind == "openapi" and (is_moved or changes.cookies):
        after, warnings = await refresh_document(after, secrets, private_hosts)
    check_fixed_names(after, changes.fixed)
    new_tools = await build_tools(after, private_hosts)
    try:
        old_tools = await build_tools(source, private_hosts)
    except ChangeRefused:
        return SourceConfiguration(source, after, {}, warnings)
    accepted = await run_in_thread(_list_own_changes, source, after, old_tools, new_tools)
    return SourceConfiguration(source, after, accepted, warnings)


def _list_own_changes(
    before: Source, after: Source, old_tools: Sequence[Tool], new_tools: Sequence[Tool]
) -> dict[str, Tool]:
    """The tools whose definitions differ by nothing but how the service is reached, by the hash before."""
    old_by_name = {tool.name: tool for tool in old_tools}
    old_routes = _read_routes(before)
    new_routes = _read_routes(after)
    old_paths = _list_paths(before)
    is_moved = before.options.get("server") != after.options.get("server")
    new_paths = _list_paths(after) if is_moved else {}
    return {
        hash_tool(old_by_name[tool.name]): tool
        for tool in new_tools
        if tool.name in old_by_name
        and _has_same_words(old_by_name[tool.name], tool)
        and _has_same_arguments(tool, old_by_name[tool.name], old_routes[tool.name], new_routes[tool.name])
        and _has_same_path(old_routes[tool.name], new_routes[tool.name], old_paths, new_paths)
        and not find_flags(definition_of(tool))
    }


def _read_routes(source: Source) -> "dict[str, HttpRoute]":
    """The routes of a source, by the names of their tools."""
    from tools.http.routes import route_from_json

    routes = map(route_from_json, source.options.get("routes", ()))
    return {route.name: route for route in routes}


def _has_same_words(old: Tool, new: Tool) -> bool:
    return (old.description, old.changes, old.outside) == (new.description, new.changes, new.outside)


def _has_same_arguments(new: Tool, old: Tool, old_route: "HttpRoute", new_route: "HttpRoute") -> bool:
    """Whether a tool takes what its route took before, and lost nothing but what is filled in for it now."""
    known = old_route.checked["properties"]
    arguments = new.input_schema["properties"]
    old_required = set(old_route.checked.get("required", ())) & set(arguments)
    return (
        all(known.get(name) == schema for name, schema in arguments.items())
        and old_required == set(new.input_schema.get("required", ()))
        and old_route.describe_places(arguments) == new_route.describe_places(arguments)
        and set(old.input_schema["properties"]) <= set(new_route.checked["properties"])
    )


def _has_same_path(
    old: "HttpRoute", new: "HttpRoute", old_paths: Mapping[str, str], new_paths: Mapping[str, str]
) -> bool:
    """Whether two routes call the same, but for a server that an admin has moved; then they have a path."""
    if (old.method, old.address) == (new.method, new.address):
        return True
    path = new_paths.get(new.operation)
    return (
        path is not None
        and old.method == new.method
        and path == old_paths.get(old.operation)
        and old.address.endswith(path)
    )


def _list_paths(source: Source) -> dict[str, str]:
    """The paths of operations as they end the addresses of their routes, by operation."""
    return {each.operation: each.path.replace("{+", "{") for each in list_operations(source)}


def check_fixed_names(source: Source, names: Mapping[str, str]) -> None:
    """Refuse a fixed argument that no tool of the source has. Raises ChangeRefused."""
    routes = source.options.get("routes", ())
    known = {name for route in routes for name in _list_argument_names(route)}
    unknown = sorted(name for name, text in names.items() if text and name not in known)
    if routes and unknown:
        raise ChangeRefused(
            "The tools of {source} don't have an argument {name}; they have: {names}.",
            source=source.name,
            name=unknown[0][:60],
            names=lambda translate: format_series(translate, sorted(known))[:300] or "–",
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
        raise ChangeRefused("{name} has changed in the meantime. Try again.", name=before.name)
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
