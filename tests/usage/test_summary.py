"""What admins are told of a day or a week: whole days of the house's zone, nothing unknown shown as nought."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from bot.db.usage.usage_sums import ToolSums
from bot.usage.report import Found, Question, Report, report
from bot.usage.summary import Period, last, text
from tests.support.report_sums import SECONDS, UNKNOWN, calls, turns

BERLIN = ZoneInfo("Europe/Berlin")
MORNING = datetime(
    2026, 10, 26, 8, 0, tzinfo=BERLIN
).timestamp()  # a Monday, the day after the clocks went back
THURSDAY = Period(datetime(2026, 11, 19, tzinfo=UTC), 1)


def made(**found: Any) -> Report:
    plain: dict[str, Any] = {"calls": (), "again": (), "turns": (), "tools": ()}
    return report(Question(), Found(**(plain | found)))


def by_people(*people: int) -> Report:
    found = [turns(key=one) for one in people]
    return report(Question(by="user"), Found([calls(key=None)], (), found, ()))


def test_a_day_is_the_last_whole_one_even_if_it_had_25_hours():
    day = last("daily", MORNING, BERLIN)
    assert day.called == "Sunday, 25 October"
    assert day.scope.since is not None
    assert day.scope.until is not None
    assert day.scope.until - day.scope.since == 25 * 3600
    assert day.before.scope.until == day.scope.since
    week = last("weekly", MORNING, BERLIN)
    assert week.called == "19 October to 25 October"
    assert week.before.called == "12 October to 18 October"


def test_figures_of_a_day_beside_the_day_before():
    seen = made(
        calls=[calls(failed=1)],
        turns=[turns()],
        tools=[ToolSums(None, "ok", 3, 3, 1.0), ToolSums(None, "error", 1, 1, 1.0)],
        whole_durations={(None, "whole"): [10.0, 2.0], (None, "seat_wait"): [1.0]},
    )
    before = made(calls=[calls(canvases=9)], turns=[turns(turns=7)])
    assert text(THURSDAY, seen, by_people(5, 6), before).splitlines() == [
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
    assert len(SECONDS) == 12


def test_a_day_without_anything_and_one_of_which_little_is_known():
    week = Period(datetime(2026, 11, 16, tzinfo=UTC), 7)
    assert text(week, made(), by_people(), made()).splitlines() == [
        "Usage, 16 November to 22 November (UTC)",
        "Turns: 0 of 0 people (the week before: 0)",
        "Model calls: none",
    ]
    lines = text(THURSDAY, made(calls=[calls(**UNKNOWN)], turns=[turns()]), by_people(5), made()).splitlines()
    assert lines[1:5] == [
        "Turns: 2 of 1 person (the day before: 0)",
        "Canvases, estimated: unknown (the day before: 0)",
        "Tokens in: unknown, cached unknown",
        "Tokens out: unknown",
    ]
