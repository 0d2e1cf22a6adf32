"""The report for people and for scripts."""

import json

import pytest

from bot.check import output
from bot.check.findings import EXIT_CODES, CheckReport, Finding, FindingStatus
from tests.support.terminal_text import lay_out

PASSED = Finding("version", "pass", "vLLM 0.33.0.", "releases differ")
WARNED = Finding("abort", "warn", "A seat is kept. " * 10, "/stop should free it", "--a-flag")
UNKNOWN = Finding("seats", "unknown", "Not tried: it went away.", "so many at once")
FAILED = Finding("key", "fail", "Refused.", "who may come in")


def make_report(*findings: Finding) -> CheckReport:
    return CheckReport("http://gpu:8000/v1", findings, 37, 40, 2.34, template="0123456789ab")


def test_a_row_says_what_it_means_and_what_mends_it_where_something_is_wrong() -> None:
    text = lay_out(output.render_lines(make_report(PASSED, WARNED, UNKNOWN, FAILED)))
    lines = text.splitlines()
    assert "pass     version  vLLM 0.33.0." in text
    assert "releases differ" not in text
    assert "It matters: /stop should free it." in text
    assert "Fix: --a-flag" in text
    assert "so many at once" not in text
    assert lines[-1] == "1 fail, 1 warn, 1 unknown, 1 pass · 37 calls of at most 40, 2.3 s"


def test_scripts_get_one_object() -> None:
    content = json.loads(output.render_json(make_report(PASSED, WARNED)))
    assert content["findings"][1]["mend"] == "--a-flag"
    assert {key: content[key] for key in ("worst", "exit_code", "calls", "template", "stopped")} == {
        "worst": "warn",
        "exit_code": 3,
        "calls": 37,
        "template": "0123456789ab",
        "stopped": None,
    }


@pytest.mark.parametrize(
    ("findings", "worst"),
    [
        ((PASSED,), "pass"),
        ((PASSED, UNKNOWN), "unknown"),
        ((UNKNOWN, WARNED), "warn"),
        ((WARNED, FAILED, UNKNOWN), "fail"),
        ((), "unknown"),
    ],
)
def test_the_worst_finding_decides(findings: tuple[Finding, ...], worst: FindingStatus) -> None:
    assert make_report(*findings).worst == worst
    assert make_report(*findings).exit_code == EXIT_CODES[worst]


def test_an_unknown_finding_is_an_error() -> None:
    assert make_report(PASSED).get_finding("version") is PASSED
    with pytest.raises(KeyError):
        make_report(PASSED).get_finding("colour")
