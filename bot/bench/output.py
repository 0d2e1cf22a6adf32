"""A report as lines of text, or as JSON. Pure."""

import json
from collections.abc import Iterator

from bot.bench.endpoint.result import STOPPED
from bot.bench.harness.bots import LABELS
from bot.bench.harness.statistics import ORDER, Report, Row, Value

_HEAD = ("", *(LABELS[name] for name in ORDER), "ours / memory", "ours, at most", "")


def lines(report: Report) -> Iterator[str]:
    """A table of the figures, and below it the conditions."""
    if not report.whole:
        yield f"NOT WHOLE: {STOPPED} What follows was measured before that."
    cells = [_HEAD, *(_cells(row) for row in report.rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    for number, line in enumerate(cells):
        first, *others = (text.rjust(width) for text, width in zip(line, widths, strict=True))
        yield "  ".join([line[0].ljust(len(first)), *others]).rstrip()
        if number == 0:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def as_json(report: Report) -> str:
    """The same for machines."""
    rows = [
        {
            "key": row.key,
            "label": row.label,
            "unit": row.unit,
            **row.values,
            "ratio": row.ratio,
            "limit": _limit(row),
            "verdict": row.verdict,
        }
        for row in report.rows
    ]
    return json.dumps(
        {"whole": report.whole, "rows": rows, "conditions": dict(report.conditions), "holds": report.holds},
        indent=1,
    )


def _limit(row: Row) -> Value:
    if row.limit is None:
        return None
    if row.limit.wanted is None:
        return row.limit.most
    return row.limit.wanted


def _cells(row: Row) -> tuple[str, ...]:
    label = f"{row.label}, {row.unit}" if row.unit else row.label
    values = (_text(row.values.get(name), row.digits) for name in ORDER)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (label, *values, ratio, _most(row), row.verdict)


def _most(row: Row) -> str:
    if row.limit is None:
        return ""
    if row.limit.base is None:
        return row.limit.words
    return f"{row.limit.words} = {row.limit.most:,.{row.digits}f}"


def _text(value: Value, digits: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    return f"{value:,.{digits}f}"
