"""A check's report as lines for people and as JSON for scripts. Pure."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from bot.check.findings import WORST_FIRST, Finding, Report

WIDTH: Final = 110
_NAME: Final = 24
_STATUS: Final = 9


def lines(report: Report) -> Iterator[str]:
    """The table: a row a finding; what it means and what mends it where something is wrong."""
    yield f"Check of {report.url}"
    yield ""
    for finding in report.findings:
        yield from _row(finding)
    yield ""
    counts = Counter(finding.status for finding in report.findings)
    told = ", ".join(f"{counts[status]} {status}" for status in WORST_FIRST if counts[status])
    yield f"{told} · {report.calls} calls of at most {report.most_calls}, {report.seconds:.1f} s"


def as_json(report: Report) -> str:
    """One object: the endpoint, the worst status, the findings as a list, and how the check went."""
    told = {
        "endpoint": report.url,
        "worst": report.worst,
        "exit_code": report.exit_code,
        "stopped": report.stopped,
        "calls": report.calls,
        "most_calls": report.most_calls,
        "seconds": round(report.seconds, 3),
        "template": report.template,
        "findings": [asdict(finding) for finding in report.findings],
    }
    return json.dumps(told, indent=2)


def _row(finding: Finding) -> Iterator[str]:
    first, *rest = textwrap.wrap(finding.seen, WIDTH - _NAME - _STATUS) or [""]
    yield f"{finding.status:<{_STATUS}}{finding.name:<{_NAME}}{first}"
    for line in rest:
        yield " " * (_STATUS + _NAME) + line
    if finding.status in {"pass", "unknown"}:
        return
    more = [f"It matters: {finding.meaning}.", *([f"Mend: {finding.mend}"] if finding.mend else [])]
    for text in more:
        for line in textwrap.wrap(text, WIDTH - _NAME - _STATUS, break_on_hyphens=False):
            yield " " * (_STATUS + _NAME) + line
