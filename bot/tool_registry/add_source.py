"""Adds a previewed source with its tools, in one transaction with its audit row.

An admin has seen their definitions. Tools whose words are flagged stay suspended until they are accepted a
second time. A name that another tool has is refused.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.agent.tool_search import META_TOOL_NAMES
from bot.db.tools import sources, tools
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.db.transaction import Transaction
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import AdminAction, to_audit_record
from bot.tool_registry.previews import PreviewedTool, SourcePreview
from bot.tool_registry.service_access import read_access
from bot.translations.formats import format_series


@dataclass(frozen=True, slots=True)
class AddSourceResult:
    """What was added to a source.

    `ready_names` are tools that admins may use now, `suspended` the names and flags of those that wait;
    `prompt_tokens` is what the ready tools take of a prompt, estimated.
    """

    source: str
    ready_names: tuple[str, ...]
    suspended: tuple[tuple[str, str], ...]
    prompt_tokens: int


async def register_source(
    action: AdminAction, preview: SourcePreview, selected_names: Collection[str] | None = None
) -> AddSourceResult:
    """Add a source and its tools; None selects all of them.

    Of tools that are not selected the source keeps what it needs to give them later, and they stay disabled.
    Raises ChangeRefused when a name is taken or no tool of a selected name is offered.
    """
    name = preview.source.name
    await refuse_taken_source(action.tx, name)
    selected = _select_names(preview.tools, selected_names)
    await _refuse_taken_names(action, preview.tools, name)
    await sources.put(action.tx, replace(preview.source, added_by=action.actor.person, added_at=action.now))
    rows = [_build_row(action, tool, enabled=tool.name in selected) for tool in preview.tools]
    return await _store_tools(action, preview, "added", rows)


async def refuse_taken_source(tx: Transaction, name: str) -> None:
    """Raise ChangeRefused if there is a source of this name."""
    if await sources.find(tx, name) is not None:
        raise ChangeRefused(
            "There's already a source {name}. Remove it first, or choose another name.", name=name
        )


async def extend_source(action: AdminAction, preview: SourcePreview) -> AddSourceResult:
    """Add to a source what was picked of it; its other tools stay as they were accepted.

    What else was changed in it since it was looked at stays, too. Raises ChangeRefused if that is how it is
    reached.
    """
    before = await sources.find(action.tx, preview.source.name)
    if before is None:
        raise ChangeRefused("There's no source {name} anymore.", name=preview.source.name)
    stored_names = {row.name for row in await tools.list_all(action.tx)}
    await _refuse_taken_names(action, preview.tools, before.name)
    options = _merge_options(before, preview)
    await sources.put(action.tx, replace(before, options=options))
    given_names = {entry["name"] for part in ("routes", "listing") for entry in options.get(part, ())}
    new_names = given_names - stored_names
    new_rows = [_build_row(action, tool) for tool in preview.tools if tool.name in new_names]
    event = "picked from" if before.kind == "openapi" else "added tools of"
    return await _store_tools(action, preview, event, new_rows)


def _merge_options(stored: Source, preview: SourcePreview) -> dict[str, Any]:
    """The options of a source as it stands now, with what a preview has found."""
    now = stored.options
    found = preview.source.options
    if read_access(now) != read_access(found):
        raise ChangeRefused("{name} has changed in the meantime. Try again.", name=stored.name)
    merged = {**now}
    if "listing" in found:
        merged["listing"] = found["listing"]
    if preview.picked:
        offered = now.get("offered", ())
        kept_routes = [route for route in now["routes"] if route["operation"] not in preview.picked]
        new_routes = [route for route in found["routes"] if route["operation"] in preview.picked]
        merged["routes"] = [*kept_routes, *new_routes]
        merged["hosts"] = list(dict.fromkeys([*now["hosts"], *found["hosts"]]))
        merged["chosen"] = [
            index for index in now.get("chosen", ()) if offered[index]["operation"] not in preview.picked
        ]
    return merged


async def toggle_operation(action: AdminAction, name: str, index: int) -> Source:
    """Tick an operation of a document, by its place in the list, or untick it; this adds no tool."""
    source = await get_openapi_source(action.tx, name)
    indices = set(source.options.get("chosen", ())) ^ {index}
    ticked = source.with_options(chosen=sorted(indices))
    await sources.put(action.tx, ticked)
    return ticked


async def narrow_list(action: AdminAction, name: str, words: str) -> Source:
    """Narrow the list that an admin picks from to operations with these words; without any to all of them."""
    source = await get_openapi_source(action.tx, name)
    narrowed = source.with_options(search=words)
    await sources.put(action.tx, narrowed)
    return narrowed


async def confirm_hosts(action: AdminAction, name: str, hosts: Collection[str]) -> Source:
    """Store that an admin has read and agreed that a document's calls go to these hosts."""
    source = await get_openapi_source(action.tx, name)
    before = list(source.options.get("hosts", ()))
    after = [*before, *(host for host in hosts if host not in before)]
    if after != before:
        source = source.with_options(hosts=after)
        await sources.put(action.tx, source)
        await action.record_change("confirmed hosts", f"source {name}", {"hosts": before}, {"hosts": after})
    return source


