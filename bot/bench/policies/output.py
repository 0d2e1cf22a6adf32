"""A report of `bench thinking` as lines of text, or as JSON. Pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from bot.bench.policies.thinking import ThinkingReport, ThinkingScore
from bot.bench.policies.thinking_costs import PolicyCost
from bot.tables import format_table

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
    "thought",
    "canvases",
    "prefill computed",
    "prompt",
    "calls",
    "turns thinking",
    "heavy ones",
    "switches",
    "seconds",
    "pays from",
)


def format_lines(report: ThinkingReport) -> Iterator[str]:
    """Tables of the figures, and below them the conditions."""
    yield from format_scores(report.told)
    pace = report.pace
    yield f"one decision: {pace.median:.0f} µs of processor time, 99 of 100 within {pace.longest:.0f} µs"
    yield ""
    if report.costs:
        rows = [_format_cost(cost) for cost in report.costs]
        yield from format_table(rows, headers=_COST_TITLES, rule=True)
        yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def format_scores(scores: Iterable[ThinkingScore]) -> Iterator[str]:
    """One row for each source of cases."""
    rows = [
        (
            score.source,
            score.judged,
            str(score.cases),
            _format_number(score.auc),
            *map(_format_percent, score.shares),
        )
        for score in scores
    ]
    yield from format_table(rows, headers=_SCORE_TITLES, rule=True)
    yield ""


def format_json(report: ThinkingReport) -> str:
    """The same for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)


def _format_cost(cost: PolicyCost) -> tuple[str, ...]:
    counts = (cost.thought_tokens, cost.canvases, cost.computed, cost.prompt, cost.calls, cost.turns)
    return (
        cost.policy,
        *(f"{count:,}" for count in counts),
        f"{cost.useful} of {cost.heavy}",
        str(cost.switches),
        f"{cost.seconds:.1f}",
        _format_percent(cost.pays_from),
    )


def _format_number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}"


def _format_percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %"
