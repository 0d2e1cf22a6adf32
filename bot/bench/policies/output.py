"""A report of `bench thinking` as lines of text, or as JSON. Pure."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from bot.bench.policies.thinking import Report
from bot.bench.policies.thinking_costs import Cost

_TOLD = ("needs tools, by source", "judged", "cases", "AUC", "recall", "false alarms", "unknown", "thinks")
_COSTS = (
    "policy",
    "canvases",
    "prefill computed",
    "prompt",
    "calls",
    "turns thinking",
    "heavy ones",
    "switches",
)


def lines(report: Report) -> Iterator[str]:
    """Tables of the figures, and below them the conditions."""
    told = [
        (one.source, one.judged, str(one.cases), _number(one.auc), *map(_percent, one.shares))
        for one in report.told
    ]
    yield from grid(_TOLD, told)
    yield f"one decision: {report.pace.median:.0f} µs of processor time, 99 of 100 within {report.pace.longest:.0f} µs"
    yield ""
    if report.costs:
        yield from grid(_COSTS, [_cost(one) for one in report.costs])
    for name, text in report.conditions:
        yield f"{name}: {text}"


def as_json(report: Report) -> str:
    """The same for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)


def _cost(one: Cost) -> tuple[str, ...]:
    counts = (one.canvases, one.computed, one.prompt, one.calls, one.turns)
    return (
        one.policy,
        *(f"{count:,}" for count in counts),
        f"{one.useful} of {one.heavy}",
        str(one.switches),
    )


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table and an empty line under it; all columns but the first lean to the right."""
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    for number, line in enumerate((head, *rows)):
        first, *others = zip(line, widths, strict=True)
        yield "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]).rstrip()
        if number == 0:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))
    yield ""


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}"


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %"
