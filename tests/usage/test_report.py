"""Sums become a report: ordered groups with labels, their total, and percentiles where they are known."""

from typing import Any

from bot.db.usage.usage_sums import RetrySums, Scope, ToolSums, TurnCounts
from bot.usage.json_records import build_record
from bot.usage.local_times import format_utc, start_of_day
from bot.usage.report import (
    NO_TURN_LABEL,
    Grouping,
    Percentiles,
    ReportQuery,
    ReportSums,
    ToolUsage,
    UsageReport,
    build_report,
    format_person,
    group_label,
)
from bot.usage.tables import build_sections
from tests.support.report_sums import INTERVAL_SECONDS, call_sums, turn_sums


def make_report(by: Grouping | None, **sums: Any) -> UsageReport:
    plain: dict[str, Any] = {"calls": (), "retries": (), "turns": (), "tools": ()}
    return build_report(ReportQuery(Scope(), by), ReportSums(**(plain | sums)))


def test_nothing_found_is_an_empty_report():
    assert make_report(None).is_empty
    assert not make_report(None, calls=[call_sums()]).is_empty
    assert not make_report(None, turns=[turn_sums()]).is_empty
    assert not make_report(None, tools=[ToolSums(None, "ok", 1, 1, 0.5)]).is_empty


def test_without_groups_there_is_the_whole_alone():
    report = make_report(None, calls=[call_sums()], turns=[turn_sums()])
    assert report.groups == ()
    assert report.shown_groups == (report.total,)
    assert report.total.label == "all"


def test_the_whole_is_all_groups_added_up():
    report = make_report(
        "user",
        calls=[call_sums(5), call_sums(6, calls=3), call_sums(None)],
        turns=[turn_sums(5), turn_sums(6)],
    )
    assert report.total.calls == call_sums(
        None,
        **{name: 3 * value for name, value in OTHER_CALL_SUMS.items()},
        calls=7,
    )
    assert report.total.turn_sums is not None
    assert report.total.turn_sums.turns == 4
    assert report.total.turn_sums.seconds == tuple(2 * value for value in INTERVAL_SECONDS)


OTHER_CALL_SUMS = {
    name: getattr(call_sums(), name) for name in call_sums().__slots__ if name not in {"key", "calls"}
}


class CountingKey(str):
    """A key that counts how often it is compared with another."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountingKey.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_of_many_groups_none_is_looked_for_among_all_others():
    keys = [CountingKey(number) for number in range(400)]
    some = {"calls": [call_sums(key) for key in keys], "turns": [turn_sums(key) for key in keys]}
    some |= {
        "tools": [ToolSums(key, "ok", 1, 1, 0.5) for key in keys],
        "retries": [RetrySums(keys[-1], "empty", 2)],
    }
    report = make_report("chat", **some)
    assert CountingKey.comparisons < 20 * len(keys)
    assert len(report.groups) == len(keys)
    assert sum(group.retries_by_reason.get("empty", 0) for group in report.groups) == 2


def test_days_stand_in_order_and_all_else_by_canvases():
    days = make_report("day", calls=[call_sums(20_001), call_sums(None), call_sums(20_000)])
    assert [group.label for group in days.groups] == ["2024-10-04", "2024-10-05", NO_TURN_LABEL]
    users = make_report("user", calls=[call_sums(5), call_sums(6, canvases=9), call_sums(None, canvases=0)])
    assert [group.label for group in users.groups] == ["6", "5", NO_TURN_LABEL]


def test_each_group_has_what_is_its_own():
    report = make_report(
        "user",
        calls=[call_sums(5), call_sums(6)],
        turns=[turn_sums(5)],
        tools=[ToolSums(5, "ok", 3, 3, 1.5), ToolSums(5, "error", 1, 1, 0.5), ToolSums(6, None, 1, 0, 0.0)],
        retries=[RetrySums(5, "empty", 2), RetrySums(6, "brake", 1), RetrySums(6, "silent", 1)],
        durations={(5, "whole"): [3.0, 1.0], (6, "whole"): []},
    )
    five, six = report.groups
    assert five.tools == ToolUsage(4, {"ok": 3, "error": 1}, 4, 2.0)
    assert five.tools.failed == 1
    assert six.tools is not None
    assert six.tools.failed == 0
    assert (five.retries_by_reason, six.retries_by_reason) == ({"empty": 2}, {"brake": 1, "silent": 1})
    assert (five.empty_replies, six.empty_replies) == (2, 1)
    assert five.percentiles == {"whole": Percentiles(2, 4.0, 1.0, 3.0, 3.0)}
    assert (six.turns, six.percentiles) == (None, {})
    assert report.total.retries_by_reason == {"empty": 2, "brake": 1, "silent": 1}


def test_a_turn_that_ended_empty_counts_as_an_empty_reply():
    report = make_report(
        None, calls=[call_sums()], turns=[turn_sums(empty=2)], retries=[RetrySums(None, "empty", 1)]
    )
    assert report.total.empty_replies == 3
    assert make_report("tool", tools=[ToolSums("clock", "ok", 1, 1, 0.5)]).groups[0].empty_replies is None


def test_of_turns_that_are_only_counted_nothing_else_is_known():
    counts = [TurnCounts(20_000, turns=2, failed=1, settled=2), TurnCounts(20_001, 3, 0, 1)]
    report = make_report("day", calls=[call_sums(20_000), call_sums(20_001)], turns=counts)
    assert report.total.turns == TurnCounts(None, turns=5, failed=1, settled=3)
    assert (report.total.turn_sums, report.total.empty_replies) == (None, None)
    assert "thinking_turns" not in build_record(report.total, "all")
    assert "Seconds by interval" not in [section.title for section in build_sections(report)]


def test_models_and_purposes_do_not_tell_turns_apart():
    report = make_report(
        "model", calls=[call_sums("a")], turns=[turn_sums()], tools=[ToolSums(None, "ok", 1, 1, 0.5)]
    )
    (entry,) = report.groups
    assert (entry.label, entry.turns, entry.tools) == ("a", None, None)
    assert report.total.turns == turn_sums()


def test_tools_are_grouped_by_name_with_the_most_called_first():
    report = make_report(
        "tool", calls=[call_sums()], tools=[ToolSums("a", "ok", 1, 1, 0.1), ToolSums("b", "ok", 2, 2, 0.1)]
    )
    assert [group.label for group in report.groups] == ["b", "a"]
    assert all(group.calls is None for group in report.groups)
    assert report.total.calls == call_sums()


def test_names_of_groups_and_moments():
    assert group_label(None, None) == "all"
    assert group_label("chat", "5:7") == "5:7"
    names = {5: "Ann", -100: "Family"}
    people_and_chats = [format_person(number, names) for number in ("5:7", "-100", "-100:3", "-5", "-")]
    assert people_and_chats == ["Ann (5:7)", "Family (-100)", "Family (-100:3)", "-5", "-"]
    assert format_utc(1_728_043_200.9) == "2024-10-04 12:00:00"
    assert start_of_day(1_728_043_200.9) == 1_728_000_000
