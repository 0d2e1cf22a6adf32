"""A check's report as lines for people and as JSON for scripts. Pure."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from bot.check.findings import WORST_FIRST, CheckReport, Finding

WIDTH: Final = 110
_NAME_WIDTH: Final = 24
_STATUS_WIDTH: Final = 9


def render_lines(report: CheckReport) -> Iterator[str]:
    """The table: a row a finding; what it means and what mends it where something is wrong."""
    yield f"Check of {report.url}"
    yield ""
    for finding in report.findings:
        yield from _finding_lines(finding)
    yield ""
    counts = Counter(finding.status for finding in report.findings)
    told = ", ".join(f"{counts[status]} {status}" for status in WORST_FIRST if counts[status])
    yield f"{told} · {report.calls} calls of at most {report.max_calls}, {report.seconds:.1f} s"


def render_json(report: CheckReport) -> str:
    """One object: the endpoint, the worst status, the findings as a list, and how the check went."""
    told = {
        "endpoint": report.url,
        "worst": report.worst,
        "exit_code": report.exit_code,
        "stopped": report.stopped,
        "calls": report.calls,
        "most_calls": report.max_calls,
        "seconds": round(report.seconds, 3),
        "template": report.template,
        "findings": [asdict(finding) for finding in report.findings],
    }
    return json.dumps(told, indent=2)


def _finding_lines(finding: Finding) -> Iterator[str]:
    first, *rest = textwrap.wrap(finding.seen, WIDTH - _NAME_WIDTH - _STATUS_WIDTH) or [""]
    yield f"{finding.status:<{_STATUS_WIDTH}}{finding.name:<{_NAME_WIDTH}}{first}"
    for line in rest:
        yield " " * (_STATUS_WIDTH + _NAME_WIDTH) + line
    if finding.status in {"pass", "unknown"}:
        return
    more = [f"It matters: {finding.meaning}.", *([f"Mend: {finding.mend}"] if finding.mend else [])]
    for text in more:
        for line in textwrap.wrap(text, WIDTH - _NAME_WIDTH - _STATUS_WIDTH, break_on_hyphens=False):
            yield " " * (_STATUS_WIDTH + _NAME_WIDTH) + line
