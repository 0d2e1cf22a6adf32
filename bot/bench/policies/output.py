"""A report of `bench thinking` as lines of text, or as JSON. Pure."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from bot.bench.policies.thinking import ThinkingReport
from bot.bench.policies.thinking_costs import PolicyCost

_SCORE_TITLES = (
    "needs tools, by source",
    "judged",
    "cases",
    "AUC",
    "recall",
    "false alarms",
    "unknown",
    "thinks",
)
_COST_TITLES = (
    "policy",
    "canvases",
    "prefill computed",
    "prompt",
    "calls",
    "turns thinking",
    "heavy ones",
    "switches",
)


def format_lines(report: ThinkingReport) -> Iterator[str]:
    """Tables of the figures, and below them the conditions."""
    told = [
        (one.source, one.judged, str(one.cases), _format_number(one.auc), *map(_format_percent, one.shares))
        for one in report.told
    ]
    yield from format_grid(_SCORE_TITLES, told)
    yield f"one decision: {report.pace.median:.0f} µs of processor time, 99 of 100 within {report.pace.longest:.0f} µs"
    yield ""
    if report.costs:
        yield from format_grid(_COST_TITLES, [_format_cost(one) for one in report.costs])
    for name, text in report.conditions:
        yield f"{name}: {text}"


def format_json(report: ThinkingReport) -> str:
    """The same for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)


def _format_cost(cost: PolicyCost) -> tuple[str, ...]:
    counts = (cost.canvases, cost.computed, cost.prompt, cost.calls, cost.turns)
    return (
        cost.policy,
        *(f"{count:,}" for count in counts),
        f"{cost.useful} of {cost.heavy}",
        str(cost.switches),
    )


def format_grid(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table and an empty line under it; all columns but the first lean to the right."""
    widths = [max(len(line[column]) for line in (titles, *rows)) for column in range(len(titles))]
    for number, line in enumerate((titles, *rows)):
        first, *others = zip(line, widths, strict=True)
        yield "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]).rstrip()
        if number == 0:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))
    yield ""


def _format_number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}"


def _format_percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %"
