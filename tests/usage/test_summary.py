"""The summary of a day or a week: whole days of the gateway's zone, nothing unknown shown as zero."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from bot.db.usage.usage_sums import ToolSums
from bot.usage.report import ReportQuery, ReportSums, UsageReport, build_report
from bot.usage.summary import SummaryPeriod, last_period, render_summary
from tests.support.report_sums import INTERVAL_SECONDS, UNKNOWN_SUMS, call_sums, turn_sums

BERLIN = ZoneInfo("Europe/Berlin")
MORNING = datetime(
    2026, 10, 26, 8, 0, tzinfo=BERLIN
).timestamp()  # a Monday, the day after the clocks went back
THURSDAY = SummaryPeriod(datetime(2026, 11, 19, tzinfo=UTC), 1)


def make_report(**sums: Any) -> UsageReport:
    plain: dict[str, Any] = {"calls": (), "retries": (), "turns": (), "tools": ()}
    return build_report(ReportQuery(), ReportSums(**(plain | sums)))


def make_report_by_user(*users: int) -> UsageReport:
    turns = [turn_sums(key=user) for user in users]
    return build_report(ReportQuery(by="user"), ReportSums([call_sums(key=None)], (), turns, ()))


def test_a_day_is_the_last_whole_one_even_if_it_had_25_hours():
    day = last_period("daily", MORNING, BERLIN)
    assert day.name == "Sunday, 25 October"
    assert day.scope.since is not None
    assert day.scope.until is not None
    assert day.scope.until - day.scope.since == 25 * 3600
    assert day.previous.scope.until == day.scope.since
    week = last_period("weekly", MORNING, BERLIN)
    assert week.name == "19 October to 25 October"
    assert week.previous.name == "12 October to 18 October"


def test_figures_of_a_day_beside_the_day_before():
    seen = make_report(
        calls=[call_sums(failed=1)],
        turns=[turn_sums()],
        tools=[ToolSums(None, "ok", 3, 3, 1.0), ToolSums(None, "error", 1, 1, 1.0)],
        total_durations={(None, "whole"): [10.0, 2.0], (None, "seat_wait"): [1.0]},
    )
    before = make_report(calls=[call_sums(canvases=9)], turns=[turn_sums(turns=7)])
    assert render_summary(THURSDAY, seen, make_report_by_user(5, 6), before).splitlines() == [
        "Usage, Thursday, 19 November (UTC)",
        "Turns: 2 of 2 people (the day before: 7)",
        "Canvases, estimated: 4 (the day before: 9)",
        "Tokens in: 2,000, cached 25.0 %",
        "Tokens out: 600",
        "Answers: half within 2.0 s, 95 of 100 within 10.0 s",
        "Waited for a seat: 1 turn, half of them under 1.0 s",
        "Model calls: 2, failed 1, stopped 0",
        "Tool calls: 4, failed 1",
    ]
    assert len(INTERVAL_SECONDS) == 12


def test_a_day_without_anything_and_one_of_which_little_is_known():
    week = SummaryPeriod(datetime(2026, 11, 16, tzinfo=UTC), 7)
    assert render_summary(week, make_report(), make_report_by_user(), make_report()).splitlines() == [
        "Usage, 16 November to 22 November (UTC)",
        "Turns: 0 of 0 people (the week before: 0)",
        "Model calls: none",
    ]
    lines = render_summary(
        THURSDAY,
        make_report(calls=[call_sums(**UNKNOWN_SUMS)], turns=[turn_sums()]),
        make_report_by_user(5),
        make_report(),
    ).splitlines()
    assert lines[1:5] == [
        "Turns: 2 of 1 person (the day before: 0)",
        "Canvases, estimated: unknown (the day before: 0)",
        "Tokens in: unknown, cached unknown",
        "Tokens out: unknown",
    ]
