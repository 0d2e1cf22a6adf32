"""What a chart of 30 days shows, as JSON: panels of a column a day. Pure.

There are two steps, so that a gateway can run the second in a process of its own: this module collects what
the picture shows, `chart_image` draws it.
"""

from collections.abc import Iterable, Sequence
from datetime import date

from bot.translations.translator import Translator
from bot.usage.chart_image import ChartJson
from bot.usage.figures import format_count, get_known
from bot.usage.palette import ColourName
from bot.usage.report import ReportGroup, UsageReport, group_label

CHART_DAYS = 30  # also where nothing happened
UNDRAWABLE_LANGUAGES = frozenset({"zh"})  # of which the font has no characters; their charts are in English
_EPOCH = date(1970, 1, 1)


def build_daily_chart(
    report: UsageReport, last_day: date, title: str, translate: Translator, *, with_output: bool
) -> ChartJson:
    """The chart of the CHART_DAYS days up to `last_day` of a report by day.

    It shows the answers of each day, and on request below what was written. An unknown value is None and
    leaves a gap; the "at least" lists mark days of which a part is unknown.
    """
    groups_by_day = {group.key: group for group in report.groups}
    last = (last_day - _EPOCH).days
    days = range(last - CHART_DAYS + 1, last + 1)
    groups = [groups_by_day.get(day) or ReportGroup(day, group_label("day", day)) for day in days]
    answers = [_known_answers(group) for group in groups]
    panels = [_build_panel(translate("Answers a day"), "turn", answers, [False] * CHART_DAYS)]
    if with_output:
        heading = translate("Canvases a day, estimated")
        if not report.output_unit.has_canvases:
            heading = translate("Tokens written a day")
        incomplete = [_has_missing_counts(group) for group in groups]
        known = [_get_known_output(group, report.output_unit.has_canvases) for group in groups]
        panels.append(_build_panel(heading, "canvas", known, incomplete))
    return {
        "title": title,
        "labels": [group.label for group in groups],
        "panels": panels,
        "notes": _list_notes(panels, translate),
    }


def _build_panel(
    heading: str, colour: ColourName, values: Sequence[int | None], at_least: Sequence[bool]
) -> ChartJson:
    is_complete = None not in values and True not in at_least
    total = format_count(sum(value or 0 for value in values), is_complete=is_complete)
    return {"heading": heading, "colour": colour, "values": values, "at least": at_least, "total": total}


def _list_notes(panels: Iterable[ChartJson], translate: Translator) -> list[str]:
    """What the marks in the panels mean, if there are any."""
    notes = []
    if any(True in panel["at least"] for panel in panels):
        notes.append(translate("≥ at least: not every count is known"))
    if any(None in panel["values"] for panel in panels):
        notes.append(translate("? unknown"))
    return notes


def _known_answers(group: ReportGroup) -> int | None:
    if group.turns is None:
        return 0  # nobody asked anything
    return group.turn_sums.answered if group.turn_sums else None


def _get_known_output(group: ReportGroup, has_canvases: bool) -> int | None:
    """In canvases, or in tokens."""
    calls = group.calls
    if calls is None:
        return None if group.turns else 0
    if has_canvases:
        return get_known(calls.canvases, calls.canvases_known, calls.costing)
    return get_known(calls.output, calls.output_known, calls.calls)


def _has_missing_counts(group: ReportGroup) -> bool:
    calls = group.calls
    if calls is None or not calls.canvases_known:
        return False
    return calls.canvases_known < calls.costing or calls.partial > 0
