"""A load report as lines of text, or as JSON. Pure."""

import json
from collections.abc import Iterator

from bot.bench.endpoint.result import STOPPED_BY_HAND
from bot.bench.harness.bots import BOT_LABELS
from bot.bench.harness.statistics import BOT_ORDER, FigureRow, FigureValue, LoadReport
from bot.tables import format_table

_TITLES = ("", *(BOT_LABELS[name] for name in BOT_ORDER), "ours / memory", "ours, at most", "")


def format_lines(report: LoadReport) -> Iterator[str]:
    """A table of the figures, and below it the conditions."""
    if not report.is_complete:
        yield f"NOT WHOLE: {STOPPED_BY_HAND} What follows was measured before that."
    yield from format_table([_format_row(row) for row in report.rows], headers=_TITLES, rule=True)
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def format_json(report: LoadReport) -> str:
    """The figures and conditions for machines."""
    rows = [
        {
            "key": row.key,
            "label": row.label,
            "unit": row.unit,
            **row.values,
            "ratio": row.ratio,
            "limit": _limit_value(row),
            "verdict": row.verdict,
        }
        for row in report.rows
    ]
    return json.dumps(
        {
            "whole": report.is_complete,
            "rows": rows,
            "conditions": dict(report.conditions),
            "holds": report.has_passed,
        },
        indent=1,
    )


def _limit_value(row: FigureRow) -> FigureValue:
    if row.limit is None:
        return None
    if row.limit.required is None:
        return row.limit.maximum
    return row.limit.required


def _format_row(row: FigureRow) -> tuple[str, ...]:
    label = f"{row.label}, {row.unit}" if row.unit else row.label
    values = (_format_value(row.values.get(name), row.digits) for name in BOT_ORDER)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (label, *values, ratio, _format_limit(row), row.verdict)


def _format_limit(row: FigureRow) -> str:
    if row.limit is None:
        return ""
    if row.limit.base is None:
        return row.limit.text
    return f"{row.limit.text} = {row.limit.maximum:,.{row.digits}f}"


def _format_value(value: FigureValue, digits: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    return f"{value:,.{digits}f}"
