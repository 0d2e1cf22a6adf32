"""Tools: how each stands, who may use it and how its calls ended; a page of each tool and each source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import htpy as h

from bot.admin.components import (
    TURNS_PATH,
    format_duration,
    keep_period,
    show_figure,
    show_figures,
)
from bot.admin.filter_form import show_periods
from bot.admin.filters import DEFAULT_PERIOD, parse_period
from bot.admin.page_request import PageRequest, Screen, ScreenPage
from bot.admin.table_view import show_table, show_tables
from bot.admin.tool_acts import TOOL_ACTS
from bot.admin.tool_pages import (
    build_tool_path,
    show_commands,
    show_definition,
    show_facts,
    show_forms,
    show_pending_change,
    show_pending_source,
    show_source,
    show_switch,
    show_trial_form,
    spell_out,
)
from bot.admin.tool_tables import (
    ToolUse,
    build_source_table,
    build_tool_table,
    load_uses,
)
from bot.db.people import people
from bot.db.tools import sources
from bot.db.usage.call_filters import ANY_FAILURE, UNKNOWN_REFUSAL
from bot.errors import ChangeRefused, NothingFound
from bot.tool_registry.admin_actions import AdminAction, PendingChange, get_pending_change, is_source
from bot.tool_registry.program_homes import find_homes_folder
from bot.tool_registry.source_actions import PendingSource, get_pending_source
from bot.tool_registry.source_info import SourceInfo, load_source_info
from bot.tool_registry.tool_info import ToolInfo, load_tool_info, load_tool_infos
from bot.usage.figures import EMPTY_CELL
from bot.usage.refusals import describe_refusal, sort_refusals

WAITING_STATES = frozenset({"new", "changed", "flagged"})
_TROUBLED_STATES = frozenset({"in trouble", "gone"})
_FIGURES_NOTE = (
    "Failed counts all that ended otherwise than well. Not run are those of them that never began: arguments "
    "that did not fit, a repeat, a tool that was not there, or a person who said no. ≥ means at least: of "
    "older calls it is unknown why they were not run."
)


async def show_list(request: PageRequest) -> ScreenPage:
    """All tools and sources."""
    period = parse_period(request.query, zone=request.zone, now=request.now)
    async with request.read() as tx:
        infos = await load_tool_infos(tx, request.dependencies.builtin_tools)
        all_sources = await sources.list_all(tx)
        names = await people.list_names(tx)
        uses = await load_uses(tx, period)
    tables = (build_tool_table(request, infos, uses, names), build_source_table(all_sources, infos))
    waiting = [info.name for info in infos if info.state in WAITING_STATES]
    first_waiting = build_tool_path(waiting[0]) if waiting else None
    troubled = [info.name for info in infos if info.state in _TROUBLED_STATES]
    failing = [info.name for info in infos if uses.get(info.name, ToolUse()).fails_often]
    body = [
        show_periods(request, period.name),
        show_figures(
            show_figure("On", str(sum(info.state == "on" for info in infos)), note=f"of {len(infos)} tools"),
            show_figure("Wait to be accepted", str(len(waiting)), href=first_waiting),
            _show_troubled("In trouble", troubled),
            _show_troubled("Fail often", failing),
        ),
        show_tables(request, tables),
        h.p(".hint")[_FIGURES_NOTE],
        show_commands(),
    ]
    return ScreenPage("Tools", body, tables)


def _show_troubled(label: str, names: Sequence[str]) -> h.Element:
    """How many tools these are; the first one is named, and led to."""
    if not names:
        return show_figure(label, "0")
    others = f" and {len(names) - 1} more" if names[1:] else ""
    return show_figure(
        label, str(len(names)), note=f"{spell_out(names[0])}{others}", href=build_tool_path(names[0])
    )


@dataclass(frozen=True, slots=True)
class ShownTool:
    """A tool with what waits of it."""

    info: ToolInfo
    change: PendingChange | None


@dataclass(frozen=True, slots=True)
class ShownSource:
    """A source with what waits of it."""

    info: SourceInfo
    pending: PendingSource | None


async def show_one(request: PageRequest) -> ScreenPage:
    """The page of a tool, or else of the source of this name."""
    period = parse_period(request.query, zone=request.zone, now=request.now)
    async with request.read() as tx:
        action = AdminAction(tx, request.actor, request.now, request.dependencies.builtin_tools)
        try:
            shown = await _load(action, request.parts["tool"], request.dependencies.settings.database_url)
        except ChangeRefused as refused:
            raise NothingFound(str(refused)) from None
        names = await people.list_names(tx)
        uses = await load_uses(tx, period)
    if isinstance(shown, ShownSource):
        return _show_source_page(request, shown, uses, names)
    return _show_tool_page(request, shown, uses.get(shown.info.name, ToolUse()), names)


async def _load(action: AdminAction, name: str, database_url: str) -> ShownTool | ShownSource:
    if await is_source(action, name):
        source = await sources.find(action.tx, name)
        assert source is not None
        homes = find_homes_folder(database_url)
        info = await load_source_info(action.tx, action.builtin_tools, source, homes)
        has_pending = any(tool.pending is not None or tool.flagged is not None for tool in info.tools)
        return ShownSource(info, await get_pending_source(action, name) if has_pending else None)
    tool = await load_tool_info(action.tx, action.builtin_tools, name)
    if tool.pending is None and tool.flagged is None:
        return ShownTool(tool, None)
    return ShownTool(tool, await get_pending_change(action, name))


def _show_tool_page(
    request: PageRequest, shown: ShownTool, use: ToolUse, names: Mapping[int, str]
) -> ScreenPage:
    info = shown.info
    tools = use.tools
    p95 = EMPTY_CELL if use.p95 is None else format_duration(use.p95)
    body: list[h.Node] = [
        show_periods(request, request.query.get("period", DEFAULT_PERIOD)),
        show_figures(
            show_figure("Calls", f"{tools.calls:,}", href=_find_turns(request, info, tools.calls)),
            show_figure(
                "Failed",
                f"{tools.failed:,}",
                href=_find_turns(request, info, tools.failed, outcome=ANY_FAILURE),
            ),
            show_figure(
                "Not run",
                f"{tools.refused:,}",
                href=_find_turns(request, info, tools.refused, outcome="refused"),
                note=[_link_refusal(request, info, *refusal) for refusal in sort_refusals(tools.refusals)],
            ),
            show_figure("95 of 100 take at most", p95),
        ),
        show_facts(info, names),
        h.div(".acts")[show_switch(request, info.name, is_on=info.state != "off")],
        shown.change is not None and show_pending_change(request, shown.change),
        show_definition(info),
        show_forms(request, info.name, [info], names),
        show_trial_form(request, info.name),
    ]
    return ScreenPage(spell_out(info.name), body)


def _link_refusal(request: PageRequest, info: ToolInfo, reason: str | None, count: int) -> h.Node:
    href = _find_turns(request, info, count, outcome=f"refused:{reason or UNKNOWN_REFUSAL}")
    return h.a(href=href)[f"{describe_refusal(reason)} {count:,}"], " "


def _find_turns(request: PageRequest, info: ToolInfo, calls: int, **filters: str) -> str | None:
    """The address of the turns with these calls of a tool; None if there are none."""
    return keep_period(request, TURNS_PATH, tool=info.name, **filters) if calls else None


def _show_source_page(
    request: PageRequest, shown: ShownSource, uses: Mapping[str, ToolUse], names: Mapping[int, str]
) -> ScreenPage:
    source = shown.info.source
    own_uses = {tool.name: uses[tool.name] for tool in shown.info.tools if tool.name in uses}
    table = build_tool_table(request, shown.info.tools, own_uses, names)
    body: list[h.Node] = [
        show_periods(request, request.query.get("period", DEFAULT_PERIOD)),
        show_source(shown.info),
        h.div(".acts")[show_switch(request, source.name, is_on=source.enabled)],
        shown.pending is not None and show_pending_source(request, shown.pending),
        show_table(replace(table, nothing="It has no tools yet."), request),
        len(shown.info.tools) > 0 and show_forms(request, source.name, shown.info.tools, names),
    ]
    return ScreenPage(spell_out(source.name), body)


SCREEN = Screen("tools", "Tools", 6, {"": show_list, "/{tool}": show_one}, TOOL_ACTS)
