"""A load report as lines of text, or as JSON. Pure."""

import json
from collections.abc import Iterator

from bot.bench.endpoint.result import STOPPED_BY_HAND
from bot.tables import Line, TextTable
from tests.bench.harness.bots import BOT_LABELS
from tests.bench.harness.figures import BOT_ORDER, Figure, FigureLimit, FigureValue, LoadReport, Spread

_TITLES = ("", *(BOT_LABELS[name] for name in BOT_ORDER), "ours / memory", "limit", "")


def format_lines(report: LoadReport) -> Iterator[Line]:
    """A table of the figures, medians with (lowest–highest) of the runs, and below it the conditions."""
    if not report.is_complete:
        yield f"NOT WHOLE: {STOPPED_BY_HAND} What follows was measured before that."
    for failure in report.failures:
        yield f"FAILED: {failure}"
    yield TextTable("", _TITLES, [_format_figure(figure) for figure in report.figures])
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def format_json(report: LoadReport) -> str:
    """The figures and conditions for machines: medians, and [lowest, highest] of several runs."""
    return json.dumps(
        {
            "whole": report.is_complete,
            "failures": report.failures,
            "rows": [_build_record(figure) for figure in report.figures],
            "conditions": dict(report.conditions),
            "holds": report.has_passed,
        },
        indent=1,
    )


def _build_record(figure: Figure) -> dict[str, object]:
    row = figure.row
    spreads = {name: figure.get_spread(name) for name in BOT_ORDER} | {"ratio": figure.ratio}
    return {
        "key": row.key,
        "label": row.label,
        "unit": row.unit,
        **{name: figure.get_value(name) for name in row.values},
        "ratio": figure.ratio.median if figure.ratio else None,
        "runs": len(figure.runs),
        "spread": {
            name: [spread.lowest, spread.highest]
            for name, spread in spreads.items()
            if spread is not None and len(figure.runs) > 1
        },
        "limit": {"kind": row.limit.kind, "value": row.limit.value} if row.limit else None,
        "verdict": figure.verdict,
    }


def _format_figure(figure: Figure) -> tuple[str, ...]:
    row = figure.row
    label = f"{row.label}, {row.unit}" if row.unit else row.label
    values = (
        _format_value(figure.get_value(name), figure.get_spread(name), row.digits) for name in BOT_ORDER
    )
    ratio = _format_value(figure.ratio.median, figure.ratio, 2) if figure.ratio else ""
    return (label, *values, ratio, _format_limit(row.limit), figure.verdict)


def _format_limit(limit: FigureLimit | None) -> str:
    if limit is None:
        return ""
    match limit.kind:
        case "answer":
            return _format_value(limit.value, None, 0)
        case "of memory loop":
            return f"≤ {limit.value:g} x memory"
        case "at least":
            return f"≥ {limit.value:,g}"
        case "at most":
            return f"≤ {limit.value:,g}"


def _format_value(value: FigureValue, spread: Spread | None, digits: int) -> str:
    """A value, and the lowest and highest behind it if they differ."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:,.{digits}f}"
    if spread is None or spread.lowest == spread.highest:
        return text
    return f"{text} ({spread.lowest:,.{digits}f}–{spread.highest:,.{digits}f})"
