"""The tables of tools and sources, with how calls of tools ended. Pure, but for loading the figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bot.admin.components import TURNS_PATH, format_duration, keep_period
from bot.admin.data_table import Cell, DataTable, NumberColumn, TableColumn
from bot.admin.filters import Period
from bot.admin.names import name_person
from bot.admin.page_request import PageRequest
from bot.admin.tool_pages import build_tool_path, spell_out
from bot.admin.usage_figures import ALARMING_SHARE
from bot.db.tools.sources import Source
from bot.db.transaction import Transaction
from bot.db.usage.call_filters import ANY_FAILURE
from bot.db.usage.usage_sums import Scope
from bot.tool_registry import formatting
from bot.tool_registry.tool_info import ToolInfo
from bot.translations.translator import ENGLISH
from bot.usage.figures import EMPTY_CELL, format_at_least, format_share
from bot.usage.queries import load_tool_report
from bot.usage.report import ReportGroup, ToolUsage

_TOOL_COLUMNS = (
    TableColumn("tool", "Tool"),
    TableColumn("state", "State"),
    NumberColumn("failed", "Failed"),
    NumberColumn("calls", "Calls"),
    NumberColumn("refused", "Not run"),
    NumberColumn("malformed", "Bad arguments"),
    NumberColumn("p95_seconds", "95 of 100 take"),
    TableColumn("source", "Source"),
    TableColumn("may_use", "May use it", can_sort=False),
    TableColumn("rule", "Rule", can_sort=False, style="sentence"),
)
_SOURCE_COLUMNS = (
    TableColumn("source", "Source"),
    TableColumn("kind", "What"),
    TableColumn("state", "State"),
    TableColumn("address", "At", style="address"),
    NumberColumn("tools", "Tools"),
)
_MIN_CALLS = 5  # of which a share says something
_OFTEN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class ToolUse:
    """How the calls of a tool ended; `p95` None: unknown, or none ended."""

    tools: ToolUsage = field(default_factory=ToolUsage)
    p95: float | None = None

    @property
    def fails_often(self) -> bool:
        """Whether it fails so often that somebody should look."""
        return self.tools.calls >= _MIN_CALLS and self.faults >= _OFTEN_SHARE * self.tools.calls

    @property
    def faults(self) -> int:
        """Failed calls without those that a person refused, and repeats."""
        return self.tools.failed - self.tools.refused + self.tools.malformed

    @property
    def malformed(self) -> Cell:
        """Calls whose arguments did not fit; None if of no refused call is known why it was."""
        explained = self.tools.refused - self.tools.refusals.get(None, 0)
        value = self.tools.malformed if explained or not self.tools.refused else None
        return Cell(value, format_at_least(self.tools.malformed, explained, self.tools.refused))


async def load_uses(tx: Transaction, period: Period) -> Mapping[str, ToolUse]:
    """How calls ended, by tool; the figures of `canvasgram report --by tool`."""
    report = await load_tool_report(tx, Scope(period.since, period.until))
    return {group.label: _to_use(group) for group in report.groups}


def _to_use(group: ReportGroup) -> ToolUse:
    if group.tools is None:
        return ToolUse()
    percentiles = group.percentiles.get("tools")
    p95 = None if percentiles is None else percentiles.p95
    return ToolUse(group.tools, p95)


def build_tool_table(
    request: PageRequest, infos: Sequence[ToolInfo], uses: Mapping[str, ToolUse], names: Mapping[int, str]
) -> DataTable:
    """A row for each tool, and for each that was called and is no more."""
    rows = [
        (
            Cell(info.name, spell_out(info.name), build_tool_path(info.name)),
            Cell(formatting.format_state(ENGLISH, info), style="" if info.state in {"on", "off"} else "bad"),
            *_show_use(request, info.name, uses.get(info.name, ToolUse())),
            _show_source_name(info),
            Cell(formatting.format_grantees(ENGLISH, info, lambda number: name_person(number, names))),
            Cell(formatting.format_effective_rule(ENGLISH, info)),
        )
        for info in infos
    ]
    known_names = {info.name for info in infos}
    rows += [
        (
            Cell(name, spell_out(name)),
            Cell("removed"),
            *_show_use(request, name, use),
            Cell(""),
            Cell(""),
            Cell(""),
        )
        for name, use in uses.items()
        if name not in known_names
    ]
    return DataTable("tools", "Tools", _TOOL_COLUMNS, tuple(rows), "There are no tools.", can_sort=True)


def _show_source_name(info: ToolInfo) -> Cell:
    if info.source is None:
        return Cell("built in")
    return Cell(info.source.name, spell_out(info.source.name), build_tool_path(info.source.name))


def _show_use(request: PageRequest, name: str, use: ToolUse) -> tuple[Cell, ...]:
    """The figures of a tool, which lead to the turns that called it; many faults are marked."""
    seconds = Cell(use.p95, EMPTY_CELL if use.p95 is None else format_duration(use.p95))
    tools = use.tools
    if not tools.calls:
        nothing = Cell(0, EMPTY_CELL)
        return nothing, Cell(0), nothing, nothing, Cell("", EMPTY_CELL)
    share = (
        f"{tools.failed:,} ({format_share(tools.failed, tools.calls, decimals=0)})" if tools.failed else "0"
    )
    style = "bad" if use.faults >= ALARMING_SHARE * tools.calls else ""
    build_href = partial(keep_period, request, TURNS_PATH, tool=name)
    return (
        Cell(tools.failed, share, build_href(outcome=ANY_FAILURE), style=style),
        Cell(tools.calls, href=build_href()),
        Cell(tools.refused, href=build_href(outcome="refused")),
        replace(use.malformed, href=build_href(outcome="refused:arguments")),
        seconds,
    )


def build_source_table(all_sources: Sequence[Source], infos: Sequence[ToolInfo]) -> DataTable:
    rows = tuple(
        (
            Cell(source.name, spell_out(source.name), build_tool_path(source.name)),
            Cell(ENGLISH(formatting.SOURCE_KINDS[source.kind])),
            Cell(_describe_source(source)),
            Cell(spell_out(source.address)),
            Cell(sum(info.source is not None and info.source.name == source.name for info in infos)),
        )
        for source in all_sources
    )
    return DataTable("sources", "Sources", _SOURCE_COLUMNS, rows, "Nothing was added to the built-in tools.")


def _describe_source(source: Source) -> str:
    state = formatting.format_enabled(ENGLISH, source)
    return f"{state}: {spell_out(source.trouble, 200)}" if source.trouble else state
