"""A check's report as lines for people and as JSON for scripts. Pure."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from bot.check.findings import WORST_FIRST, CheckReport, Finding
from bot.check.report import RULES
from bot.tables import Line, TextTable


def render_lines(report: CheckReport) -> Iterator[Line]:
    """The table: one row per finding; where something is wrong, also what it means and how to fix it."""
    yield f"Check of {report.url}"
    yield ""
    rows = [row for finding in _list_findings(report) for row in _finding_rows(finding)]
    yield TextTable("", (), rows, text_columns=3)
    yield ""
    counts = Counter(finding.status for finding in report.findings)
    summary = ", ".join(f"{counts[status]} {status}" for status in WORST_FIRST if counts[status])
    yield f"{summary} · {report.calls} calls of at most {report.max_calls}, {report.seconds:.1f} s"


def render_json(report: CheckReport) -> str:
    """One object: the endpoint, the worst status, the findings as a list, and how the check went."""
    content = {
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
    return json.dumps(content, indent=2)


def _list_findings(report: CheckReport) -> list[Finding]:
    """The findings; what an endpoint that does not answer leaves unknown is one of them."""
    if not any((finding.name, finding.status) == ("reachable", "fail") for finding in report.findings):
        return [*report.findings]
    names = {rule.name for rule in RULES}
    told = [
        finding for finding in report.findings if finding.status != "unknown" or finding.name not in names
    ]
    count = len(report.findings) - len(told)
    return [*told, Finding("", "unknown", f"{count} further checks need an endpoint.", "")]


def _finding_rows(finding: Finding) -> Iterator[tuple[str, str, str]]:
    yield finding.status, finding.name, _to_one_line(finding.seen)
    if finding.status in {"pass", "unknown"}:
        return
    yield "", "", _to_one_line(f"It matters: {finding.meaning}.")
    if finding.mend:
        yield "", "", _to_one_line(f"Fix: {finding.mend}")


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
