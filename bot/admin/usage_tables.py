"""The tables of the screen Usage: by hour or day, and by person, chat, model, tool and purpose. Pure."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal
from zoneinfo import ZoneInfo

from bot.admin.components import build_url, cut
from bot.admin.data_table import Address, Cell, DataTable, NumberColumn, TableColumn
from bot.admin.filters import Filters, Period
from bot.admin.table_view import build_seconds_cell
from bot.admin.usage_figures import (
    CALL_COLUMNS,
    SHARES,
    SUM_COLUMNS,
    SUM_FILTERS,
    build_turns_url,
    list_sums,
    show_percentile,
)
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.usage.scope_filters import OUTSIDE_TOPICS
from bot.db.usage.usage_sums import HOUR_SECONDS
from bot.usage.report import ReportGroup, UsageReport, group_label

MAX_HOURS = 50  # a day and its neighbours by hour; longer periods by day
MAX_TIMES = 400  # hours or days that are shown, however few of them were used
_USAGE_PATH = f"{ADMIN_PATH}/usage"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAILED_CALLS = NumberColumn("failed_calls", "Failed calls")
_TOOL_COLUMNS = (
    NumberColumn("calls", "Calls"),
    NumberColumn("failed_calls", "Failed"),
    NumberColumn("mean_seconds", "Mean time"),
)


def choose_time_unit(period: Period) -> Literal["hour", "day"]:
    """The unit in which a period is shown."""
    return "hour" if period.until - period.since <= MAX_HOURS * HOUR_SECONDS else "day"


def fill_times(report: UsageReport, period: Period, zone: ZoneInfo) -> list[ReportGroup]:
    """The hours or days of a period, also those in which nothing happened; of a very long one the used."""
    by_key = {int(group.key): group for group in report.groups if group.key is not None}
    if not by_key:
        return []
    by = report.query.by
    first, last = (_find_time(moment, by, zone) for moment in (period.since, period.until - 0.001))
    if last - first >= MAX_TIMES:
        first = min(by_key)
    keys = range(min(first, *by_key), max(last, *by_key) + 1)
    return [by_key.get(key) or ReportGroup(key, group_label(by, key)) for key in keys]


def _find_time(moment: float, by: str | None, zone: ZoneInfo) -> int:
    """The key of the hour or day that a moment is in."""
    local = datetime.fromtimestamp(moment, zone).replace(tzinfo=UTC)
    return (local - _EPOCH) // timedelta(hours=1 if by == "hour" else 24)


def build_time_table(report: UsageReport, filters: Filters) -> DataTable:
    """What was used in each hour or day."""
    unit = "hour" if report.query.by == "hour" else "day"
    share_columns = (NumberColumn(f"{share}_seconds", f"{who} take at most") for share, who in SHARES.items())
    columns = (TableColumn("time", unit.title()), *SUM_COLUMNS, *share_columns)
    rows = tuple(
        (
            Cell(group.label),
            *_list_sum_cells(group, SUM_COLUMNS, filters, changes),
            *(show_percentile(group, share) for share in SHARES),
        )
        for group in fill_times(report, filters.period, ZoneInfo(filters.scope.zone))
        for changes in [describe_time(group, unit)]
    )
    return DataTable("times", f"By {unit}", columns, rows)


def describe_time(group: ReportGroup, unit: str | None) -> dict[str, str | None]:
    """The filters of one hour or day."""
    key = int(group.key or 0)
    if unit == "hour":
        begin = _EPOCH + timedelta(hours=key)
        times = begin.strftime("%Y-%m-%dT%H:%M"), (begin + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    else:
        times = (group.label, group.label)
    return {"period": None, "from": times[0], "to": times[1]}


def build_group_table(report: UsageReport, title: str, filters: Filters) -> DataTable:
    """What each group of a report used, the most canvases first; `title` is what the groups are."""
    by = report.query.by
    assert by is not None
    label_columns = [TableColumn(by, title)]
    if by == "user-model":
        label_columns = [
            TableColumn("user", "Person"),
            TableColumn("model", "Model"),
        ]
    chats_with_topics = {str(group.key).partition(":")[0] for group in report.groups if ":" in str(group.key)}
    rows = tuple(
        _build_row(group, by, filters, _describe_group(group, by, chats_with_topics))
        for group in report.groups
    )
    columns = (*label_columns, *_list_columns(by))
    return DataTable(by, f"By {title.lower()}", columns, rows, can_sort=True)


def _list_columns(by: str) -> tuple[TableColumn, ...]:
    match by:
        case "tool":
            return _TOOL_COLUMNS
        case "user" | "chat":
            return SUM_COLUMNS
    return (*CALL_COLUMNS, _FAILED_CALLS)


def _build_row(
    group: ReportGroup, by: str, filters: Filters, changes: dict[str, str | None]
) -> tuple[Cell, ...]:
    query = {**filters.query, **changes}
    href = partial(build_url, _USAGE_PATH, {"by": by, **query}) if changes else None
    labels = tuple(Cell(cut(text), href=href) for text in _list_labels(group, by))
    match by:
        case "tool":
            return (*labels, *_tool_cells(group, filters, changes))
        case "user" | "chat":
            return (*labels, *_list_sum_cells(group, SUM_COLUMNS, filters, changes))
    failed = Cell(group.calls.failed if group.calls else 0, href=_build_href(filters, changes))
    return (*labels, *_list_sum_cells(group, CALL_COLUMNS, filters, changes), failed)


def _list_labels(group: ReportGroup, by: str) -> Iterator[str]:
    if by != "user-model":
        yield group.label
    elif group.key is None:
        yield from (group.label, "")
    else:
        model = str(group.key).partition(" ")[2]
        yield from (group.label.removesuffix(f" {model}"), model)


def _describe_group(group: ReportGroup, by: str, chats_with_topics: Set[str]) -> dict[str, str | None]:
    """The filters of one group; none if it has no turns."""
    if group.key is None:
        return {}
    if by == "user-model":
        user, _, model = str(group.key).partition(" ")
        return {"user": user, "model": model}
    if by == "chat" and group.key in chats_with_topics:
        return {by: f"{group.key}{OUTSIDE_TOPICS}"}
    return {by: str(group.key)}


def _list_sum_cells(
    group: ReportGroup, columns: Iterable[TableColumn], filters: Filters, changes: dict[str, str | None]
) -> Iterator[Cell]:
    """The sums of these columns, each a link to its turns."""
    sums = list_sums(group)
    for column in columns:
        cell = sums[column.key]
        href = _build_href(filters, changes, **SUM_FILTERS.get(column.key, {}))
        yield replace(cell, href=href if cell.value != 0 else None)


def _tool_cells(group: ReportGroup, filters: Filters, changes: dict[str, str | None]) -> tuple[Cell, ...]:
    tools = group.tools
    assert tools is not None
    href = _build_href(filters, changes)
    mean = tools.seconds / tools.timed if tools.timed else None
    failed_href = _build_href(filters, changes, outcome="failure")
    return (
        Cell(tools.calls, href=href),
        Cell(tools.failed, href=failed_href),
        build_seconds_cell(mean, href),
    )


def _build_href(filters: Filters, changes: dict[str, str | None], **more: str) -> Address | None:
    """The turns of a group, with `more` filters; None for calls that belong to none."""
    return partial(build_turns_url, filters, **changes, **more) if changes else None
