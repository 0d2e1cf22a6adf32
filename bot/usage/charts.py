"""What a chart shows, as JSON: panels of bars by day, or by another grouping of a report. Pure.

There are two steps, so that a gateway can run the second in a process of its own: this module collects what
the picture shows, `chart_image` draws it.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from bot.translations.translator import ENGLISH, Translator
from bot.usage.chart_image import ChartJson
from bot.usage.figures import get_known
from bot.usage.intervals import INTERVAL_ORDER, column_name
from bot.usage.plain_text import escape_for_terminal
from bot.usage.report import INTERVAL_COLUMNS, TIME_GROUPINGS, ReportGroup, UsageReport, group_label

CHART_DAYS = 30  # of a person's chart, also where nothing happened
MAX_GROUPS = 31  # groups of one picture
UNDRAWABLE_LANGUAGES = frozenset({"zh"})  # of which the font has no characters; their charts are in English
_MAX_LABEL_CHARACTERS = 24  # characters of a group's label
_EPOCH = date(1970, 1, 1)
_COLOURS = (
    *("#4e79a7", "#a0cbe8", "#bab0ac", "#86bcb6", "#f1ce63", "#d7b5a6", "#59a14f", "#8cd17d"),
    *("#b6992d", "#b07aa1", "#d4a6c8", "#499894", "#ff9d9a", "#e15759", "#79706e"),
)
_INTERVAL_COLOURS = dict(zip(INTERVAL_ORDER, _COLOURS, strict=True))
_ANSWER_COLOUR = "#3d7ff0"
_CANVAS_COLOUR = "#4e79a7"
_CACHED_COLOUR = "#f28e2b"
_TOOL_OUTCOMES = {
    "ok": ("ok", "#59a14f"),
    "failed": ("not well", "#e15759"),
    "open": ("not ended", "#bab0ac"),
}


def build_daily_chart(
    report: UsageReport, last_day: date, title: str, translate: Translator, *, with_canvases: bool
) -> ChartJson:
    """The chart of the CHART_DAYS days up to `last_day` of a report by day.

    It shows the answers of each day, and on request the canvases below.
    """
    groups_by_day = {group.key: group for group in report.groups}
    last = (last_day - _EPOCH).days
    days = range(last - CHART_DAYS + 1, last + 1)
    groups = [groups_by_day.get(day) or ReportGroup(day, group_label("day", day)) for day in days]
    answers = [_known_answers(group) for group in groups]
    panels = [_build_panel(translate("Answers a day"), _ANSWER_COLOUR, answers)]
    if with_canvases:
        heading = translate("Canvases a day, estimated")
        incomplete = [_has_missing_counts(group) for group in groups]
        canvases = [_known_canvases(group) for group in groups]
        panels.append(_build_panel(heading, _CANVAS_COLOUR, canvases, incomplete))
    return {
        "title": title,
        "is by day": True,
        "labels": [group.label for group in groups],
        "panels": panels,
        "notes": _list_notes(panels, translate),
    }


def build_report_chart(report: UsageReport, title: str) -> ChartJson:
    """The chart of a report: stacked seconds by interval, canvases, and the cached share of the input.

    An unknown value is None and leaves a gap; the "at least" lists mark groups of which a part is unknown.
    """
    groups, left_out = _choose_groups(report)
    title = escape_for_terminal(title)
    if left_out:
        title += f" ({len(groups)} of {len(groups) + left_out} shown)"
    panels = _build_report_panels(groups, by_tool=report.query.by == "tool")
    return {
        "title": title,
        "is by day": report.query.by == "day",
        "labels": [escape_for_terminal(group.label)[:_MAX_LABEL_CHARACTERS] for group in groups],
        "panels": panels,
        "notes": _list_notes(panels, ENGLISH),
    }


def _build_report_panels(groups: Sequence[ReportGroup], *, by_tool: bool) -> list[ChartJson]:
    if by_tool:
        nowhere = [False] * len(groups)
        return [{"heading": "tool calls", "stacks": _build_outcome_stacks(groups), "at least": nowhere}]
    incomplete = [_has_missing_breakdowns(group) for group in groups]
    panels: list[ChartJson] = [
        {"heading": "seconds", "stacks": _build_interval_stacks(groups), "at least": incomplete}
    ]
    canvases = [_known_canvases(group) for group in groups]
    if any(value is not None for value in canvases):
        incomplete = [_has_missing_counts(group) for group in groups]
        panels.append(_build_panel("canvases, estimated", _CANVAS_COLOUR, canvases, incomplete))
    cached = [_cached_percentage(group) for group in groups]
    if any(cached):
        panels.append(_build_panel("cached share of the input, %", _CACHED_COLOUR, cached))
    return panels


def _build_panel(
    heading: str, colour: str, values: Sequence[float | None], at_least: Sequence[bool] = ()
) -> ChartJson:
    return {
        "heading": heading,
        "stacks": [{"name": heading, "colour": colour, "values": values}],
        "at least": at_least or [False] * len(values),
    }


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
    stacks = []
    for kind in INTERVAL_ORDER:
        index = INTERVAL_COLUMNS.index(column_name(kind))
        values = [_interval_seconds(group, index) for group in groups]
        stacks.append({"name": kind, "colour": _INTERVAL_COLOURS[kind], "values": values})
    return [stack for stack in stacks if any(stack["values"])]


def _known_answers(group: ReportGroup) -> int | None:
    if group.turns is None:
        return 0  # nobody asked anything
    return group.turn_sums.answered if group.turn_sums else None


def _interval_seconds(group: ReportGroup, interval_index: int) -> float | None:
    if group.turns is None:
        return 0.0  # nobody asked anything
    if group.turn_sums and group.turn_sums.settled:
        return group.turn_sums.seconds[interval_index]
    return None


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


def _known_canvases(group: ReportGroup) -> int | None:
    calls = group.calls
    if calls is None and not group.turns:
        return 0
    return None if calls is None else get_known(calls.canvases, calls.canvases_known, calls.costing)


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