async def get_openapi_source(tx: Transaction, name: str) -> Source:
    """Return the source of this name, which is a document to pick from. Raises ChangeRefused."""
    source = await sources.find(tx, name)
    if source is None or source.kind != "openapi":
        raise ChangeRefused("There is no document called {name}.", name=name[:60])
    return source


async def _store_tools(
    action: AdminAction, preview: SourcePreview, event: str, rows: Sequence[StoredTool]
) -> AddSourceResult:
    source = preview.source
    for row in rows:
        await tools.put(action.tx, row)
    ready = tuple(row.name for row in rows if row.enabled and row.pending is None)
    suspended = tuple(
        (row.name, row.flagged or "") for row in rows if row.enabled and row.pending is not None
    )
    after: dict[str, Any] = to_audit_record(source) | {"tools": list(ready)}
    if suspended:
        after["suspended"] = [name for name, _ in suspended]
    await action.record_change(event, f"source {source.name}", None, after)
    prompt_tokens = sum(tool.prompt_tokens for tool in preview.tools if tool.name in ready)
    return AddSourceResult(source.name, ready, suspended, prompt_tokens)


def _build_row(action: AdminAction, tool: PreviewedTool, *, enabled: bool = True) -> StoredTool:
    """The row of a tool: accepted, or waiting for a second look if its words are flagged."""
    row = StoredTool(
        tool.name, tool.source, tool.definition, tool.hash, enabled=enabled, changed_at=action.now
    )
    if tool.flags:
        return replace(row, definition={}, hash="", pending=tool.definition, flagged="; ".join(tool.flags))
    return row


def _select_names(
    candidates: Sequence[PreviewedTool], selected_names: Collection[str] | None
) -> Collection[str]:
    names = {tool.name for tool in candidates}
    unknown = sorted(set(selected_names or ()) - names)
    if unknown:
        raise ChangeRefused(
            "There's no tool called {name} to add. Choose from: {names}.",
            name=unknown[0][:60],
            names=lambda translate: format_series(translate, sorted(names))[:400],
        )
    return names if selected_names is None else selected_names


async def _refuse_taken_names(
    action: AdminAction, candidates: Sequence[PreviewedTool], source_name: str
) -> None:
    """Refuse names that other tools have, so that a grant of one tool does not become a grant of another."""
    source_by_tool = {row.name: row.source for row in await tools.list_all(action.tx)}
    for tool in candidates:
        holder = source_by_tool.get(tool.name, source_name)
        if tool.name in action.builtin_tools or tool.name in META_TOOL_NAMES:
            holder = ""
        if holder != source_name:
            if holder:
                raise ChangeRefused(
                    "{source} already has a tool {name}. Choose another name.", source=holder, name=tool.name
                )
            raise ChangeRefused("There's a built-in tool {name}. Choose another name.", name=tool.name)
