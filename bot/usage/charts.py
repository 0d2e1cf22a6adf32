"""What a chart shows, as JSON: panels of bars by day, or by another grouping of a report. Pure.

There are two steps, so that a gateway can run the second in a process of its own: this module collects what
the picture shows, `chart_image` draws it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from bot.translations.translator import ENGLISH, Translator
from bot.usage.chart_image import ChartJson
from bot.usage.figures import format_count, get_known
from bot.usage.intervals import IntervalKind, column_name
from bot.usage.palette import TIME_KIND_NAMES, TIME_KINDS, ColourName
from bot.usage.plain_text import escape_for_terminal
from bot.usage.report import INTERVAL_COLUMNS, TIME_GROUPINGS, ReportGroup, UsageReport, group_label

CHART_DAYS = 30  # of a person's chart, also where nothing happened
MAX_GROUPS = 31  # groups of one picture
UNDRAWABLE_LANGUAGES = frozenset({"zh"})  # of which the font has no characters; their charts are in English
_MAX_LABEL_CHARACTERS = 24  # characters of a group's label
_EPOCH = date(1970, 1, 1)
_TOOL_OUTCOMES: Mapping[str, tuple[str, ColourName]] = {
    "ok": ("ok", "tool"),
    "failed": ("not well", "fault"),
    "open": ("not ended", "wait"),
}


def build_daily_chart(
    report: UsageReport, last_day: date, title: str, translate: Translator, *, with_output: bool
) -> ChartJson:
    """The chart of the CHART_DAYS days up to `last_day` of a report by day.

    It shows the answers of each day, and on request below what was written.
    """
    groups_by_day = {group.key: group for group in report.groups}
    last = (last_day - _EPOCH).days
    days = range(last - CHART_DAYS + 1, last + 1)
    groups = [groups_by_day.get(day) or ReportGroup(day, group_label("day", day)) for day in days]
    answers = [_known_answers(group) for group in groups]
    panels = [_build_panel(translate("Answers a day"), "turn", answers)]
    if with_output:
        heading = translate("Canvases a day, estimated")
        if not report.output_unit.has_canvases:
            heading = translate("Tokens written a day")
        incomplete = [_has_missing_counts(group) for group in groups]
        known = [_get_known_output(group, report.output_unit.has_canvases) for group in groups]
        panels.append(_build_panel(heading, "canvas", known, incomplete))
    return {
        "title": title,
        "is by day": True,
        "labels": [group.label for group in groups],
        "panels": [_add_total(panel) for panel in panels],
        "notes": _list_notes(panels, translate),
    }


def build_report_chart(report: UsageReport, title: str) -> ChartJson:
    """The chart of a report: stacked seconds by interval, the output, and the cached share of the input.

    An unknown value is None and leaves a gap; the "at least" lists mark groups of which a part is unknown.
    """
    groups, left_out = _choose_groups(report)
    title = escape_for_terminal(title)
    if left_out:
        title += f" ({len(groups)} of {len(groups) + left_out} shown)"
    panels = _build_report_panels(report, groups)
    return {
        "title": title,
        "is by day": report.query.by == "day",
        "labels": [escape_for_terminal(group.label)[:_MAX_LABEL_CHARACTERS] for group in groups],
        "panels": panels,
        "notes": _list_notes(panels, ENGLISH),
    }


def _build_report_panels(report: UsageReport, groups: Sequence[ReportGroup]) -> list[ChartJson]:
    if report.query.by == "tool":
        nowhere = [False] * len(groups)
        return [{"heading": "tool calls", "stacks": _build_outcome_stacks(groups), "at least": nowhere}]
    incomplete = [_has_missing_breakdowns(group) for group in groups]
    panels: list[ChartJson] = [
        {"heading": "seconds", "stacks": _build_interval_stacks(groups), "at least": incomplete}
    ]
    known = [_get_known_output(group, report.output_unit.has_canvases) for group in groups]
    if any(value is not None for value in known):
        incomplete = [_has_missing_counts(group) for group in groups]
        heading = "canvases, estimated" if report.output_unit.has_canvases else "tokens written"
        panels.append(_build_panel(heading, "canvas", known, incomplete))
    cached = [_cached_percentage(group) for group in groups]
    if any(cached):
        panels.append(_build_panel("cached share of the input, %", "turn", cached))
    return panels


def _build_panel(
    heading: str, colour: ColourName, values: Sequence[float | None], at_least: Sequence[bool] = ()
) -> ChartJson:
    return {
        "heading": heading,
        "stacks": [{"name": heading, "colour": colour, "values": values}],
        "at least": at_least or [False] * len(values),
    }


def _add_total(panel: ChartJson) -> ChartJson:
    """The panel of one stack with the sum of all its groups."""
    (stack,) = panel["stacks"]
    is_complete = None not in stack["values"] and True not in panel["at least"]
    known = sum(value or 0 for value in stack["values"])
    return {**panel, "total": format_count(known, is_complete=is_complete)}


def _list_notes(panels: Iterable[ChartJson], translate: Translator) -> list[str]:
    """What the marks in the panels mean, if there are any."""
    notes = []
    if any(True in panel["at least"] for panel in panels):
        notes.append(translate("≥ at least: not every count is known"))
    if any(None in stack["values"] for panel in panels for stack in panel["stacks"]):
        notes.append(translate("? unknown"))
    return notes


def _choose_groups(report: UsageReport) -> tuple[Sequence[ReportGroup], int]:
    """The groups of the picture, the latest days and hours or the first others; how many are left out."""
    groups = report.shown_groups
    if report.query.by == "day":
        groups = tuple(_fill_missing_days(groups))
    if report.query.by in TIME_GROUPINGS:
        return groups[-MAX_GROUPS:], max(0, len(groups) - MAX_GROUPS)
    return groups[:MAX_GROUPS], max(0, len(groups) - MAX_GROUPS)


def _fill_missing_days(groups: Iterable[ReportGroup]) -> Iterator[ReportGroup]:
    """The days, and those between them on which nothing happened."""
    next_day = None
    for group in groups:
        day = int(group.key or 0)
        if next_day is not None:
            for missing_day in range(next_day, day):
                yield ReportGroup(missing_day, group_label("day", missing_day))
        yield group
        next_day = day + 1


def _build_interval_stacks(groups: Sequence[ReportGroup]) -> list[ChartJson]:
    """A stack for each kind of time: fifteen intervals would need more colours than can be told apart."""
    stacks = []
    for time_kind, name in TIME_KIND_NAMES.items():
        intervals = [interval for interval, kind in TIME_KINDS.items() if kind == time_kind]
        values = [_sum_intervals(group, intervals) for group in groups]
        stacks.append({"name": name, "colour": time_kind, "values": values})
    return [stack for stack in stacks if any(stack["values"])]


def _known_answers(group: ReportGroup) -> int | None:
    if group.turns is None:
        return 0  # nobody asked anything
    return group.turn_sums.answered if group.turn_sums else None


def _sum_intervals(group: ReportGroup, intervals: Iterable[IntervalKind]) -> float | None:
    if group.turns is None:
        return 0.0  # nobody asked anything
    if not group.turn_sums or not group.turn_sums.settled:
        return None
    seconds: dict[str, float] = dict(zip(INTERVAL_COLUMNS, group.turn_sums.seconds, strict=True))
    return math.fsum(seconds[column_name(interval)] for interval in intervals)


def _build_outcome_stacks(groups: Sequence[ReportGroup]) -> list[ChartJson]:
    usages = [group.tools for group in groups if group.tools]
    values = {
        "ok": [usage.outcomes.get("ok", 0) for usage in usages],
        "failed": [usage.failed for usage in usages],
        "open": [usage.outcomes.get(None, 0) for usage in usages],
    }
    return [
        {"name": name, "colour": colour, "values": values[outcome]}
        for outcome, (name, colour) in _TOOL_OUTCOMES.items()
    ]


def _get_known_output(group: ReportGroup, has_canvases: bool) -> int | None:
    """In canvases, or in tokens."""
    calls = group.calls
    if calls is None:
        return None if group.turns else 0
    if has_canvases:
        return get_known(calls.canvases, calls.canvases_known, calls.costing)
    return get_known(calls.output, calls.output_known, calls.calls)


def _cached_percentage(group: ReportGroup) -> float | None:
    if group.calls is None:
        return 0.0  # nothing was asked
    if not group.calls.cached_of:
        return None
    return 100 * group.calls.cached / group.calls.cached_of


def _has_missing_breakdowns(group: ReportGroup) -> bool:
    return group.turns is not None and 0 < group.turns.settled < group.turns.turns


def _has_missing_counts(group: ReportGroup) -> bool:
    calls = group.calls
    if calls is None or not calls.canvases_known:
        return False
    return calls.canvases_known < calls.costing or calls.partial > 0
