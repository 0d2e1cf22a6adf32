"""The summary of a day or a week: whole days of the gateway's zone, nothing unknown shown as zero."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from bot.db.usage.usage_sums import ToolSums
from bot.translations.translator import ENGLISH
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
    assert day.format_name(ENGLISH) == "Sun 25 Oct 2026"
    assert day.scope.since is not None
    assert day.scope.until is not None
    assert day.scope.until - day.scope.since == 25 * 3600
    assert day.previous.scope.until == day.scope.since
    week = last_period("weekly", MORNING, BERLIN)
    assert week.format_name(ENGLISH) == "19 Oct 2026 to 25 Oct 2026"
    assert week.previous.format_name(ENGLISH) == "12 Oct 2026 to 18 Oct 2026"


def test_figures_of_a_day_beside_the_day_before():
    seen = make_report(
        calls=[call_sums(failed=1)],
        turns=[turn_sums()],
        tools=[ToolSums(None, "ok", 3, 3, 1.0), ToolSums(None, "error", 1, 1, 1.0)],
        total_durations={(None, "whole"): [10.0, 2.0], (None, "seat_wait"): [1.0]},
    )
    before = make_report(calls=[call_sums(canvases=9)], turns=[turn_sums(turns=7)])
    assert render_summary(ENGLISH, THURSDAY, seen, make_report_by_user(5, 6), before).splitlines() == [
        "Usage, Thu 19 Nov 2026 (UTC)",
        "Turns: 2 (the day before: 7)",
        "People: 2",
        "Canvases, estimated: 4 (the day before: 9)",
        "Tokens in: 2,000, cached 25%",
        "Tokens out: 600",
        "Answers: half within 2 s, 95 of 100 within 10 s",
        "Waited for the model: 1 turn, 1 s",
        "Model calls: 2, failed 1, stopped 0",
        "Tool calls: 4, failed 1",
    ]
    assert len(INTERVAL_SECONDS) == 16


def test_a_day_without_anything_and_one_of_which_little_is_known():
    week = SummaryPeriod(datetime(2026, 11, 16, tzinfo=UTC), 7)
    text = render_summary(ENGLISH, week, make_report(), make_report_by_user(), make_report())
    assert text.splitlines() == [
        "Usage, 16 Nov 2026 to 22 Nov 2026 (UTC)",
        "Turns: 0 (the week before: 0)",
        "People: 0",
        "Model calls: none",
    ]
    lines = render_summary(
        ENGLISH,
        THURSDAY,
        make_report(calls=[call_sums(**UNKNOWN_SUMS)], turns=[turn_sums()]),
        make_report_by_user(5),
        make_report(),
    ).splitlines()
    assert lines[1:6] == [
        "Turns: 2 (the day before: 0)",
        "People: 1",
        "Canvases, estimated: unknown (the day before: 0)",
        "Tokens in: unknown, cached unknown",
        "Tokens out: unknown",
    ]
