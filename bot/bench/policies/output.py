"""A report of `bench thinking` as lines of text, or as JSON. Pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from bot.bench.policies.thinking import ThinkingReport, ThinkingScore, ThinkingShare
from bot.tables import Line, TextTable

_SCORE_TITLES = ("turns that think", "heavy", "n", "one call", "n", "chat", "n", "AUC", "unsure")


def format_lines(report: ThinkingReport) -> Iterator[Line]:
    """Tables of the figures, and below them the conditions."""
    yield from format_scores(report.scores)
    pace = report.pace
    yield f"one decision: {pace.median:.0f} µs of processor time, 99 of 100 within {pace.longest:.0f} µs"
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def format_scores(scores: Iterable[ThinkingScore]) -> Iterator[Line]:
    """One row for each source and language."""
    rows = [
        (
            score.group,
            *_format_share(score.heavy),
            *_format_share(score.one_call),
            *_format_share(score.chat),
            _format_number(score.auc),
            _format_percent(score.unsure),
        )
        for score in scores
    ]
    yield TextTable("", _SCORE_TITLES, rows)
    yield ""


def _format_share(share: ThinkingShare) -> tuple[str, str]:
    return _format_percent(share.thinks), str(share.cases)


def format_json(report: Any) -> str:
    """The report of this bench or of another one of policies, for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)


def _format_number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}"


def _format_percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %"
